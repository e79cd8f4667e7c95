// http/peer.h: the other end of a connection. Private to the layer.
#pragma once

#include <netinet/in.h>

struct peer {
    char address[INET6_ADDRSTRLEN]; // as text, without a port
    // The same, but the first half of an IPv6 address: one client has all that begin with it.
    char network[INET6_ADDRSTRLEN];
};

void peer_read(struct peer *peer, const struct sockaddr *address); // NULL: not known

// Unit peer.c: addresses of clients as text. Called by server.c for every connection.
#include "http/peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static void read_ipv6(struct peer *peer, struct in6_addr address)
{
    if (IN6_IS_ADDR_V4MAPPED(&address)) { // a socket for both families was listened on
        inet_ntop(AF_INET, &address.s6_addr[12], peer->address, sizeof peer->address);
        return;
    }
    inet_ntop(AF_INET6, &address, peer->address, sizeof peer->address);
    if (IN6_IS_ADDR_LOOPBACK(&address)) return;
    memset(&address.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &address, peer->network, sizeof peer->network);
}

void peer_read(struct peer *peer, const struct sockaddr *address)
{
    *peer = (struct peer){.address = "local"};
    if (address && address->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, peer->address,
                  sizeof peer->address);
    else if (address && address->sa_family == AF_INET6)
        read_ipv6(peer, ((const struct sockaddr_in6 *)address)->sin6_addr);
    if (!*peer->network) snprintf(peer->network, sizeof peer->network, "%s", peer->address);
}

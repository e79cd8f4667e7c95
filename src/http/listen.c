// Unit listen.c: opens the socket of a server. Done by us and not by libmicrohttpd, which cannot
// say why it failed.
#include "http/listen.h"

#include "http/http.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int resolve(const char *host, int port, struct sockaddr_storage *out, socklen_t *len,
                   det_err *err)
{
    const struct addrinfo hints = {.ai_family = strchr(host, ':') ? AF_INET6 : AF_INET,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    int rc = getaddrinfo(host, service, &hints, &found);
    if (rc) return det_fail(err, DET_EINVAL, "cannot listen on '%s': %s", host, gai_strerror(rc));
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *len = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

static int port_of(const struct sockaddr_storage *address)
{
    struct sockaddr_in in; // the port is at the same place for both families
    memcpy(&in, address, sizeof in);
    return ntohs(in.sin_port);
}

// The kernel shows us a connection when its first bytes are there. So silent ones cost nothing, and
// a request is read right after its connection was accepted, before others can push it out (see
// crowd.h). A system that cannot do this accepts them at once.
static void wait_for_bytes(int socket)
{
    const int patience_s = 5;
    setsockopt(socket, IPPROTO_TCP, TCP_DEFER_ACCEPT, &patience_s, sizeof patience_s);
}

int listen_open(const char *host, int port, int *fd, int *bound, det_err *err)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    int on = 1;
    if (port < 0 || port > 65535)
        return det_fail(err, DET_EINVAL, "a port is between 0 and 65535, not %d", port);
    int rc = resolve(host, port, &address, &len, err);
    if (rc) return rc;
    int s = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(s, (struct sockaddr *)&address, len) < 0 || listen(s, SOMAXCONN) < 0 ||
        getsockname(s, (struct sockaddr *)&address, &len) < 0) {
        rc = det_fail(err, errno == EADDRINUSE ? DET_ESTATE : DET_EIO,
                      "cannot listen on %s port %d: %s", host, port, strerror(errno));
        if (s >= 0) close(s);
        return rc;
    }
    wait_for_bytes(s);
    *fd = s;
    *bound = port_of(&address);
    return 0;
}

const char *http_near_host(const char *host)
{
    if (!host || !strcmp(host, "0.0.0.0")) return "127.0.0.1";
    return strcmp(host, "::") ? host : "::1";
}

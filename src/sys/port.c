// Unit port.c: finds free ports. Called by whoever starts programs that talk to each other.
//
// To bind a port and to let it go again only shows that it was free. Until the program that needs
// it comes to bind it, another one may be given the same. So whoever takes a port also binds a name
// in the abstract namespace of Unix sockets: like ports, those belong to a network namespace, and
// the system takes the name back when the process ends, however that happens.
#include "sys/port.h"

#include "sys/entropy.h"
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LOWEST = 15000, USUAL_END = 32768, LEAST = 1000, HIGHEST = 65535 };

// One behind the last port: where those begin that the system gives to outgoing connections.
static int end_of_range(void)
{
    int first = 0;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (f && fscanf(f, "%d", &first) != 1) first = 0;
    if (f) fclose(f);
    if (!first) return USUAL_END;
    return first >= LOWEST + LEAST ? first : HIGHEST + 1; // then there is no better place
}

static int lock_number(int number)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "det/port/%d", number);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || !bind(fd, (struct sockaddr *)&name, bytes)) return fd;
    close(fd);
    return -1;
}

// On every address; a socket for IPv6 stands for both kinds.
static bool is_free(int number)
{
    struct sockaddr_in6 both = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)number)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number)};
    int off = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has_six = fd >= 0 && !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (fd >= 0 && !has_six) close(fd);
    if (!has_six) fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    bool free = has_six ? !bind(fd, (struct sockaddr *)&both, sizeof both)
                        : !bind(fd, (struct sockaddr *)&four, sizeof four);
    close(fd);
    return free;
}

int port_take_from(int first, int n, struct port *out, det_err *err)
{
    uint32_t start;
    int rc = entropy_read(&start, sizeof start, err);
    if (rc) return rc;
    for (uint32_t i = 0; i < (uint32_t)n; i++) { // from a random one on, all of them
        int number = first + (int)((start % (uint32_t)n + i) % (uint32_t)n);
        int lock = lock_number(number);
        if (lock < 0) continue;
        if (is_free(number)) {
            *out = (struct port){number, lock};
            return 0;
        }
        close(lock);
    }
    return det_fail(err, DET_ELIMIT, "none of the ports from %d to %d is free", first,
                    first + n - 1);
}

int port_take(struct port *out, det_err *err)
{
    return port_take_from(LOWEST, end_of_range() - LOWEST, out, err);
}

void port_return(struct port *port)
{
    if (port->lock >= 0) close(port->lock);
    *port = PORT_NONE;
}

// Unit slow.c: ends connections that are too slow. Called by server.c at each phase of a request.
#include "http/slow.h"

#include "sys/clock.h"
#include <sys/socket.h>

enum { SWEEPS_PER_GRACE = 16 };

static void sweep_later(struct slow_list *list)
{
    loop_timer_set(list->loop, &list->sweep, list->grace_us / SWEEPS_PER_GRACE);
}

static void sweep(void *ctx)
{
    struct slow_list *list = ctx;
    int64_t now = clock_mono_us();
    for (struct slow_client *c = list->first; c; c = c->next) {
        if (c->until_us > now) continue;
        shutdown(c->fd, SHUT_RDWR); // libmicrohttpd sees the end and closes it
        c->until_us = INT64_MAX;
        list->n_dropped++;
    }
    if (list->first) sweep_later(list);
}

void slow_init(struct slow_list *list, struct loop *loop)
{
    list->loop = loop;
    list->sweep = (struct loop_timer){.fn = sweep, .ctx = list};
}

void slow_done(struct slow_list *list)
{
    loop_timer_clear(list->loop, &list->sweep);
}

void slow_add(struct slow_list *list, struct slow_client *c, int fd)
{
    *c = (struct slow_client){.fd = fd, .next = list->first};
    slow_begin(list, c, 0);
    if (!list->first) sweep_later(list);
    if (c->next) c->next->prev = c;
    list->first = c;
}

void slow_remove(struct slow_list *list, struct slow_client *client)
{
    if (client->next) client->next->prev = client->prev;
    if (client->prev)
        client->prev->next = client->next;
    else
        list->first = client->next;
}

void slow_begin(const struct slow_list *list, struct slow_client *client, uint64_t n_bytes)
{
    client->until_us = clock_mono_us() + list->grace_us;
    slow_earn(list, client, n_bytes);
}

void slow_earn(const struct slow_list *list, struct slow_client *client, uint64_t n_bytes)
{
    client->until_us += (int64_t)(n_bytes * 1000000 / (uint64_t)list->min_bytes_per_s);
}

void slow_idle(const struct slow_list *list, struct slow_client *client)
{
    client->until_us = clock_mono_us() + list->idle_us;
}

void slow_pause(struct slow_client *client)
{
    client->until_us = INT64_MAX;
}

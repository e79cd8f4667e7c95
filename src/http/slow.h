// http/slow.h: connections and until when they must have made progress. A client that sends a byte
// now and then keeps libmicrohttpd's own timer from ever firing, so each phase has an absolute end.
#pragma once

#include "sys/loop.h"
#include <stdbool.h>
#include <stdint.h>

struct slow_client {
    struct slow_client *prev, *next;
    int fd;
    int64_t until_us; // of the monotonic clock; INT64_MAX: no end
};

struct slow_list {
    struct loop *loop;
    struct slow_client *first;
    struct loop_timer sweep; // runs while there are connections
    int64_t grace_us, idle_us, min_bytes_per_s;
    uint64_t n_dropped;
};

void slow_init(struct slow_list *list, struct loop *loop);
void slow_done(struct slow_list *list);

void slow_add(struct slow_list *list, struct slow_client *client, int fd); // a head is expected
void slow_remove(struct slow_list *list, struct slow_client *client);

// A phase begins: a head, a body or an answer is to pass, within the grace time; each of its bytes
// earns the time that the slowest client we bear with needs for it.
void slow_begin(const struct slow_list *list, struct slow_client *client, uint64_t n_bytes);
void slow_earn(const struct slow_list *list, struct slow_client *client, uint64_t n_bytes);
void slow_idle(const struct slow_list *list, struct slow_client *client);
void slow_pause(struct slow_client *client); // it is our turn

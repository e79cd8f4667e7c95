// sys/loop.h: an event loop on epoll: descriptors, timers, and calls posted by other threads.
//   loop_new  loop_free  loop_run  loop_run_once  loop_stop  loop_watch  loop_unwatch  loop_post
//   loop_timer_set  loop_timer_clear  loop_times
//
// One thread runs a loop and everything is called by that thread, one thing at a time, so what the
// callbacks own needs no locks. Only loop_post() may be called by others.
//
//     static void tick(void *ctx) { ...; loop_timer_set(loop, &timer, 1000000); }
//     struct loop_timer timer = {.fn = tick, .ctx = &state};
//     loop_timer_set(loop, &timer, 0);
//     loop_run(loop);
#pragma once

#include "det/err.h"
#include <stddef.h>
#include <stdint.h>

struct loop;

struct loop *loop_new(det_err *err);
void loop_free(struct loop *loop); // calls that were posted and did not run yet are dropped

void loop_run(struct loop *loop);  // until loop_stop()
void loop_stop(struct loop *loop); // by the loop's thread; others post it

// Handles what is there, waiting for it at most max_wait_us (negative: as long as it takes).
void loop_run_once(struct loop *loop, int64_t max_wait_us);

// A descriptor, owned by the caller, unmoved while it is watched.
struct loop_watch {
    void (*fn)(void *ctx, uint32_t events); // EPOLLIN and so on
    void *ctx;
    int fd;
};

int loop_watch(struct loop *loop, struct loop_watch *watch, uint32_t events, det_err *err);
void loop_unwatch(struct loop *loop, struct loop_watch *watch); // before the descriptor is closed

// A timer, owned by the caller, unmoved while it is set. It runs once.
struct loop_timer {
    void (*fn)(void *ctx);
    void *ctx;
    int64_t at_us; // of the monotonic clock
    size_t place;  // in the loop's heap, from 1; 0: not set
};

void loop_timer_set(struct loop *loop, struct loop_timer *timer, int64_t delay_us); // or moves it
void loop_timer_clear(struct loop *loop, struct loop_timer *timer); // also if it is not set

// Runs fn in the loop's thread, soon, in the order of the posts. Any thread may call this while the
// loop exists.
void loop_post(struct loop *loop, void (*fn)(void *ctx), void *ctx);

// How long the turns of a loop took. A turn is everything that is done between two waits: whoever
// the loop serves has to wait for the end of the one under way.
enum { LOOP_N_BOUNDS = 10 };
extern const int64_t loop_bounds_us[LOOP_N_BOUNDS]; // ascending

struct loop_lengths {
    int64_t longest_us, total_us;
    uint64_t n_within[LOOP_N_BOUNDS]; // turns of at most loop_bounds_us[i]
};

struct loop_times {
    uint64_t n_turns;
    struct loop_lengths elapsed; // with what it waited for: a disk, a processor that others have
    struct loop_lengths used;    // of a processor
};

const struct loop_times *loop_times(const struct loop *loop);

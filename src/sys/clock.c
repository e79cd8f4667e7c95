// Unit clock.c: the clocks of sys/clock.h.
#include "sys/clock.h"

static int64_t clock_read_us(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t clock_mono_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC);
}

int64_t clock_unix_us(void)
{
    return clock_read_us(CLOCK_REALTIME);
}

int64_t clock_thread_us(void)
{
    return clock_read_us(CLOCK_THREAD_CPUTIME_ID);
}

struct timespec clock_mono_in(int64_t delay_us)
{
    int64_t at_us = clock_mono_us() + delay_us;
    return (struct timespec){.tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000};
}

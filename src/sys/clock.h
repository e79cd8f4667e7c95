// sys/clock.h: time. Durations use the monotonic clock; only what people read uses the wall clock.
#pragma once

#include <stdint.h>
#include <time.h>

int64_t clock_mono_us(void);   // for measuring; unrelated to the date
int64_t clock_unix_us(void);   // microseconds since 1970-01-01T00:00:00Z
int64_t clock_thread_us(void); // that the calling thread has used of a processor
struct timespec clock_mono_in(
    int64_t delay_us); // on the monotonic clock, for what waits until then

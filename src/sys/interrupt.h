// sys/interrupt.h: waits without a known end, which the thread's owner can give up.
//   interrupt_wanted  interrupted  INTERRUPT_POLL_US
//
// A library must not handle Ctrl-C, but it must not swallow it either. What waits for a master or
// for other ranks asks interrupted() every now and then, and fails with DET_ECANCELED.
#pragma once

#include "base/mem.h"
#include <stdbool.h>

enum { INTERRUPT_POLL_US = 100000 };

// Of this thread; NULL: nobody asks.
extern THREAD_LOCAL bool (*interrupt_wanted)(void);

static inline bool interrupted(void)
{
    return interrupt_wanted && interrupt_wanted();
}

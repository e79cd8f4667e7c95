// Unit interrupt.c: the thread's own question, see sys/interrupt.h.
#include "sys/interrupt.h"

THREAD_LOCAL bool (*interrupt_wanted)(void);

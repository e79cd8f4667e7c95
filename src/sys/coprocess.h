// sys/coprocess.h: a program that answers lines with lines, over its standard input and output.
// What it writes to standard error goes where ours goes.
//   coprocess_open  coprocess_ask  coprocess_close
//
//     struct coprocess p = COPROCESS_INIT;
//     const char *const argv[] = {"sh", "-c", "while read x; do echo $x; done", NULL};
//     if (!coprocess_open(&p, argv, err) && !coprocess_ask(&p, STR("hello\n"), 1000000, &answer,
//     err))
//         ...
//     coprocess_close(&p);
#pragma once

#include "base/buf.h"
#include "det/err.h"
#include <stdint.h>
#include <sys/types.h>

struct coprocess {
    pid_t pid; // 0: none
    int to, from;
    struct buf ahead; // read, but not part of an answer yet
};

#define COPROCESS_INIT ((struct coprocess){.to = -1, .from = -1})

// Starts argv (up to a NULL), found by PATH, in a process group of its own.
int coprocess_open(struct coprocess *p, const char *const *argv, det_err *err);

// Sends a line, with its newline, and waits for one, which replaces the content of answer without
// its newline. DET_EIO if the program ends or takes longer than timeout_us, DET_ELIMIT if the
// answer is longer than answer->max.
int coprocess_ask(struct coprocess *p, struct str line, int64_t timeout_us, struct buf *answer,
                  det_err *err);

// Closes its input, gives it a second to end, then kills its process group.
void coprocess_close(struct coprocess *p);

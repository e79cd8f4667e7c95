// tests/support/power.h: a disk that forgets, at a power loss, what was not synced.
//
// The program that this is linked to has its own open(), write(), fsync(), rename() and so on, for
// itself and for the libraries it uses. They do what is asked, and remember how to undo it until it
// is durable:
//
//     what a file contains    fsync() or fdatasync() of it
//     a name in a directory   fsync() of the directory, not of the file
//
// When the power goes off, of all that is not durable some is undone: any of the writes, whole or
// in sectors of 512 bytes, as a disk writes in any order; and of the names in a directory the last
// ones, as a file system keeps them in order. The process is killed.
//
//     pid_t pid = fork();
//     if (!pid) {
//         power_on(folder, seed, n);      // off at the n-th call that changes something; 0: never
//         work();
//         power_off();
//     }
#pragma once

#include <stdbool.h>
#include <stdint.h>

void power_on(const char *root, uint64_t seed, int64_t n_calls);
_Noreturn void power_off(void);
int64_t power_n_calls(void);     // so far
bool power_was_lost(int status); // what waitpid() says about the process

// tests/support/requests.h: a master in this process, and requests to it that are written as text:
//
//     POST /api/v1/trials/{trial}/metrics     the row of the table; any other text chooses one, too
//     t/1?a=b#k                               who, parameters, query, Idempotency-Key
//     {"trialRunId": 1, ...                   the body, to the end
//
// Who is a (the administrator), u (another user), t (a task) or n (nobody). A parameter that is
// missing or empty is that of something alive. "exit 3" instead of a request ends a task.
//
// The master has a resource manager without processes (fake_rm.h) and passwords that are not
// hashed. Whatever it is asked, it must go on and its answer must be HTTP of the type that the
// route declares; if not, the program ends.
#pragma once

#include "base/str.h"

enum { REQUESTS_END = 0x1E }; // between requests of a story

// On an empty directory, with an experiment that runs. The one before is closed.
void requests_open(void);

// A story: any number of requests. Returns the status of the last answer; 0: there is none yet.
int requests_tell(struct str story);

// Sends a request of each route, by everybody, about what is alive: each must be answered.
void requests_tell_all(void);

// Reads the database in the thread of the master's loop.
void requests_read_on_the_loop(void);

// The body of the last answer.
const char *requests_body(void);

// How many experiments have not ended. Each makes the next one slower.
size_t requests_crowd(void);

// What would have been computed if passwords were hashed, so far.
struct requests_hashing {
    size_t n_verified;
    char last_verified[128]; // the hash it was compared with
    unsigned long long ops;  // of the last one that was made
    size_t memory;
};
const struct requests_hashing *requests_hashing(void);

// Another master must be able to take over.
void requests_close(void);

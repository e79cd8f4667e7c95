// master/throttle.h: how many passwords are tried. Private to the layer.
//
// A guess is counted before it is looked at, so that guesses made at the same time count, too. A
// name gets THROTTLE_NAME guesses a minute, whoever makes them, and an address THROTTLE_ADDRESS, at
// all names together. An address from which the right password for a name has come gets
// THROTTLE_KNOWN more for that name, which nobody elsewhere can use up.
//
// The memory is fixed. Names and addresses that meet in the same place share a count; who does not
// know the key cannot bring that about, and nobody can make a count be forgotten.
#pragma once

#include "base/hash.h"
#include <stdbool.h>

enum { THROTTLE_NAME = 5, THROTTLE_ADDRESS = 60, THROTTLE_KNOWN = 5 };

struct throttle;

struct throttle *throttle_new(const struct hash_key *key);
void throttle_free(struct throttle *t);

// One guess, and what it was counted in.
struct guess {
    uint64_t pair; // of the name and the address
    struct throttle_count *counted[2];
};

// Counts a guess. False: there were too many, and it is not to be looked at; *wait_us is how long
// that stays so. now_us is of the monotonic clock.
bool throttle_take(struct throttle *t, const char *name, const char *address, int64_t now_us,
                   struct guess *out, int64_t *wait_us);

// The guess was right: it does not count, and its address is known for the name.
void throttle_was_right(struct throttle *t, const struct guess *guess);

// base/hash.h: a keyed hash for tables whose keys come from outside. Without the key nobody can
// choose keys that collide.
//   hash_bytes
//
// SipHash-1-3: Aumasson, Bernstein: "SipHash: a fast short-input PRF" (INDOCRYPT 2012).
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hash_key {
    uint64_t k[2];
};

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t n);

// master/set.h: objects by number. Numbers mostly grow, so a sorted array is all it takes.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct set_item {
    int64_t key;
    void *value;
};

struct set {
    struct set_item *items; // by key
    size_t n, cap;
    size_t n_gap; // free places in front of items
};

// The first place whose key is not less.
size_t set_place(const struct set *s, int64_t key);
void *set_find(const struct set *s, int64_t key);      // NULL: there is none
void set_add(struct set *s, int64_t key, void *value); // key must be new
void set_remove(struct set *s, int64_t key);           // also if there is none
void set_done(struct set *s);

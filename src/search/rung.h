// search/rung.h: the results of one rung, and who leads. Private to the layer.
//
// The leaders are the k best results, k as the caller says; every change costs O(log n). Two heaps:
// the leaders with the worst of them on top, and the rest with the best of them on top.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rung_heap {
    size_t *items; // indexes of entries
    size_t n;
    bool leads; // the heap of leaders
};

struct rung_entry {
    int64_t trial; // 0: was taken out
    double loss;
    bool leads;
    size_t at; // position in its heap
};

struct rung {
    bool newest_first;          // among equal losses; otherwise the oldest
    struct rung_entry *entries; // in the order of arrival
    size_t n, cap, n_out;       // n_out of them were taken out
    struct rung_heap leaders, rest;
};

void rung_init(struct rung *r, bool newest_first);
void rung_done(struct rung *r);
size_t rung_n(const struct rung *r); // results that count

// Adds a result, after which the n_leaders best lead: as many as before, or one more. Returns the
// trial that leads because of it: the new one, else the one that rose; 0: nobody.
int64_t rung_add(struct rung *r, int64_t trial, double loss, size_t n_leaders);

// Takes a trial's result out, if there is one; as many lead as before, or one less. O(n) to find
// it: trials are seldom taken back.
void rung_remove(struct rung *r, int64_t trial, size_t n_leaders);

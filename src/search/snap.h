// search/snap.h: one description of a state for saving and for loading it. Private to the layer.
//   snap_int  snap_double  snap_ints  snap_doubles  snap_n_items  snap_size  snap_text
//   snap_words  snap_open  snap_close
//
// A routine that walks through a struct with these calls saves it as a JSON map, or fills it from
// one, so the two cannot differ. Loading checks every value against its range; the first thing that
// is wrong is kept as the error and later calls change nothing.
#pragma once

#include "doc/json.h"

struct snap {
    struct json_writer *out; // NULL: loading
    const struct doc *map;   // loading: the one whose keys are read
    const struct doc *outer; // loading: the one around it
    det_err *err;
    int rc; // of the first failure
};

void snap_int(struct snap *io, const char *key, int64_t *value, int64_t min, int64_t max);
void snap_double(struct snap *io, const char *key, double *value);

// Columns: one member of each of n structs that lie stride bytes apart.
void snap_ints(struct snap *io, const char *key, void *first, size_t n, size_t stride, int64_t min,
               int64_t max);
void snap_doubles(struct snap *io, const char *key, void *first, size_t n, size_t stride);
size_t snap_n_items(const struct doc *list); // of a column; SIZE_MAX: far too many

// Saves n; when loading returns the saved number, at most max, or 0 after a failure.
size_t snap_size(struct snap *io, const char *key, size_t n, size_t max);

void snap_text(struct snap *io, const char *key, char **value); // owned by the caller; or NULL
void snap_words(struct snap *io, const char *key, uint32_t *words, size_t n); // as one text

// The calls in between are about the map at key. Not nested.
void snap_open(struct snap *io, const char *key);
void snap_close(struct snap *io);

void snap_fail(struct snap *io, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

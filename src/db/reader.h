// db/reader.h: queries. Private to the layer.
#pragma once

#include "db/backend.h"
#include "db/db.h"

struct db_reader {
    struct connection c;
};

// The records of all rows, which are ended.
int collect(struct rows *rows, enum noun noun, struct arena *a, struct db_list *out, det_err *err);

// A list that grows in an arena.
struct growing {
    struct arena *arena;
    size_t size; // of an item
    char *items;
    size_t n, max;
};
void *grow(struct growing *g); // a zeroed item at the end

// db/reader.h: queries. Private to the layer.
#pragma once

#include "db/db.h"
#include "db/sqlite.h"

struct db_reader {
    struct connection c;
};

// Collects the records of all rows of s into out, which is reset at the end.
int collect(struct db_reader *r, sqlite3_stmt *s, enum noun noun, struct arena *a,
            struct db_list *out, det_err *err);

// A list that grows in an arena.
struct growing {
    struct arena *arena;
    size_t size; // of an item
    char *items;
    size_t n, max;
};
void *grow(struct growing *g); // a zeroed item at the end

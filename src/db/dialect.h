// db/dialect.h: SQL is written once, in words that both engines share or that one of them has, and put
// into the words of an engine here. Private to the layer.
//
//     words           SQLite           PostgreSQL
//     ?1              ?1               $1
//     stepsCompleted  stepsCompleted   "stepsCompleted"   (else its letters would be made small)
//     INTEGER, REAL   INTEGER, REAL    BIGINT, DOUBLE PRECISION
//     GREATEST(a, b)  max(a, b)        GREATEST(a, b)
//
// and so on: dialect.c has the tables. Words of SQL are in capitals, names are not, or not all of
// them. What needs more than other words is done otherwise: keys are named (ON CONFLICT(id)), no
// statement looks into JSON, numbers are no truth values (open = 1).
#pragma once

#include "base/buf.h"
#include "base/str.h"

struct dialect_word {
    const char *word, *means;
};

struct dialect {
    const struct dialect_word *words; // the last one is NULL
    char parameter;
    bool quotes_names; // those with large and small letters
};

extern const struct dialect sqlite_dialect, postgres_dialect;

void dialect_write(const struct dialect *d, struct str text, struct buf *out);

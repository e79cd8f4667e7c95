// db/tables.h: which record is kept in which table. Private to the layer.
#pragma once

#include "base/buf.h"
#include "entity/entity.h"

enum noun {
    NOUN_EXPERIMENT,
    NOUN_TRIAL,
    NOUN_ALLOCATION,
    NOUN_CHECKPOINT,
    NOUN_METRIC_REPORT,
    NOUN_METRIC_SUMMARY,
    NOUN_LOG_LINE,
    NOUN_JOB,
    NOUN_USER,
    NOUN_SESSION,
    NOUN_TEMPLATE,
    N_NOUN
};

// One order that lists can have. The expression has an index of its own where tables are large, and
// is never null: nulls would break the comparison with the last record of a page.
struct sort {
    const char *field, *expression;
};

struct table {
    const char *name; // in the database
    const char *word; // for people: "trial"
    const struct field_table *fields;
    const char *key; // the field that names a record
    const char *row; // the column that numbers them in the order of their creation, if it is listed
    const struct sort *sorts;
    size_t n_sorts;
};

extern const struct table tables[N_NOUN];

// "id","name",...
void table_add_columns(const struct table *t, struct buf *out);

// INSERT that replaces everything but the key of a record that is there already.
void table_add_save(const struct table *t, struct buf *out);

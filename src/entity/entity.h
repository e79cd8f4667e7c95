// entity/entity.h: the nouns that the layers above share: training lengths, hyperparameters,
// identifiers; states (entity/state.h) and records (entity/record.h).
//
// Pure values. What comes out of a configuration lives in the arena it was read into.
#pragma once

#include "base/arena.h"
#include "doc/doc.h"
#include "base/opt.h"
#include "det/err.h"
#include "entity/record.h"
#include "entity/state.h"
#include <stdint.h>

// How long to train.
enum length_unit {
    LENGTH_NONE, // not given: the training code decides
    LENGTH_BATCHES,
    LENGTH_RECORDS,
    LENGTH_EPOCHS,
    LENGTH_UNITS, // a bare number; what it counts is between the searcher and the training code
    LENGTH_TIME,  // values of the searcher's time_metric
};

struct length {
    enum length_unit unit;
    int64_t amount;
};

const char *length_unit_name(enum length_unit unit); // "batches"; "" for LENGTH_NONE

// Batches of batch_size records. A partial batch is dropped, but what is not zero is at least one
// batch. Fails for LENGTH_TIME and LENGTH_NONE, and for epochs when records_per_epoch is 0 (not
// known); LENGTH_UNITS are batches.
int length_to_batches(struct length length, int64_t records_per_epoch, int64_t batch_size,
                      int64_t *out, det_err *err);

// Hyperparameters: the space to search.
enum hparam_kind { HP_CONST, HP_INT, HP_DOUBLE, HP_LOG, HP_CATEGORICAL, HP_GROUP };

// A tree: the root is a group without a name. Groups are sorted by name (as bytes), which is the
// order in which everything walks through them: sampling, grids, output.
struct hparam {
    enum hparam_kind kind;
    const char *name;            // its key in the group
    const struct hparam *parent; // the group it is in; NULL at the top
    struct opt_int count;        // points on a grid axis
    union {
        const struct doc *constant; // HP_CONST: any value; null is a value too
        struct {
            int64_t min, max; // HP_INT: both included, min < max
        } integer;
        struct {
            double min, max; // HP_DOUBLE: [min, max)
        } real;
        struct {
            double base, min, max; // HP_LOG: base^min .. base^max
        } log;
        struct {
            const struct doc **vals; // HP_CATEGORICAL: at least one
            size_t n;
        } categorical;
        struct {
            struct hparam *items; // HP_GROUP: may be empty
            size_t n;
        } group;
    };
};

// "optimizer.learning_rate", for people.
const char *hparam_path(const struct hparam *hp, struct arena *arena);

// Everything that is not a group, in order. Lives in the arena.
size_t hparam_leaves(const struct hparam *root, struct arena *arena, const struct hparam ***out);

// What a trial receives: the tree as plain values. values[i] belongs to the i-th leaf and is
// shared, not copied; NULL for a const stands for its value.
struct doc *hparam_assemble(const struct hparam *root, const struct doc *const *values,
                            struct arena *arena);

// The number of points of a leaf on a grid; 0 if it has no count but needs one.
int64_t hparam_grid_count(const struct hparam *leaf);

// Identifiers that are drawn, not counted: searcher requests, checkpoints, containers.
struct uuid {
    uint8_t bytes[16];
};

enum { UUID_TEXT_BYTES = 37 }; // with the NUL

struct uuid uuid_v4(const uint8_t random[16]);               // sets the version and variant bits
void uuid_format(struct uuid id, char out[UUID_TEXT_BYTES]); // lower case
int uuid_parse(const char *text, struct uuid *out, det_err *err);

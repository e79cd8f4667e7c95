// optim/setting.h: settings as tables. A row says where a number stands in a struct, what it is
// called, what it may be, and how it looks in torch's state dicts. Private to the layer.
#pragma once

#include "det/tensor.h"
#include "tensor/tensor.h"

enum setting_type {
    SETTING_REAL,     // double
    SETTING_INT,      // int64_t
    SETTING_BOOL,     // bool
    SETTING_CHOICE,   // int: an index into choices, a string in the dict
    SETTING_IN_TUPLE, // double; rows with the same key make one tuple, in their order
    SETTING_REALS,    // double *: one for each group of parameters, a list in the dict
    SETTING_MAYBE,    // double: NaN if not set, and then not in the dict
    SETTING_NONE,     // nothing in memory: always None in the dict
    SETTING_FALSE,    // nothing in memory: always False
};

struct setting {
    const char *key; // in dicts; NULL ends the table
    enum setting_type type;
    size_t offset;
    const char *name; // of a member of a tuple ("beta1"); NULL: the key
    double min, end;  // allowed: min <= value < end (no end if both are 0)
    const char *const *choices;
};

// Whether options can be settings. NaN, the default of what has no other, must be given.
int settings_check(const struct setting *table, const char *owner, const void *at, det_err *err);

// By the user's name; NULL if none, or if it is not a plain number.
const struct setting *setting_find(const struct setting *table, const char *name);
double setting_get(const struct setting *row, const void *at);
int setting_set(const struct setting *row, void *at, double value, det_err *err);
// "lr, momentum, ..." into buf; returns buf.
const char *settings_names(const struct setting *table, char *buf, size_t size);

void settings_save(const struct setting *table, const void *at, int n_groups, det_value *dict);

// Takes what is in dict; what is not there keeps its value. Unless commit is set, it only checks.
int settings_load(const struct setting *table, void *at, int n_groups, const det_value *dict,
                  bool commit, det_err *err);
// An int, or a float without fraction: some versions of torch write one, some the other.
int value_as_count(const det_value *v, int64_t *out, det_err *err);

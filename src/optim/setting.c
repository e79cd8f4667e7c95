// Unit setting.c: reads, checks and writes settings by the tables of setting.h.
#include "optim/setting.h"

#include "base/assert.h"
#include "base/str.h"
#include <math.h>

#define AT(type, row, base) (*(type *)((char *)(base) + (row)->offset))
#define CONST_AT(type, row, base) (*(const type *)((const char *)(base) + (row)->offset))

static bool is_number(const struct setting *row)
{
    return row->type != SETTING_NONE && row->type != SETTING_FALSE && row->type != SETTING_REALS &&
           row->type != SETTING_CHOICE;
}

static const char *name_of(const struct setting *row)
{
    return row->name ? row->name : row->key;
}

const struct setting *setting_find(const struct setting *table, const char *name)
{
    for (const struct setting *row = table; row->key; row++)
        if (is_number(row) && str_eqz(str_from(name), name_of(row))) return row;
    return NULL;
}

const char *settings_names(const struct setting *table, char *buf, size_t size)
{
    size_t n = 0;
    buf[0] = 0;
    for (const struct setting *row = table; row->key; row++)
        if (is_number(row) && row->type != SETTING_MAYBE && n < size)
            n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? ", " : "", name_of(row));
    return buf;
}

double setting_get(const struct setting *row, const void *at)
{
    switch (row->type) {
    case SETTING_INT:
        return (double)CONST_AT(int64_t, row, at);
    case SETTING_BOOL:
        return CONST_AT(bool, row, at);
    default:
        ASSERT(is_number(row));
        return CONST_AT(double, row, at);
    }
}

static int check_range(const struct setting *row, double value, det_err *err)
{
    bool ranged = row->min || row->end;
    bool ok = !isnan(value) && (!ranged || (value >= row->min && value < row->end));
    if (ok) return 0;
    if (!ranged) return det_fail(err, DET_EINVAL, "%s must be a number", name_of(row));
    if (isinf(row->end))
        return det_fail(err, DET_EINVAL, "%s must be >= %g, got %g", name_of(row), row->min, value);
    return det_fail(err, DET_EINVAL, "%s must be >= %g and < %g, got %g", name_of(row), row->min,
                    row->end, value);
}

int setting_set(const struct setting *row, void *at, double value, det_err *err)
{
    int rc = check_range(row, value, err);
    if (rc) return rc;
    switch (row->type) {
    case SETTING_INT:
        AT(int64_t, row, at) = (int64_t)value;
        break;
    case SETTING_BOOL:
        AT(bool, row, at) = value != 0;
        break;
    default:
        ASSERT(is_number(row));
        AT(double, row, at) = value;
    }
    return 0;
}

int settings_check(const struct setting *table, const char *owner, const void *at, det_err *err)
{
    for (const struct setting *row = table; row->key; row++) {
        if (!is_number(row)) continue;
        double value = setting_get(row, at);
        if (isnan(value))
            return det_fail(err, DET_EINVAL, "%s: %s must be given, and be a number", owner,
                            name_of(row));
        int rc = check_range(row, value, err);
        if (rc) return det_wrap(err, "%s", owner);
    }
    return 0;
}

// --- to a dict

static det_value *reals_value(const double *v, int n)
{
    det_value *list = det_value_list();
    for (int i = 0; i < n; i++)
        det_value_push(list, det_value_float(v[i]));
    return list;
}

static void save_in_tuple(det_value *dict, const char *key, double v)
{
    det_value *tuple = det_value_get(dict, key);
    if (!tuple) tuple = det_value_set(dict, key, det_value_tuple());
    det_value_push(tuple, det_value_float(v));
}

static det_value *setting_value(const struct setting *row, const void *at, int n_groups)
{
    switch (row->type) {
    case SETTING_REAL:
    case SETTING_MAYBE:
        return det_value_float(CONST_AT(double, row, at));
    case SETTING_INT:
        return det_value_int(CONST_AT(int64_t, row, at));
    case SETTING_BOOL:
        return det_value_bool(CONST_AT(bool, row, at));
    case SETTING_CHOICE:
        return det_value_str(row->choices[CONST_AT(int, row, at)]);
    case SETTING_REALS:
        return reals_value(CONST_AT(double *, row, at), n_groups);
    case SETTING_FALSE:
        return det_value_bool(false);
    default:
        return det_value_none();
    }
}

void settings_save(const struct setting *table, const void *at, int n_groups, det_value *dict)
{
    for (const struct setting *row = table; row->key; row++) {
        if (row->type == SETTING_IN_TUPLE)
            save_in_tuple(dict, row->key, CONST_AT(double, row, at));
        else if (row->type != SETTING_MAYBE || !isnan(CONST_AT(double, row, at)))
            det_value_set(dict, row->key, setting_value(row, at, n_groups));
    }
}

// --- from a dict

int value_as_count(const det_value *v, int64_t *out, det_err *err)
{
    double real = 0;
    if (det_value_kind(v) == DET_KIND_INT) return det_value_as_int(v, out, err);
    int rc = det_value_as_float(v, &real, err);
    if (rc) return rc;
    if (real != floor(real) || fabs(real) > 0x1p53)
        return det_fail(err, DET_EINVAL, "%g where a count was expected", real);
    *out = (int64_t)real;
    return 0;
}

static int load_number(const struct setting *row, void *at, const det_value *v, bool commit,
                       det_err *err)
{
    bool flag = false;
    double value = 0;
    int64_t count = 0;
    int rc = row->type == SETTING_BOOL  ? det_value_as_bool(v, &flag, err)
             : row->type == SETTING_INT ? value_as_count(v, &count, err)
                                        : det_value_as_float(v, &value, err);
    if (row->type == SETTING_BOOL) value = flag;
    if (row->type == SETTING_INT) value = (double)count;
    if (!rc) rc = check_range(row, value, err);
    if (!rc && commit) rc = setting_set(row, at, value, err);
    return rc;
}

static int load_choice(const struct setting *row, void *at, const det_value *v, bool commit,
                       det_err *err)
{
    const char *text = NULL;
    int rc = det_value_as_str(v, &text, err);
    if (rc) return rc;
    for (int i = 0; row->choices[i]; i++) {
        if (!str_eqz(str_from(text), row->choices[i])) continue;
        if (commit) AT(int, row, at) = i;
        return 0;
    }
    return det_fail(err, DET_EINVAL, "'%s' is unknown", text);
}

static int load_reals(const struct setting *row, void *at, int n_groups, const det_value *v,
                      bool commit, det_err *err)
{
    if (det_value_len(v) != n_groups)
        return det_fail(err, DET_EINVAL, "%d numbers for %d groups of parameters", det_value_len(v),
                        n_groups);
    for (int i = 0; i < n_groups; i++) {
        double real = 0;
        int rc = det_value_as_float(det_value_at(v, i), &real, err);
        if (rc) return rc;
        if (commit) AT(double *, row, at)[i] = real;
    }
    return 0;
}

// The value of a row: for a member of a tuple, the one at its place.
static const det_value *value_of(const struct setting *table, const struct setting *row,
                                 const det_value *dict)
{
    const det_value *v = det_value_get(dict, row->key);
    if (row->type != SETTING_IN_TUPLE || !v) return v;
    int place = 0;
    for (const struct setting *before = row; before > table && before[-1].key == row->key; before--)
        place++;
    return det_value_at(v, place);
}

int settings_load(const struct setting *table, void *at, int n_groups, const det_value *dict,
                  bool commit, det_err *err)
{
    for (const struct setting *row = table; row->key; row++) {
        const det_value *v = value_of(table, row, dict);
        int rc = 0;
        if (row->type == SETTING_MAYBE && !v && commit) AT(double, row, at) = NAN;
        if (!v) continue;
        if (row->type == SETTING_CHOICE)
            rc = load_choice(row, at, v, commit, err);
        else if (row->type == SETTING_REALS)
            rc = load_reals(row, at, n_groups, v, commit, err);
        else if (is_number(row))
            rc = load_number(row, at, v, commit, err);
        if (rc) return det_wrap(err, "%s", row->key);
    }
    return 0;
}

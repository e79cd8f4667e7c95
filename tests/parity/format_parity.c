// Program format_parity: the C side of format_parity.py.
//
//     format_parity copy IN OUT    loads a file and saves what it holds; the ending tells the
//     format format_parity make SEED OUT  saves a random tree and prints it as a Python expression
#include "base/banned.h"
#include "base/rng.h"
#include "det/format.h"
#include <math.h>

static int fail(const det_err *err)
{
    fprintf(stderr, "%s: %s\n", det_err_name(err->code), err->msg);
    return 1;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static int copy(const char *in, const char *out)
{
    det_err err = {0};
    if (ends_with(in, ".npy")) {
        det_tensor *t = det_npy_load(in, &err);
        int rc = t ? det_npy_save(out, t, &err) : err.code;
        det_unref(t);
        return rc ? fail(&err) : 0;
    }
    bool safe = ends_with(in, ".safetensors");
    det_value *metadata = NULL;
    det_value *v = safe ? det_safetensors_load(in, &metadata, &err) : det_pth_load(in, &err);
    int rc = !v     ? err.code
             : safe ? det_safetensors_save(out, v, metadata, &err)
                    : det_pth_save(out, v, &err);
    det_value_free(v);
    det_value_free(metadata);
    return rc ? fail(&err) : 0;
}

// --- random trees

static uint64_t seed, drawn;

static uint64_t below(uint64_t n)
{
    return rng_below(seed, 0, drawn++, n);
}

static det_tensor *random_base(void)
{
    static const int64_t sizes[] = {0, 1, 1, 2, 3, 5, 8};
    int64_t shape[4];
    int ndim = (int)below(5);
    for (int i = 0; i < ndim; i++)
        shape[i] = sizes[below(7)];
    det_tensor *t = det_to(det_mul_scalar(det_randn(DET_F64, shape, ndim), 100),
                           (det_dtype)below(DET_N_DTYPES));
    return t;
}

// The same memory, seen otherwise.
static det_tensor *random_view(det_tensor *t)
{
    if (!det_ndim(t)) return t;
    int dim = (int)below((uint64_t)det_ndim(t));
    switch (below(4)) {
    case 0:
        return det_transpose(t, 0, dim);
    case 1:
        return det_slice(t, dim, (int64_t)below(3), 1000, 1 + (int64_t)below(2));
    case 2:
        return det_unsqueeze(det_select(det_unsqueeze(t, 0), 0, 0), dim);
    default:
        return t;
    }
}

static det_value *random_leaf(det_tensor **last)
{
    static const char *const texts[] = {"", "plain", "with 'quotes' and \"quotes\"", "line\nbreak",
                                        "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x94\xa5"};
    static const double floats[] = {0.0, -0.0, 1e-3, 1e308, 5e-324, HUGE_VAL, -HUGE_VAL};
    switch (below(10)) {
    case 0:
        return det_value_none();
    case 1:
        return det_value_bool(below(2));
    case 2:
        return det_value_int((int64_t)rng_u64(seed, 1, drawn++) >> below(64));
    case 3:
        return det_value_float(below(2) ? floats[below(7)] : rng_unit(seed, 2, drawn++));
    case 4:
        return det_value_str(texts[below(5)]);
    default:
        if (!*last || below(2)) *last = random_base();
        return det_value_tensor(random_view(*last));
    }
}

static det_value *random_tree(int depth, det_tensor **last)
{
    uint64_t kind = below(6);
    if (depth == 4 || (depth && kind > 2)) return random_leaf(last);
    det_value *v = kind == 0 ? det_value_list() : kind == 1 ? det_value_tuple() : det_value_dict();
    int n = (int)below(7);
    for (int i = 0; i < n; i++) {
        char key[16];
        snprintf(key, sizeof key, "key%d", i);
        det_value *item = random_tree(depth + 1, last);
        if (det_value_kind(v) != DET_KIND_DICT)
            det_value_push(v, item);
        else if (below(3))
            det_value_set(v, key, item);
        else
            det_value_set_int(v, (int64_t)below(1000) - 500, item);
    }
    return v;
}

// --- as Python

static void print_text(const char *s)
{
    putchar('"');
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if (*s == '\n')
            printf("\\n");
        else
            putchar(*s);
    putchar('"');
}

// T('f32', (2, 3), '<row-major bytes in hex>')
static void print_tensor(det_tensor *t)
{
    const unsigned char *p = det_data(t);
    size_t n = (size_t)det_numel(t) * det_dtype_size(det_dtype_of(t));
    printf("T('%s', (", det_dtype_name(det_dtype_of(t)));
    for (int i = 0; i < det_ndim(t); i++)
        printf("%lld,", (long long)det_shape(t)[i]);
    printf("), '");
    for (size_t i = 0; i < n; i++)
        printf("%02x", p[i]);
    printf("')");
}

static void print_scalar(const det_value *v)
{
    bool b;
    int64_t i;
    double f;
    const char *s;
    if (!det_value_as_bool(v, &b, NULL))
        printf(b ? "True" : "False");
    else if (!det_value_as_int(v, &i, NULL))
        printf("%lld", (long long)i);
    else if (!det_value_as_float(v, &f, NULL))
        printf("F('%a')", f);
    else if (!det_value_as_str(v, &s, NULL))
        print_text(s);
    else if (det_value_as_tensor(v))
        print_tensor(det_value_as_tensor(v));
    else
        printf("None");
}

static void print_value(const det_value *v)
{
    static const char *const brackets[] = {"[]", "()", "{}"};
    det_kind kind = det_value_kind(v);
    if (kind < DET_KIND_LIST) {
        print_scalar(v);
        return;
    }
    putchar(brackets[kind - DET_KIND_LIST][0]);
    for (int i = 0; i < det_value_len(v); i++) {
        int64_t number;
        const char *key = det_value_key(v, i, &number);
        if (key)
            print_text(key);
        else if (kind == DET_KIND_DICT)
            printf("%lld", (long long)number);
        if (kind == DET_KIND_DICT) putchar(':');
        print_value(det_value_at(v, i));
        putchar(',');
    }
    putchar(brackets[kind - DET_KIND_LIST][1]);
}

static int make(const char *seed_text, const char *out)
{
    det_err err = {0};
    seed = strtoull(seed_text, NULL, 10);
    det_manual_seed(seed);
    det_scope_begin();
    det_tensor *last = NULL;
    det_value *v = random_tree(0, &last);
    int rc = det_check(&err);
    if (!rc) rc = det_pth_save(out, v, &err);
    if (!rc) print_value(v);
    if (!rc) rc = det_check(&err);
    det_value_free(v);
    det_scope_end();
    return rc ? fail(&err) : 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "copy")) return copy(argv[2], argv[3]);
    if (argc == 4 && !strcmp(argv[1], "make")) return make(argv[2], argv[3]);
    fprintf(stderr, "usage: format_parity copy IN OUT | make SEED OUT\n");
    return 2;
}

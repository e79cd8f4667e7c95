// Every operation in the table, called with nonsense: it gives a valid result or the sticky error
// with its name in it. Meant to be run with the sanitizers too.
#include "support/op_cases.h"
#include "support/test.h"

#include "base/rng.h"
#include <math.h>

enum { MAX_IN = 300, SMALL = 1 << 16 };

static int n_results, n_errors;

// Reads all results and sends gradients back, so that whatever is wrong with them shows.
static void use_results(const struct node *n)
{
    det_tensor *total = NULL;
    for (int o = 0; o < n->n_out; o++) {
        det_tensor *y = n->out[o];
        if (y->numel > SMALL)
            continue; // an expanded tensor may have more elements than there is memory
        const unsigned char *bytes = det_data(y);
        size_t size = (size_t)y->numel * det_dtype_size((det_dtype)y->dtype);
        volatile unsigned sum = 0;
        for (size_t i = 0; bytes && i < size; i++)
            sum += bytes[i];
        if (!y->requires_grad) continue;
        det_tensor *part = det_sum(det_to(y, DET_F64));
        total = total ? det_add(total, part) : part;
    }
    if (total) det_backward(total);
}

static void call(const struct op_case *c, det_tensor *const *in, int n_in, const char *attr,
                 const char *what)
{
    det_err err;
    struct node *n = op_record(c->op, in, n_in, attr, NODE_ATTR_BYTES);
    int code = det_check(&err);
    if (!n && !code) fail_msg("%s with %s: no result and no error: %s", c->op->name, what, c->text);
    if (n && !code) {
        use_results(n);
        code = det_check(&err);
        if (code) fail_msg("%s with %s: result cannot be used: %s", c->op->name, what, err.msg);
        n_results++;
        return;
    }
    n_errors++;
    if (!strstr(err.msg, c->op->name))
        fail_msg("%s with %s: the error does not name it: %s", c->op->name, what, err.msg);
}

// --- inputs

static det_tensor *some(det_dtype dtype, const int64_t *shape, int ndim)
{
    det_tensor *t = det_to(det_rand(DET_F32, shape, ndim), dtype);
    bool differs = det_dtype_is_float(dtype) && !dtype_is_stored(dtype);
    return differs ? det_requires_grad(t, true) : t;
}

static void inputs_of(const struct op_case *c, det_dtype dtype, enum case_layout layout,
                      det_tensor **in)
{
    bool old = det_set_grad_enabled(false);
    for (int i = 0; i < MAX_IN; i++)
        in[i] = i < c->n_in ? case_input(c, i, dtype, layout, 1) : in[i % c->n_in];
    det_set_grad_enabled(old);
    for (int i = 0; i < c->n_in; i++)
        if (case_input_is_float(c, i)) det_requires_grad(in[i], true);
}

static void try_missing_inputs(const struct op_case *c)
{
    det_tensor *in[MAX_IN];
    inputs_of(c, DET_F32, LAYOUT_DENSE, in);
    for (int i = 0; i < c->n_in; i++) {
        det_tensor *saved = in[i];
        in[i] = NULL;
        call(c, in, c->n_in, c->attr, "an input left out");
        in[i] = saved;
    }
    for (int n = 0; n <= c->op->max_in + 1; n++)
        call(c, in, n, c->attr, "another number of inputs");
}

static void try_types(const struct op_case *c)
{
    det_tensor *in[MAX_IN];
    for (int i = 0; i < c->n_in; i++)
        for (int dtype = 0; dtype < DET_N_DTYPES && c->name[i][0]; dtype++) {
            inputs_of(c, DET_F32, LAYOUT_DENSE, in);
            in[i] = some((det_dtype)dtype, c->shape[i], c->ndim[i]);
            call(c, in, c->n_in, c->attr, det_dtype_name((det_dtype)dtype));
        }
    for (int dtype = 0; dtype < DET_N_DTYPES; dtype++) {
        for (int i = 0; i < c->n_in; i++)
            in[i] = c->name[i][0] ? some((det_dtype)dtype, c->shape[i], c->ndim[i]) : NULL;
        call(c, in, c->n_in, c->attr, "all inputs of one type");
    }
}

static void try_shape(const struct op_case *c, int i, const int64_t *shape, int ndim,
                      const char *what)
{
    det_tensor *in[MAX_IN];
    det_scope_begin();
    inputs_of(c, DET_F32, LAYOUT_DENSE, in);
    in[i] = some((det_dtype)in[i]->dtype, shape, ndim);
    call(c, in, c->n_in, c->attr, what);
    det_scope_end();
}

static void try_shapes(const struct op_case *c)
{
    static const int64_t ones[DET_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const int64_t twos[DET_MAX_DIMS] = {2, 2, 2, 2, 2, 2, 2, 2};
    for (int i = 0; i < c->n_in; i++) {
        if (!c->name[i][0]) continue;
        for (int ndim = 0; ndim <= DET_MAX_DIMS; ndim++) {
            try_shape(c, i, ones, ndim, "sizes of 1");
            try_shape(c, i, twos, ndim, "sizes of 2");
        }
        for (int d = 0; d < c->ndim[i]; d++) {
            int64_t shape[DET_MAX_DIMS];
            memcpy(shape, c->shape[i], sizeof shape);
            shape[d] = 0;
            try_shape(c, i, shape, c->ndim[i], "a size of 0");
            shape[d] = c->shape[i][d] + 1;
            try_shape(c, i, shape, c->ndim[i], "a size that is too large");
        }
    }
}

// All inputs with no elements at all, in each dim of the first that they share by size.
static void try_empty(const struct op_case *c)
{
    det_tensor *in[MAX_IN];
    for (int l = 0; l < c->ndim[0]; l++) {
        int64_t size = c->shape[0][l];
        for (int i = 0; i < c->n_in; i++) {
            int64_t shape[DET_MAX_DIMS];
            for (int d = 0; d < c->ndim[i]; d++)
                shape[d] = c->shape[i][d] == size ? 0 : c->shape[i][d];
            bool is_float = case_input_is_float(c, i) || c->kind[i] == 's' || c->kind[i] == 'w';
            det_dtype dtype = is_float ? DET_F32 : c->kind[i] == 'b' ? DET_BOOL : DET_I64;
            in[i] = c->name[i][0] ? some(dtype, shape, c->ndim[i]) : NULL;
        }
        call(c, in, c->n_in, c->attr, "no elements");
    }
}

// --- attributes

static const int64_t odd_ints[] = {
    0, 1, -1, 2, 3, -7, 8, 100, INT64_MAX, INT64_MIN, 1ll << 40, -(1ll << 40), 1ll << 62};
static const double odd_reals[] = {0, 1, -1, 0.5, 1e-300, 1e300, -1e300, INFINITY, -INFINITY, NAN};

static int64_t draw_int(uint64_t turn, uint64_t k)
{
    return odd_ints[rng_below(7, turn, k, STATIC_LEN(odd_ints))];
}

static void draw_attr(const struct attr_field *f, uint64_t turn, char *attr)
{
    char *at = attr + f->offset;
    struct dims d = {.n = (int)rng_below(7, turn, 50, DET_MAX_DIMS + 1)};
    for (int i = 0; i < d.n; i++)
        d.v[i] = draw_int(turn, 60 + (uint64_t)i);
    switch (f->type) {
    case ATTR_INT:
        *(int64_t *)at = draw_int(turn, 1);
        break;
    case ATTR_REAL:
        *(double *)at = odd_reals[rng_below(7, turn, 2, STATIC_LEN(odd_reals))];
        break;
    case ATTR_BOOL:
        *(bool *)at = rng_below(7, turn, 3, 2);
        break;
    case ATTR_PAIR:
        ((int64_t *)at)[0] = draw_int(turn, 4);
        ((int64_t *)at)[1] = draw_int(turn, 5);
        break;
    case ATTR_DIMS:
        *(struct dims *)at = d;
        break;
    }
}

static void try_attributes(const struct op_case *c)
{
    enum { TURNS = 60 };
    det_tensor *in[MAX_IN];
    uint64_t turn = 0;
    for (const struct attr_field *f = c->op->attrs; f && f->name; f++)
        for (int i = 0; i < TURNS; i++) {
            _Alignas(16) char attr[NODE_ATTR_BYTES];
            memcpy(attr, c->attr, sizeof attr);
            draw_attr(f, ++turn, attr);
            if (i % 3 == 0) // another one too
                for (const struct attr_field *g = c->op->attrs; g->name; g++)
                    draw_attr(g, ++turn, attr);
            det_scope_begin();
            inputs_of(c, DET_F32, LAYOUT_DENSE, in);
            call(c, in, c->n_in, attr, f->name);
            det_scope_end();
        }
}

// --- over the table

// Large inputs are for speed and rounding; they can fail in no other way than small ones.
static bool is_small(const struct op_case *c)
{
    for (int i = 0; i < c->n_in; i++) {
        int64_t n = 1;
        for (int d = 0; d < c->ndim[i]; d++)
            n *= c->shape[i][d];
        if (n > 2000) return false;
    }
    return true;
}

static void for_all_cases(void (*try)(const struct op_case *c))
{
    for (int i = 0; i < n_ops; i++)
        for (const char *const *text = op_table[i]->cases; text && *text; text++) {
            struct op_case c;
            case_parse(&c, op_table[i], *text, 1);
            if (!is_small(&c)) continue;
            det_scope_begin();
            try(&c);
            det_scope_end();
        }
    assert_true(n_results > 0 && n_errors > 0);
}

static void test_operations__name_themselves_when_inputs_are_missing(void **state)
{
    (void)state;
    for_all_cases(try_missing_inputs);
}

static void test_operations__accept_or_refuse_every_type(void **state)
{
    (void)state;
    for_all_cases(try_types);
}

static void test_operations__accept_or_refuse_every_shape(void **state)
{
    (void)state;
    for_all_cases(try_shapes);
}

static void test_operations__accept_or_refuse_empty_tensors(void **state)
{
    (void)state;
    for_all_cases(try_empty);
}

static void test_operations__accept_or_refuse_every_attribute(void **state)
{
    (void)state;
    for_all_cases(try_attributes);
}

static void test_operations__all_have_cases_and_are_found_by_name(void **state)
{
    (void)state;
    for (int i = 0; i < n_ops; i++) {
        if (!op_table[i]->cases || !op_table[i]->cases[0])
            fail_msg("%s has no test case", op_table[i]->name);
        assert_ptr_equal(op_find(op_table[i]->name), op_table[i]);
    }
}

RUN_TESTS(cmocka_unit_test(test_operations__all_have_cases_and_are_found_by_name),
          cmocka_unit_test(test_operations__name_themselves_when_inputs_are_missing),
          cmocka_unit_test(test_operations__accept_or_refuse_every_type),
          cmocka_unit_test(test_operations__accept_or_refuse_every_shape),
          cmocka_unit_test(test_operations__accept_or_refuse_empty_tensors),
          cmocka_unit_test(test_operations__accept_or_refuse_every_attribute))

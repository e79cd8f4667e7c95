// Every gradient in the operation table against finite differences, in f64, in random directions.
#include "support/op_cases.h"
#include "support/test.h"

#include "base/rng.h"
#include <math.h>

enum { N_SEEDS = 2 };

static int n_checked, n_other_types;

// The case's inputs with input `moved` a little further along a random direction.
static void make_inputs(const struct op_case *c, enum case_layout layout, uint64_t seed, int moved,
                        double step, det_tensor **in)
{
    bool old = det_set_grad_enabled(false);
    for (int i = 0; i < c->n_in; i++) {
        in[i] = case_input(c, i, DET_F64, layout, seed);
        if (i != moved) continue;
        det_tensor *direction = det_zeros(DET_F64, in[i]->shape, in[i]->ndim);
        for (int64_t k = 0; k < direction->numel; k++)
            ((double *)direction->data)[k] = rng_normal(seed, 999, (uint64_t)k);
        det_add_(in[i], direction, step);
    }
    det_set_grad_enabled(old);
}

static double dot_with_direction(det_tensor *g, uint64_t seed)
{
    const double *v = det_data(g);
    double sum = 0;
    for (int64_t k = 0; k < det_numel(g); k++)
        sum += v[k] * rng_normal(seed, 999, (uint64_t)k);
    return sum;
}

static struct node *call(const struct op_case *c, det_tensor **in, uint64_t seed)
{
    det_manual_seed(seed); // the same mask for every call of a random operation
    return op_record(c->op, in, c->n_in, c->attr, NODE_ATTR_BYTES);
}

// All float results in one number: each element times a fixed random factor.
static det_tensor *as_one_number(const struct node *n, uint64_t seed)
{
    det_tensor *total = NULL;
    for (int o = 0; o < n->n_out; o++) {
        det_tensor *y = n->out[o];
        if (!det_dtype_is_float((det_dtype)y->dtype)) continue;
        det_tensor *factor = det_empty(DET_F64, y->shape, y->ndim);
        for (int64_t k = 0; k < factor->numel; k++)
            ((double *)factor->data)[k] = rng_normal(seed, 500 + (uint64_t)o, (uint64_t)k);
        det_tensor *part = det_sum(det_mul(det_to(y, DET_F64), factor));
        total = total ? det_add(total, part) : part;
    }
    return total;
}

static double value_at(const struct op_case *c, enum case_layout layout, uint64_t seed, int moved,
                       double step)
{
    det_tensor *in[CASE_MAX_IN];
    det_scope_begin();
    make_inputs(c, layout, seed, moved, step, in);
    struct node *n = call(c, in, seed);
    det_tensor *total = n ? as_one_number(n, seed) : NULL;
    double value = total ? det_item(total) : 0; // integers do not move
    det_scope_end();
    return value;
}

static void compare(const struct op_case *c, enum case_layout layout, uint64_t seed, int i,
                    det_tensor *grad)
{
    const double step = 1e-5;
    double up = value_at(c, layout, seed, i, step), down = value_at(c, layout, seed, i, -step);
    double numeric = (up - down) / (2 * step), ours = grad ? dot_with_direction(grad, seed) : 0;
    double allowed = 1e-5 * (1 + fabs(numeric) + 1e-3 * fabs(up));
    bool both_undefined = isnan(numeric) && isnan(ours); // the variance of one element
    if (!both_undefined && !(fabs(numeric - ours) <= allowed))
        fail_msg("%s: gradient of input %d (%s) is %.9g, finite differences say %.9g: %s",
                 c->op->name, i, c->name[i], ours, numeric, c->text);
}

static void check_case(const struct op_case *c, enum case_layout layout, uint64_t seed)
{
    det_tensor *in[CASE_MAX_IN];
    det_err err;
    make_inputs(c, layout, seed, -1, 0, in);
    for (int i = 0; i < c->n_in; i++)
        if (case_input_is_float(c, i)) det_requires_grad(in[i], true);
    struct node *n = call(c, in, seed);
    if (n && n->tracked) det_backward(as_one_number(n, seed));
    int code = det_check(&err);
    if (code == DET_EDTYPE) {
        n_other_types++;
        return;
    }
    if (code) fail_msg("%s: %s", c->text, err.msg);
    for (int i = 0; i < c->n_in; i++) {
        if (!case_input_is_float(c, i) || !in[i]->numel) continue;
        compare(c, layout, seed, i, det_grad(in[i]));
        n_checked++;
    }
}

// Gradients around NaN and infinities are compared with torch (tests/parity), not here.
static bool is_smooth(const struct op_case *c)
{
    if (c->gradient_stops) return false;
    for (int i = 0; i < c->n_in; i++)
        if (c->kind[i] == 'n') return false;
    return true;
}

static void test_gradients__of_all_operations_agree_with_finite_differences(void **state)
{
    (void)state;
    for (int i = 0; i < n_ops; i++) {
        if (!op_table[i]->backward) continue;
        for (const char *const *text = op_table[i]->cases; text && *text; text++)
            for (uint64_t seed = 1; seed <= N_SEEDS; seed++)
                for (int layout = 0; layout < N_LAYOUTS; layout++) {
                    struct op_case c;
                    case_parse(&c, op_table[i], *text, seed);
                    if (!is_smooth(&c) || (c.dense_only && layout != LAYOUT_DENSE)) continue;
                    det_scope_begin();
                    check_case(&c, (enum case_layout)layout, seed);
                    det_scope_end();
                }
    }
    assert_true(n_checked > 1000);
    assert_true(n_other_types < n_checked / 10);
}

static void test_gradients__every_differentiable_operation_has_a_smooth_case(void **state)
{
    (void)state;
    for (int i = 0; i < n_ops; i++) {
        bool found = !op_table[i]->backward;
        for (const char *const *text = op_table[i]->cases; !found && text && *text; text++) {
            struct op_case c;
            case_parse(&c, op_table[i], *text, 1);
            found = is_smooth(&c);
        }
        if (!found) fail_msg("%s has no case to check its gradient with", op_table[i]->name);
    }
}

// A gradient that arrived in another order of elements must not be taken for one in the tensor's
// own.
static void test_gradients__of_a_parameter_used_in_two_orders_add_up(void **state)
{
    (void)state;
    const float w_data[] = {1, 2, 3, 4, 5, 6}, x_data[] = {1, 10, 100};
    det_scope_begin();
    det_tensor *w = det_requires_grad(det_from(DET_F32, DET_DIMS(2, 3), w_data), true);
    det_tensor *x = det_from(DET_F32, DET_DIMS(1, 3), x_data);
    det_tensor *direct = det_sum(det_linear(x, w, NULL));
    det_tensor *factor = det_from(DET_F32, DET_DIMS(3, 2), w_data);
    det_backward(det_add(direct, det_sum(det_mul(det_transpose(w, 0, 1), factor))));
    const float *g = det_data_f32(det_grad(w)), expected[] = {2, 13, 105, 3, 14, 106};
    assert_non_null(g);
    assert_memory_equal(g, expected, sizeof expected);
    det_scope_end();
}

RUN_TESTS(cmocka_unit_test(test_gradients__of_all_operations_agree_with_finite_differences),
          cmocka_unit_test(test_gradients__every_differentiable_operation_has_a_smooth_case),
          cmocka_unit_test(test_gradients__of_a_parameter_used_in_two_orders_add_up))

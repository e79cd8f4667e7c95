// Program op_parity: runs every case of the operation table and writes inputs, results and
// gradients for op_parity.py to compare with torch. Output, per run: one line of JSON, then the
// arrays it lists, raw and row-major.
#include "support/op_cases.h"

static void write_array(det_tensor *t)
{
    const void *data = det_data(t);
    fwrite(data, 1, (size_t)t->numel * det_dtype_size((det_dtype)t->dtype), stdout);
}

static void describe(const char *key, const char *name, const det_tensor *t, bool *first)
{
    printf("%s{\"what\": \"%s\", \"name\": \"%s\", \"dtype\": \"%s\", \"shape\": [",
           *first ? "" : ", ", key, name, det_dtype_name((det_dtype)t->dtype));
    for (int d = 0; d < t->ndim; d++)
        printf("%s%lld", d ? ", " : "", (long long)t->shape[d]);
    printf("]}");
    *first = false;
}

static void print_header(const struct op_case *c, det_dtype dtype, enum case_layout layout,
                         const char *error)
{
    printf("{\"op\": \"%s\", \"dtype\": \"%s\", \"layout\": %d, \"shapes_only\": %s, \"error\": "
           "\"%s\", "
           "\"expr\": \"%s\", \"attrs\": \"%s\", \"letters\": {",
           c->op->name, det_dtype_name(dtype), (int)layout, c->shapes_only ? "true" : "false",
           error, c->expr, c->attr_text);
    bool first = true;
    for (int l = 'A'; l <= 'z'; l++)
        if (c->letter[l]) {
            printf("%s\"%c\": %lld", first ? "" : ", ", l, (long long)c->letter[l]);
            first = false;
        }
    printf("}, \"arrays\": [");
}

static bool run_case(const struct op_case *c, det_dtype dtype, enum case_layout layout,
                     uint64_t seed)
{
    det_tensor *in[CASE_MAX_IN], *grad_out[NODE_MAX_OUT] = {0};
    det_manual_seed(seed);
    det_set_grad_enabled(false);
    for (int i = 0; i < c->n_in; i++)
        in[i] = case_input(c, i, dtype, layout, seed);
    det_set_grad_enabled(true);
    bool differentiable = c->op->backward != NULL;
    for (int i = 0; i < c->n_in; i++)
        if (differentiable && case_input_is_float(c, i)) det_requires_grad(in[i], true);
    struct node *n = op_record(c->op, in, c->n_in, c->attr, NODE_ATTR_BYTES);
    det_err err;
    if (!n || det_check(&err)) {
        if (!n) det_check(&err);
        print_header(c, dtype, layout, err.msg);
        printf("]}\n");
        return err.code == DET_EDTYPE; // a type that the operation does not have is no failure
    }
    det_tensor *total = NULL;
    for (int o = 0; o < n->n_out && n->tracked; o++) {
        if (!n->out[o]->requires_grad) continue;
        det_set_grad_enabled(false);
        grad_out[o] = det_randn(DET_F64, n->out[o]->shape, n->out[o]->ndim);
        grad_out[o] = det_to(grad_out[o], (det_dtype)n->out[o]->dtype);
        det_set_grad_enabled(true);
        det_tensor *part =
            det_sum(det_mul(det_to(n->out[o], DET_F64), det_to(grad_out[o], DET_F64)));
        total = total ? det_add(total, part) : part;
    }
    if (total) det_backward(total);
    for (int i = 0; i < c->n_in; i++)
        if (total && in[i] && case_input_is_float(c, i) && !det_grad(in[i]))
            det_raise(DET_ESTATE, "no gradient for %s", c->name[i]);
    if (det_check(&err)) {
        print_header(c, dtype, layout, err.msg);
        printf("]}\n");
        return false;
    }
    print_header(c, dtype, layout, "");
    bool first = true;
    for (int i = 0; i < c->n_in; i++)
        if (in[i]) describe("in", c->name[i], in[i], &first);
    for (int o = 0; o < n->n_out; o++)
        describe("out", "", n->out[o], &first);
    for (int o = 0; o < n->n_out; o++)
        if (grad_out[o]) describe("grad_out", "", grad_out[o], &first);
    for (int i = 0; i < c->n_in; i++)
        if (in[i] && det_grad(in[i])) describe("grad_in", c->name[i], det_grad(in[i]), &first);
    printf("]}\n");
    for (int i = 0; i < c->n_in; i++)
        if (in[i]) write_array(in[i]);
    for (int o = 0; o < n->n_out; o++)
        write_array(n->out[o]);
    for (int o = 0; o < n->n_out; o++)
        if (grad_out[o]) write_array(grad_out[o]);
    for (int i = 0; i < c->n_in; i++)
        if (in[i] && det_grad(in[i])) write_array(det_grad(in[i]));
    return true;
}

int main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    const char *only = argc > 2 ? argv[2] : NULL;
    static const det_dtype dtypes[] = {DET_F32, DET_F64, DET_BF16};
    int failures = 0;
    for (int i = 0; i < n_ops; i++) {
        if (only && strcmp(only, op_table[i]->name)) continue;
        for (const char *const *text = op_table[i]->cases; text && *text; text++)
            for (uint64_t seed = 1; seed <= rounds; seed++)
                for (int v = 0; v < 3 * N_LAYOUTS; v++) {
                    struct op_case c;
                    case_parse(&c, op_table[i], *text, seed);
                    enum case_layout layout = (enum case_layout)(v % N_LAYOUTS);
                    if (c.dense_only && layout != LAYOUT_DENSE) continue;
                    det_scope_begin();
                    failures += !run_case(&c, dtypes[v / N_LAYOUTS], layout, seed);
                    det_scope_end();
                }
    }
    return failures != 0;
}

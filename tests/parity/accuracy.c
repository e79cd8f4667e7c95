// Program accuracy: computes on request what accuracy.py computes with torch at the same time, for
// both to be compared with 64 bits. Reads requests from its input, writes an answer to each
// (support/wire.h). The table below and that of accuracy.py have the same names.
#include "support/models.h"
#include "support/wire.h"

#include <string.h>

static int64_t integer(const det_value *request, const char *key)
{
    int64_t i = 0;
    det_value_as_int(det_value_get(request, key), &i, NULL);
    return i;
}

static det_tensor *tensor_at(const det_value *list, int i)
{
    return det_value_as_tensor(det_value_at(list, i));
}

static void push_copy(det_value *list, det_tensor *t)
{
    det_scope_begin();
    bool old = det_set_grad_enabled(false);
    det_value_push(list, t ? det_value_tensor(det_clone(t)) : det_value_none());
    det_set_grad_enabled(old);
    det_scope_end();
}

// --- operations: of the inputs in[] and the options of the request

static det_tensor *convolved(const det_value *r, det_tensor *const *in)
{
    int64_t stride = integer(r, "stride"), padding = integer(r, "padding");
    return det_conv2d(in[0], in[1], in[2], .stride = {stride, stride},
                      .padding = {padding, padding});
}

static det_tensor *normalised(det_tensor *const *in)
{
    return det_batch_norm(in[0], .weight = in[1], .bias = in[2], .training = true);
}

static det_tensor *pooled(det_tensor *x)
{
    return det_max_pool2d(x, .kernel = {2, 2});
}

// clang-format off
#define OPERATIONS(O)                                                                             \
    O(conv, convolved(r, in))                                                                     \
    O(conv_relu, det_relu(convolved(r, in)))                                                      \
    O(conv_pool_relu, det_relu(pooled(convolved(r, in))))                              \
    O(linear, det_linear(in[0], in[1], in[2]))                                                    \
    O(batch_norm, normalised(in))                                                                 \
    O(batch_norm_relu, det_relu(normalised(in)))                                                  \
    O(batch_norm_add_relu, det_relu(det_add(normalised(in), in[3])))                              \
    O(batch_norm_pool, pooled(det_relu(normalised(in))))                               \
    O(layer_norm, det_layer_norm(in[0], 1, in[1], in[2], 1e-5))                                   \
    O(group_norm, det_group_norm(in[0], integer(r, "groups"), in[1], in[2], 1e-5))                \
    O(sum, det_sum_over(in[0], DET_DIMS(0), false))                                               \
    O(var, det_var_over(in[0], DET_DIMS(0), 0, false))
// clang-format on

#define OPERATION(name, expression)                                          \
    static det_tensor *run_##name(const det_value *r, det_tensor *const *in) \
    {                                                                        \
        (void)r;                                                             \
        return expression;                                                   \
    }
OPERATIONS(OPERATION)

static const struct {
    const char *name;
    det_tensor *(*run)(const det_value *request, det_tensor *const *in);
} operations[] = {
#define ROW(name, expression) {#name, run_##name},
    OPERATIONS(ROW)};

// The result, and the gradients of the inputs if that of the result is `grad`.
static det_value *answer_operation(const det_value *request, const char *name)
{
    enum { MAX_IN = 4 };
    det_tensor *in[MAX_IN] = {0}, *y = NULL;
    const det_value *inputs = det_value_get(request, "inputs");
    for (int i = 0; i < det_value_len(inputs) && i < MAX_IN; i++)
        if ((in[i] = tensor_at(inputs, i))) det_requires_grad(in[i], true);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (!strcmp(operations[i].name, name)) y = operations[i].run(request, in);
    if (!y) det_raise(DET_ENOTFOUND, "no operation '%s'", name);
    det_backward(det_sum(det_mul(y, det_value_as_tensor(det_value_get(request, "grad")))));
    det_value *results = det_value_list();
    push_copy(results, y);
    for (int i = 0; i < det_value_len(inputs); i++)
        push_copy(results, det_grad(in[i]));
    return results;
}

// The output of a residual network and the first gradients of its parameters.
static det_value *answer_resnet(const det_value *request)
{
    det_module *m = model_resnet(integer(request, "width"));
    det_err err;
    if (det_module_load_state_dict(m, det_value_get(request, "state"), true, &err))
        det_raise(err.code, "%s", err.msg);
    const det_value *batch = det_value_get(request, "inputs");
    det_tensor *out = det_forward(m, tensor_at(batch, 0));
    det_backward(det_cross_entropy(out, tensor_at(batch, 1)));
    det_value *results = det_value_list();
    push_copy(results, out);
    for (int i = 0; i < det_module_n_params(m); i++)
        push_copy(results, det_grad(det_module_param(m, i)));
    det_module_free(m);
    return results;
}

int main(void)
{
    det_value *request;
    while ((request = wire_read(stdin))) {
        const char *name = "";
        det_value_as_str(det_value_get(request, "name"), &name, NULL);
        det_scope_begin();
        det_value *answer = det_value_dict(), *results = strcmp(name, "resnet")
                                                             ? answer_operation(request, name)
                                                             : answer_resnet(request);
        det_value_set(answer, "results", results);
        det_err err;
        if (det_check(&err)) det_value_set(answer, "error", det_value_str(err.msg));
        det_scope_end();
        wire_write(stdout, answer);
        fflush(stdout);
        det_value_free(answer);
        det_value_free(request);
    }
    return 0;
}

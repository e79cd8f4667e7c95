// Program nn_parity: does on request what nn_parity.py does with torch at the same time. Reads
// requests from its input, writes an answer to each (support/wire.h). The tables below and those of
// nn_parity.py have the same names.
#include "base/mem.h"
#include "det/optim.h"
#include "support/models.h"
#include "support/wire.h"

// --- requests

static const char *text(const det_value *request, const char *key)
{
    const char *s = "";
    det_value_as_str(det_value_get(request, key), &s, NULL);
    return s;
}

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

static void load_module(det_module *m, const det_value *request)
{
    det_err err;
    if (m && det_module_load_state_dict(m, det_value_get(request, "state"), true, &err))
        det_raise(err.code, "%s", err.msg);
}

// A copy: what is in the answer must not change with the next step.
static void push_copy(det_value *list, det_tensor *t)
{
    det_scope_begin();
    bool old = det_set_grad_enabled(false);
    det_value_push(list, t ? det_value_tensor(det_clone(t)) : det_value_none());
    det_set_grad_enabled(old);
    det_scope_end();
}

// --- modules

enum { MAX_OUT = 3 };

typedef void (*run_fn)(det_module *m, const det_value *in, det_tensor **out);

static void run_forward(det_module *m, const det_value *in, det_tensor **out)
{
    out[0] = det_forward(m, tensor_at(in, 0));
}

static void run_rnn(det_module *m, const det_value *in, det_tensor **out)
{
    out[0] =
        det_rnn_forward(m, tensor_at(in, 0), tensor_at(in, 1), tensor_at(in, 2), &out[1], &out[2]);
}

static void run_attention(det_module *m, const det_value *in, det_tensor **out)
{
    out[0] = det_mha_forward(m, tensor_at(in, 0), tensor_at(in, 1), tensor_at(in, 2),
                             tensor_at(in, 3), false);
}

static void run_causal(det_module *m, const det_value *in, det_tensor **out)
{
    det_tensor *x = tensor_at(in, 0);
    out[0] = det_mha_forward(m, x, x, x, NULL, true);
}

static void run_eval(det_module *m, const det_value *in, det_tensor **out)
{
    det_module_train(m, false);
    run_forward(m, in, out);
}

// name, how it is run, the module
// clang-format off
#define MODULES(M)                                                                                  \
    M(Linear, run_forward, det_nn_linear(5, 3))                                                     \
    M(LinearNoBias, run_forward, det_nn_linear(5, 3, .no_bias = true))                              \
    M(Conv1d, run_forward, det_nn_conv1d(3, 4, .kernel = 3, .stride = 2, .padding = 1))             \
    M(Conv2d, run_forward, det_nn_conv2d(3, 8, .kernel = 3, .padding = 1))                          \
    M(Conv2dOptions, run_forward, det_nn_conv2d(4, 6, .kernel_hw = {3, 2}, .stride_hw = {2, 1},     \
      .padding_hw = {1, 0}, .dilation = 2, .groups = 2, .no_bias = true))                           \
    M(ConvTranspose2d, run_forward, det_nn_conv_transpose2d(4, 6, .kernel = 3, .stride = 2,         \
      .padding = 1, .output_padding = 1, .groups = 2))                                              \
    M(MaxPool2d, run_forward, det_nn_max_pool2d(2))                                                 \
    M(MaxPool2dOptions, run_forward, det_nn_max_pool2d(3, .stride = 2, .padding = 1, .ceil_mode = true)) \
    M(AvgPool2d, run_forward, det_nn_avg_pool2d(2))                                                 \
    M(AvgPool2dOptions, run_forward, det_nn_avg_pool2d(3, .stride = 2, .padding = 1, .exclude_padding = true)) \
    M(AdaptiveAvgPool2d, run_forward, det_nn_adaptive_avg_pool2d(3, 2))                             \
    M(AdaptiveMaxPool2d, run_forward, det_nn_adaptive_max_pool2d(2, 3))                             \
    M(UpsampleNearest, run_forward, det_nn_upsample(2, DET_INTERPOLATION_NEAREST, false))                         \
    M(UpsampleBilinear, run_forward, det_nn_upsample(3, DET_INTERPOLATION_BILINEAR, true))                        \
    M(BatchNorm1d, run_forward, det_nn_batch_norm1d(6))                                             \
    M(BatchNorm1d3, run_forward, det_nn_batch_norm1d(6, .eps = 1e-3, .momentum = 0.3))              \
    M(BatchNorm2d, run_forward, det_nn_batch_norm2d(6))                                             \
    M(BatchNorm2dPlain, run_forward, det_nn_batch_norm2d(6, .no_affine = true, .no_running_stats = true)) \
    M(BatchNorm2dEval, run_eval, det_nn_batch_norm2d(6))                                            \
    M(LayerNorm, run_forward, det_nn_layer_norm(7))                                                 \
    M(LayerNormPlain, run_forward, det_nn_layer_norm(7, .no_affine = true, .eps = 1e-3))            \
    M(RMSNorm, run_forward, det_nn_rms_norm(7, .eps = 1e-6))                                        \
    M(GroupNorm, run_forward, det_nn_group_norm(3, 6))                                              \
    M(Embedding, run_forward, det_nn_embedding(11, 4))                                              \
    M(EmbeddingPadding, run_forward, det_nn_embedding(11, 4, .use_padding_idx = true, .padding_idx = -2)) \
    M(DropoutEval, run_eval, det_nn_dropout(0.5))                                                   \
    M(Dropout2dEval, run_eval, det_nn_dropout2d(0.5))                                               \
    M(Flatten, run_forward, det_nn_flatten())                                                       \
    M(Identity, run_forward, det_nn_identity())                                                     \
    M(Softmax, run_forward, det_nn_softmax(1))                                                      \
    M(LogSoftmax, run_forward, det_nn_log_softmax(-1))                                              \
    M(ReLU, run_forward, det_nn_relu())                                                             \
    M(GELU, run_forward, det_nn_gelu())                                                             \
    M(SiLU, run_forward, det_nn_silu())                                                             \
    M(Tanh, run_forward, det_nn_tanh())                                                             \
    M(Sigmoid, run_forward, det_nn_sigmoid())                                                       \
    M(LeakyReLU, run_forward, det_nn_leaky_relu(0.2))                                               \
    M(ELU, run_forward, det_nn_elu(0.7))                                                            \
    M(Sequential, run_forward, det_nn_sequential(det_nn_linear(5, 8), det_nn_relu(),                \
      det_nn_sequential(det_nn_linear(8, 8), det_nn_tanh()), det_nn_linear(8, 2)))                  \
    M(RNN, run_forward, det_nn_rnn(5, 6))                                                           \
    M(RNNRelu, run_forward, det_nn_rnn(5, 6, .relu = true, .num_layers = 2, .no_bias = true))       \
    M(RNNStates, run_rnn, det_nn_rnn(5, 6, .num_layers = 2, .bidirectional = true))                 \
    M(GRU, run_forward, det_nn_gru(5, 6, .batch_first = true))                                      \
    M(GRUStates, run_rnn, det_nn_gru(5, 6, .num_layers = 2, .bidirectional = true))                 \
    M(LSTM, run_forward, det_nn_lstm(5, 6, .num_layers = 2, .batch_first = true))                   \
    M(LSTMStates, run_rnn, det_nn_lstm(5, 6, .num_layers = 2, .bidirectional = true))               \
    M(MultiheadAttention, run_forward, det_nn_multihead_attention(8, 2))                            \
    M(MultiheadAttentionCross, run_attention, det_nn_multihead_attention(8, 2, .batch_first = true)) \
    M(MultiheadAttentionMask, run_attention, det_nn_multihead_attention(8, 4, .no_bias = true))     \
    M(MultiheadAttentionCausal, run_causal, det_nn_multihead_attention(8, 2, .batch_first = true))  \
    M(TransformerEncoderLayer, run_forward, det_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 16)) \
    M(TransformerEncoderLayerOptions, run_forward, det_nn_transformer_encoder_layer(8, 2,           \
      .dim_feedforward = 16, .gelu = true, .batch_first = true, .norm_first = true, .causal = true))
// clang-format on

#define MODULE_MAKE(name, run, expression) \
    static det_module *make_##name(void)   \
    {                                      \
        return expression;                 \
    }
MODULES(MODULE_MAKE)

static const struct {
    const char *name;
    run_fn run;
    det_module *(*make)(void);
} module_cases[] = {
#define MODULE_ROW(name, run, expression) {#name, run, make_##name},
    MODULES(MODULE_ROW){NULL, NULL, NULL},
};

// The sum over all outputs of mean((out - target)^2); element i of a target is cos(i).
static det_tensor *distance_from_target(det_tensor *const *out)
{
    det_tensor *loss = NULL;
    for (int i = 0; i < MAX_OUT; i++) {
        if (!out[i]) continue;
        int64_t n = det_numel(out[i]);
        det_tensor *target = det_cos(det_arange(DET_F32, 0, (double)n, 1));
        target = det_reshape(target, det_shape(out[i]), det_ndim(out[i]));
        det_tensor *mean =
            det_mul_scalar(det_sum(det_square(det_sub(out[i], target))), 1 / (double)n);
        loss = loss ? det_add(loss, mean) : mean;
    }
    return loss;
}

static void require_input_grads(const det_value *in)
{
    for (int i = 0; i < det_value_len(in); i++) {
        det_tensor *t = tensor_at(in, i);
        if (t && det_dtype_of(t) == DET_F32) det_requires_grad(t, true);
    }
}

static void push_grads(det_value *list, const det_value *in)
{
    for (int i = 0; i < det_value_len(in); i++) {
        push_copy(list, det_grad(tensor_at(in, i)));
        det_zero_grad(tensor_at(in, i));
    }
}

static det_value *answer_module(const det_value *request)
{
    int c = 0;
    while (module_cases[c].name && strcmp(module_cases[c].name, text(request, "name")))
        c++;
    det_module *m = module_cases[c].name ? module_cases[c].make() : NULL;
    load_module(m, request);
    det_optimizer *opt = det_module_n_params(m) ? det_optim_sgd(m, .lr = 0.05) : NULL;
    det_value *answer = det_value_dict(), *inputs = det_value_get(request, "inputs");
    det_value *outputs = det_value_set(answer, "outputs", det_value_list());
    det_value *grads = det_value_set(answer, "grads", det_value_list());
    for (int step = 0; step < integer(request, "steps"); step++) {
        det_value *in = det_value_at(inputs, step % det_value_len(inputs));
        det_tensor *out[MAX_OUT] = {NULL};
        det_scope_begin();
        require_input_grads(in);
        module_cases[c].run(m, in, out);
        det_tensor *loss = distance_from_target(out);
        if (det_has_requires_grad(loss)) det_backward(loss);
        for (int i = 0; i < MAX_OUT; i++)
            push_copy(outputs, out[i]);
        push_grads(grads, in);
        det_optim_step(opt);
        det_optim_zero_grad(opt);
        det_scope_end();
    }
    if (m) det_value_set(answer, "state", det_module_state_dict(m));
    det_optim_free(opt);
    det_module_free(m);
    return answer;
}

// --- optimizers

// clang-format off
#define OPTIMIZERS(O)                                                                               \
    O(SGD, det_optim_sgd(m, .lr = 0.05))                                                            \
    O(SGD_decay, det_optim_sgd(m, .lr = 0.05, .weight_decay = 0.1, .maximize = true))               \
    O(SGD_momentum, det_optim_sgd(m, .lr = 0.05, .momentum = 0.9))                                  \
    O(SGD_dampening, det_optim_sgd(m, .lr = 0.05, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.01)) \
    O(SGD_nesterov, det_optim_sgd(m, .lr = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01)) \
    O(Adam, det_optim_adam(m))                                                                      \
    O(Adam_options, det_optim_adam(m, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-4, .weight_decay = 0.1)) \
    O(Adam_amsgrad, det_optim_adam(m, .lr = 0.02, .amsgrad = true, .maximize = true))               \
    O(AdamW, det_optim_adamw(m))                                                                    \
    O(AdamW_options, det_optim_adamw(m, .lr = 0.02, .weight_decay = 0.3, .amsgrad = true))          \
    O(AdamW_no_decay, det_optim_adamw(m, .lr = 0.02, .weight_decay = 0, .maximize = true))    \
    O(RMSprop, det_optim_rmsprop(m))                                                                \
    O(RMSprop_momentum, det_optim_rmsprop(m, .lr = 0.003, .momentum = 0.9, .weight_decay = 0.01))   \
    O(RMSprop_centered, det_optim_rmsprop(m, .centered = true, .alpha = 0.9, .maximize = true))     \
    O(RMSprop_all, det_optim_rmsprop(m, .lr = 0.003, .centered = true, .momentum = 0.5, .eps = 1e-4)) \
    O(Adagrad, det_optim_adagrad(m))                                                                \
    O(Adagrad_options, det_optim_adagrad(m, .lr = 0.1, .lr_decay = 0.05, .weight_decay = 0.01,      \
      .initial_accumulator_value = 0.5, .eps = 1e-5, .maximize = true))                             \
    O(Lion, det_optim_lion(m))                                                                      \
    O(Lion_options, det_optim_lion(m, .lr = 0.003, .beta1 = 0.95, .beta2 = 0.98, .weight_decay = 0.5))
// clang-format on

#define OPTIMIZER_MAKE(name, expression)                       \
    static det_optimizer *make_optimizer_##name(det_module *m) \
    {                                                          \
        return expression;                                     \
    }
OPTIMIZERS(OPTIMIZER_MAKE)

static const struct {
    const char *name;
    det_optimizer *(*make)(det_module *m);
} optimizer_cases[] = {
#define OPTIMIZER_ROW(name, expression) {#name, make_optimizer_##name},
    OPTIMIZERS(OPTIMIZER_ROW){NULL, NULL},
};

static det_optimizer *make_optimizer(const char *name, det_module *m)
{
    for (int i = 0; optimizer_cases[i].name; i++)
        if (!strcmp(optimizer_cases[i].name, name)) return optimizer_cases[i].make(m);
    det_raise(DET_ENOTFOUND, "no optimizer '%s'", name);
    return NULL;
}

static void load_optimizer(det_optimizer *opt, const det_value *state)
{
    det_err err;
    if (opt && state && det_optim_load_state_dict(opt, state, &err))
        det_raise(err.code, "%s", err.msg);
}

// Gradients are given: the derivative of sum(p * g) by p is g.
static void backward_to(det_module *m, const det_value *grads)
{
    det_tensor *loss = NULL;
    for (int i = 0; i < det_value_len(grads); i++) {
        det_tensor *g = tensor_at(grads, i);
        if (!g) continue;
        det_tensor *part = det_sum(det_mul(det_module_param(m, i), g));
        loss = loss ? det_add(loss, part) : part;
    }
    if (loss) det_backward(loss);
}

// The last parameter is a group of its own with a tenth of the learning rate.
static det_value *answer_optimizer(const det_value *request)
{
    det_value *params = det_value_get(request, "params"), *grads = det_value_get(request, "grads");
    int n = det_value_len(params);
    det_module *m = det_module_new("Params", 0, NULL), *front = det_module_new("Front", 0, NULL);
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        det_module_add_param(m, name, tensor_at(params, i));
        if (i < n - 1) det_module_add_param(front, name, tensor_at(params, i));
    }
    det_optimizer *opt = make_optimizer(text(request, "name"), front);
    det_optim_add_params(opt, (det_tensor *[]){tensor_at(params, n - 1)}, 1);
    det_optim_set_lr(opt, 1, det_optim_lr(opt, 0) / 10);
    load_optimizer(opt, det_value_get(request, "state"));
    det_value *answer = det_value_dict();
    det_value *values = det_value_set(answer, "params", det_value_list());
    for (int step = 0; step < det_value_len(grads); step++) {
        det_scope_begin();
        backward_to(m, det_value_at(grads, step));
        det_optim_step(opt);
        det_optim_zero_grad(opt);
        det_value *now = det_value_push(values, det_value_list());
        for (int i = 0; i < n; i++)
            push_copy(now, det_module_param(m, i));
        det_scope_end();
    }
    det_value_set(answer, "state", det_optim_state_dict(opt));
    det_optim_free(opt);
    det_module_free(m);
    det_module_free(front);
    return answer;
}

// --- schedules

static double halving(int64_t step, int group, void *user)
{
    return 1 / (1 + (double)step * (group + 1) / *(double *)user);
}

static double ten = 10;

// clang-format off
#define SCHEDULES(S)                                                                                \
    S(StepLR, det_lr_step_decay(opt, 7, 0.5))                                                          \
    S(MultiStepLR, det_lr_multi_step(opt, (int64_t[]){3, 20, 20, 50}, 4, 0.3))                      \
    S(ExponentialLR, det_lr_exponential(opt, 0.97))                                                 \
    S(CosineAnnealingLR, det_lr_cosine_annealing(opt, 30, 0.001))                                   \
    S(CosineAnnealingLR_short, det_lr_cosine_annealing(opt, 1, 0))                                  \
    S(CosineAnnealingWarmRestarts, det_lr_cosine_warm_restarts(opt, 5, 2, 0.002))                   \
    S(CosineAnnealingWarmRestarts_even, det_lr_cosine_warm_restarts(opt, 9, 1, 0))                  \
    S(LinearLR, det_lr_linear_warmup(opt, 0.1, 0.9, 25))                                            \
    S(PolynomialLR, det_lr_polynomial(opt, 60, 2.5))                                                \
    S(LambdaLR, det_lr_lambda(opt, halving, &ten))                                                  \
    S(OneCycleLR, det_lr_one_cycle(opt, .max_lr = 0.3, .total_steps = 101))                         \
    S(OneCycleLR_options, det_lr_one_cycle(opt, .max_lr = 0.3, .total_steps = 101, .pct_start = 0.4,  \
      .div_factor = 10, .final_div_factor = 100, .linear = true, .base_momentum = 0.7,                \
      .max_momentum = 0.9, .three_phase = true))                                                    \
    S(OneCycleLR_plain, det_lr_one_cycle(opt, .max_lr = 0.3, .total_steps = 150, .cycle_momentum = false)) \
    S(CyclicLR, det_lr_cyclic(opt, .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 11))             \
    S(CyclicLR_triangular2, det_lr_cyclic(opt, .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 8,   \
      .step_size_down = 5, .mode = DET_CYCLIC_TRIANGULAR2, .base_momentum = 0.6, .max_momentum = 0.8))     \
    S(CyclicLR_exp_range, det_lr_cyclic(opt, .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 8,     \
      .mode = DET_CYCLIC_EXP_RANGE, .gamma = 0.99, .cycle_momentum = false))                             \
    S(ReduceLROnPlateau, det_lr_plateau(opt, .factor = 0.5, .patience = 3, .cooldown = 2))          \
    S(ReduceLROnPlateau_options, det_lr_plateau(opt, .max = true, .threshold = 0.01, .abs_threshold = true, \
      .patience = 0, .min_lr = 0.004, .eps = 0.001))
// clang-format on

#define SCHEDULE_MAKE(name, expression)                               \
    static det_lr_scheduler *make_schedule_##name(det_optimizer *opt) \
    {                                                                 \
        return expression;                                            \
    }
SCHEDULES(SCHEDULE_MAKE)

static const struct {
    const char *name;
    det_lr_scheduler *(*make)(det_optimizer *opt);
} schedule_cases[] = {
#define SCHEDULE_ROW(name, expression) {#name, make_schedule_##name},
    SCHEDULES(SCHEDULE_ROW){NULL, NULL},
};

enum { MAX_SCHEDULES = 4 };

static det_lr_scheduler *make_schedule(const char *name, det_optimizer *opt)
{
    for (int i = 0; schedule_cases[i].name; i++)
        if (!strcmp(schedule_cases[i].name, name)) return schedule_cases[i].make(opt);
    det_raise(DET_ENOTFOUND, "no schedule '%s'", name);
    return NULL;
}

static void push_rates(det_value *list, const det_optimizer *opt, const char *momentum)
{
    for (int g = 0; g < det_optim_n_groups(opt); g++) {
        det_value_push(list, det_value_float(det_optim_lr(opt, g)));
        det_value_push(list, det_value_float(det_optim_get(opt, g, momentum)));
    }
}

static void step_schedule(det_lr_scheduler *s, const det_value *metrics, int step)
{
    double metric = 0;
    det_value_as_float(det_value_at(metrics, step), &metric, NULL);
    if (det_lr_scheduler_wants_metric(s))
        det_lr_scheduler_step_metric(s, metric);
    else
        det_lr_scheduler_step(s);
}

// Several schedules on one optimizer with two groups; continues from saved states if there are any.
static det_value *answer_schedule(const det_value *request)
{
    det_module *a = det_nn_linear(1, 1), *b = det_nn_linear(1, 1);
    bool use_adam = !strcmp(text(request, "optimizer"), "Adam");
    det_optimizer *opt = use_adam ? det_optim_adam(a, .lr = 0.05) : det_optim_sgd(a, .lr = 0.05);
    det_optim_add_group(opt, b);
    det_optim_set_lr(opt, 1, 0.2);
    const det_value *names = det_value_get(request, "names");
    const det_value *metrics = det_value_get(request, "metrics");
    const det_value *saved = det_value_get(request, "saved");
    det_lr_scheduler *s[MAX_SCHEDULES] = {NULL};
    int n = det_value_len(names);
    for (int i = 0; i < n; i++) {
        const char *name = "";
        det_value_as_str(det_value_at(names, i), &name, NULL);
        s[i] = make_schedule(name, opt);
    }
    load_optimizer(opt, det_value_get(request, "state"));
    det_err err;
    for (int i = 0; i < det_value_len(saved); i++)
        if (det_lr_scheduler_load_state_dict(s[i], det_value_at(saved, i), &err))
            det_raise(err.code, "%s", err.msg);
    det_value *answer = det_value_dict();
    det_value *rates = det_value_set(answer, "rates", det_value_list());
    push_rates(rates, opt, use_adam ? "beta1" : "momentum");
    for (int step = 0; step < det_value_len(metrics); step++) {
        for (int i = 0; i < n; i++)
            step_schedule(s[i], metrics, step);
        push_rates(rates, opt, use_adam ? "beta1" : "momentum");
    }
    det_value_set(answer, "state", det_optim_state_dict(opt));
    det_value *states = det_value_set(answer, "saved", det_value_list());
    for (int i = 0; i < n; i++) {
        det_value_push(states, det_lr_scheduler_state_dict(s[i]));
        det_lr_scheduler_free(s[i]);
    }
    det_optim_free(opt);
    det_module_free(a);
    det_module_free(b);
    return answer;
}

// --- whole models

static det_tensor *nll(det_tensor *y, det_tensor *target)
{
    return det_nll_loss(y, target);
}

static det_tensor *cross_entropy(det_tensor *y, det_tensor *target)
{
    return det_cross_entropy(y, target);
}

static det_tensor *token_cross_entropy(det_tensor *y, det_tensor *target)
{
    return det_cross_entropy(det_flatten(y, 0, 1), det_flatten(target, 0, 1));
}

// clang-format off
#define MODELS(M)                                                                                   \
    M(mnist, nll, model_mnist(0), det_optim_sgd(m, .lr = 0.01, .momentum = 0.9))                    \
    M(mlp, cross_entropy, model_mlp(), det_optim_adam(m))                                           \
    M(resnet, cross_entropy, model_resnet(8), det_optim_sgd(m, .lr = 0.001, .momentum = 0.9, .weight_decay = 5e-4)) \
    M(lstm, cross_entropy, model_lstm(16, 32, 5), det_optim_rmsprop(m, .lr = 0.002))                \
    M(gpt, token_cross_entropy, model_gpt(50, 32, 4, 2, 16), det_optim_adamw(m))
// clang-format on

#define MODEL_MAKE(name, loss, model, optimizer)             \
    static det_module *make_model_##name(void)               \
    {                                                        \
        return model;                                        \
    }                                                        \
    static det_optimizer *optimizer_of_##name(det_module *m) \
    {                                                        \
        return optimizer;                                    \
    }
MODELS(MODEL_MAKE)

static const struct model_case {
    const char *name;
    det_module *(*make)(void);
    det_tensor *(*loss)(det_tensor *y, det_tensor *target);
    det_optimizer *(*optimizer)(det_module *m);
} model_cases[] = {
#define MODEL_ROW(name, loss, model, optimizer) \
    {#name, make_model_##name, loss, optimizer_of_##name},
    MODELS(MODEL_ROW){NULL, NULL, NULL, NULL},
};

static det_value *answer_model(const det_value *request)
{
    const struct model_case *c = model_cases;
    while (c->name && strcmp(c->name, text(request, "name")))
        c++;
    det_module *m = c->name ? c->make() : NULL;
    load_module(m, request);
    det_optimizer *opt = m ? c->optimizer(m) : NULL;
    det_value *answer = det_value_dict(), *batches = det_value_get(request, "batches");
    det_value *losses = det_value_set(answer, "losses", det_value_list());
    det_value *outputs = det_value_set(answer, "outputs", det_value_list());
    for (int step = 0; m && step < det_value_len(batches); step++) {
        det_value *batch = det_value_at(batches, step);
        det_scope_begin();
        det_tensor *out = det_forward(m, tensor_at(batch, 0));
        det_tensor *loss = c->loss(out, tensor_at(batch, 1));
        det_backward(loss);
        if (step == 0) push_copy(outputs, out);
        det_optim_step(opt);
        det_optim_zero_grad(opt);
        det_value_push(losses, det_value_float(det_item(loss)));
        det_scope_end();
    }
    if (m) det_value_set(answer, "state", det_module_state_dict(m));
    det_optim_free(opt);
    det_module_free(m);
    return answer;
}

int main(void)
{
    static const struct {
        const char *what;
        det_value *(*answer)(const det_value *request);
    } kinds[] = {{"module", answer_module},
                 {"optimizer", answer_optimizer},
                 {"schedule", answer_schedule},
                 {"model", answer_model}};
    det_value *request;
    while ((request = wire_read(stdin))) {
        det_value *answer = NULL;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (!strcmp(kinds[i].what, text(request, "what"))) answer = kinds[i].answer(request);
        det_err err;
        if (det_check(&err)) det_value_set(answer, "error", det_value_str(err.msg));
        wire_write(stdout, answer);
        fflush(stdout);
        det_value_free(answer);
        det_value_free(request);
    }
    return 0;
}

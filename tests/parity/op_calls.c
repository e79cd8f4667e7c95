// Unit op_calls.c: reads the arguments of op_calls.h and makes the calls of op_calls.def.
#include "op_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void wrong(const char *what, const char *text)
{
    fprintf(stderr, "op_parity: %s: '%s'\n", what, text);
    exit(2);
}

// Argument i; "-" if the statement has fewer.
static const char *word(const struct call *c, int i)
{
    return i < c->n_arg ? c->arg[i] : "-";
}

static det_tensor *find_tensor(const struct call *c, const char *name, size_t len)
{
    if (len == 1 && *name == '-') return NULL;
    for (int k = c->n_known; k-- > 0;)
        if (strlen(c->known[k].name) == len && !memcmp(c->known[k].name, name, len))
            return c->known[k].tensor;
    wrong("no tensor of this name", name);
}

static det_tensor *tensor_arg(const struct call *c, int i)
{
    return find_tensor(c, word(c, i), strlen(word(c, i)));
}

static double number(const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end) wrong("not a number", text);
    return v;
}

static int64_t integer(const char *text)
{
    char *end;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end) wrong("not an integer", text);
    return v;
}

det_dtype call_dtype(const char *name)
{
    for (int t = 0; t < DET_N_DTYPES; t++)
        if (!strcmp(det_dtype_name((det_dtype)t), name)) return (det_dtype)t;
    wrong("no such type", name);
}

int call_numbers(const char *text, int64_t *out, int max)
{
    int n = 0;
    for (const char *p = text + (*text == '['); *p && *p != ']';) {
        char *end;
        long long v = strtoll(p, &end, 10);
        if (end == p || n == max) wrong("not a list of integers", text);
        out[n++] = v;
        p = end + (*end == ',');
    }
    return n;
}

// A list of a statement, for as long as the call.
struct int_list {
    int64_t v[CALL_MAX_LIST];
    int n;
};

static struct int_list ints(const struct call *c, int i)
{
    struct int_list list = {.n = 0};
    list.n = call_numbers(word(c, i), list.v, CALL_MAX_LIST);
    return list;
}

struct tensor_list {
    det_tensor *v[CALL_MAX_LIST];
    int n;
};

static struct tensor_list tensors(const struct call *c, int i)
{
    struct tensor_list list = {.n = 0};
    const char *p = word(c, i) + 1;
    while (*p && *p != ']') {
        size_t len = strcspn(p, ",]");
        if (list.n == CALL_MAX_LIST) wrong("too long a list", word(c, i));
        list.v[list.n++] = find_tensor(c, p, len);
        p += len + (p[len] == ',');
    }
    return list;
}

static const char *option(const struct call *c, const char *name)
{
    size_t len = strlen(name);
    for (int i = 0; i < c->n_option; i++)
        if (!strncmp(c->option[i], name, len) && c->option[i][len] == '=')
            return c->option[i] + len + 1;
    return NULL;
}

static det_tensor *opt_tensor(const struct call *c, const char *name)
{
    const char *text = option(c, name);
    return text ? find_tensor(c, text, strlen(text)) : NULL;
}

static int64_t opt_int(const struct call *c, const char *name)
{
    const char *text = option(c, name);
    return text ? integer(text) : 0;
}

static double opt_real(const struct call *c, const char *name)
{
    const char *text = option(c, name);
    return text ? number(text) : 0;
}

static void opt_list(const struct call *c, const char *name, int64_t *out, int max)
{
    const char *text = option(c, name);
    if (text) call_numbers(text, out, max);
}

static det_attention_opts attention_opts(const struct call *c)
{
    return (det_attention_opts){.mask = opt_tensor(c, "mask"),
                                .causal = opt_int(c, "causal"),
                                .scale = opt_real(c, "scale"),
                                .dropout = opt_real(c, "dropout")};
}

static det_conv_opts conv_opts(const struct call *c)
{
    det_conv_opts o = {.groups = opt_int(c, "groups")};
    opt_list(c, "stride", o.stride, 3);
    opt_list(c, "padding", o.padding, 3);
    opt_list(c, "dilation", o.dilation, 3);
    opt_list(c, "output_padding", o.output_padding, 3);
    return o;
}

static det_pool_opts pool_opts(const struct call *c)
{
    det_pool_opts o = {.ceil_mode = opt_int(c, "ceil_mode"),
                       .exclude_padding = opt_int(c, "exclude_padding")};
    opt_list(c, "kernel", o.kernel, 3);
    opt_list(c, "stride", o.stride, 3);
    opt_list(c, "padding", o.padding, 3);
    opt_list(c, "dilation", o.dilation, 3);
    return o;
}

static det_unfold_opts unfold_opts(const struct call *c)
{
    det_unfold_opts o = {0};
    opt_list(c, "kernel", o.kernel, 2);
    opt_list(c, "stride", o.stride, 2);
    opt_list(c, "padding", o.padding, 2);
    opt_list(c, "dilation", o.dilation, 2);
    return o;
}

static det_embedding_bag_opts bag_opts(const struct call *c)
{
    return (det_embedding_bag_opts){.mode = (det_bag)opt_int(c, "mode"),
                                    .offsets = opt_tensor(c, "offsets"),
                                    .per_sample_weights = opt_tensor(c, "per_sample_weights"),
                                    .padding_idx = opt_int(c, "padding_idx")};
}

static det_batch_norm_opts batch_norm_opts(const struct call *c)
{
    return (det_batch_norm_opts){.weight = opt_tensor(c, "weight"),
                                 .bias = opt_tensor(c, "bias"),
                                 .running_mean = opt_tensor(c, "running_mean"),
                                 .running_var = opt_tensor(c, "running_var"),
                                 .training = opt_int(c, "training"),
                                 .momentum = opt_real(c, "momentum"),
                                 .eps = opt_real(c, "eps")};
}

static det_rnn_weights rnn_weights(const struct call *c)
{
    return (det_rnn_weights){opt_tensor(c, "w_ih"), opt_tensor(c, "w_hh"), opt_tensor(c, "b_ih"),
                             opt_tensor(c, "b_hh")};
}

static det_loss_opts loss_opts(const struct call *c)
{
    return (det_loss_opts){.reduction = (det_reduction)opt_int(c, "reduction"),
                           .weight = opt_tensor(c, "weight"),
                           .pos_weight = opt_tensor(c, "pos_weight"),
                           .use_ignore_index = option(c, "ignore_index"),
                           .ignore_index = opt_int(c, "ignore_index"),
                           .label_smoothing = opt_real(c, "label_smoothing"),
                           .margin = opt_real(c, "margin"),
                           .beta = opt_real(c, "beta"),
                           .log_target = opt_int(c, "log_target"),
                           .batch_mean = opt_int(c, "batch_mean")};
}

#define REDUCTION .reduction = (det_reduction)opt_int(c, "reduction")

static det_triplet_opts triplet_opts(const struct call *c)
{
    return (det_triplet_opts){REDUCTION, opt_real(c, "margin"), opt_real(c, "p"),
                              opt_real(c, "eps"), opt_int(c, "swap")};
}

static det_multi_margin_opts multi_margin_opts(const struct call *c)
{
    return (det_multi_margin_opts){REDUCTION, opt_tensor(c, "weight"), opt_real(c, "p"),
                                   opt_real(c, "margin")};
}

static det_poisson_nll_opts poisson_opts(const struct call *c)
{
    return (det_poisson_nll_opts){REDUCTION, opt_int(c, "log_input"), opt_int(c, "full"),
                                  opt_real(c, "eps")};
}

static det_gaussian_nll_opts gaussian_opts(const struct call *c)
{
    return (det_gaussian_nll_opts){REDUCTION, opt_int(c, "full"), opt_real(c, "eps")};
}

#define T(i) tensor_arg(c, i)
#define I(i) integer(word(c, i))
#define N(i) ((int)integer(word(c, i)))
#define B(i) (integer(word(c, i)) != 0)
#define R(i) number(word(c, i))
#define TYPE(i) call_dtype(word(c, i))
#define DIMS(i) ints(c, i).v, ints(c, i).n
#define TENSORS(i) tensors(c, i).v, tensors(c, i).n
#define OUT(k) (c->n_out > (k) ? &c->out[k] : NULL)

#define CALL(name, expression)                     \
    static det_tensor *call_##name(struct call *c) \
    {                                              \
        return expression;                         \
    }
#include "op_calls.def"
#undef CALL

static const struct function {
    const char *name;
    det_tensor *(*call)(struct call *c);
} functions[] = {
#define CALL(name, expression) {#name, call_##name},
#include "op_calls.def"
#undef CALL
};

enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

void call_function(struct call *c, const char *function)
{
    for (int i = 0; i < N_FUNCTIONS; i++)
        if (!strcmp(functions[i].name, function)) {
            c->out[0] = functions[i].call(c);
            return;
        }
    wrong("no such function", function);
}

void call_list(void)
{
    for (int i = 0; i < N_FUNCTIONS; i++)
        puts(functions[i].name);
}

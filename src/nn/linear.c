// Unit linear.c: Linear and Embedding, the modules that are one table of weights.
#include "nn/module.h"

#include <math.h>

enum { WEIGHT, BIAS };

void reset_weight_and_bias(det_module *m)
{
    det_tensor *weight = param(m, WEIGHT), *bias = param(m, BIAS);
    det_init_kaiming_uniform(weight, sqrt(5));
    double fan_in = (double)det_numel(weight) / (double)det_size(weight, 0);
    det_init_uniform(bias, -1 / sqrt(fan_in), 1 / sqrt(fan_in));
}

static det_tensor *linear_forward(det_module *m, det_tensor *x)
{
    return det_linear(x, param(m, WEIGHT), param(m, BIAS));
}

det_module *det_nn_linear_with(int64_t in, int64_t out, det_linear_opts opts)
{
    if (!arg_at_least("Linear", "in_features", in, 1)) return NULL;
    if (!arg_at_least("Linear", "out_features", out, 1)) return NULL;
    det_module *m = det_module_new("Linear", 0, linear_forward);
    module_add_f32(m, "weight", DET_DIMS(out, in));
    if (opts.no_bias)
        module_add_none(m, "bias");
    else
        module_add_f32(m, "bias", DET_DIMS(out));
    return module_ready(m, reset_weight_and_bias);
}

// --- embedding

struct embedding {
    int64_t padding_idx; // -1: none
};

static det_tensor *embedding_forward(det_module *m, det_tensor *index)
{
    const struct embedding *e = det_module_self(m);
    return det_embedding(index, param(m, WEIGHT), e->padding_idx);
}

static void embedding_reset(det_module *m)
{
    const struct embedding *e = det_module_self(m);
    det_init_normal(param(m, WEIGHT), 0, 1);
    if (e->padding_idx >= 0) det_fill_(det_select(param(m, WEIGHT), 0, e->padding_idx), 0);
}

det_module *det_nn_embedding_with(int64_t n, int64_t dim, det_embedding_opts opts)
{
    if (!arg_at_least("Embedding", "num_embeddings", n, 1)) return NULL;
    if (!arg_at_least("Embedding", "embedding_dim", dim, 1)) return NULL;
    int64_t padding = opts.padding_idx < 0 ? opts.padding_idx + n : opts.padding_idx;
    if (opts.use_padding_idx && (padding < 0 || padding >= n)) {
        det_raise(DET_EINVAL, "Embedding: padding_idx %lld is not a row of %lld",
                  (long long)opts.padding_idx, (long long)n);
        return NULL;
    }
    det_module *m = det_module_new("Embedding", sizeof(struct embedding), embedding_forward);
    struct embedding *e = det_module_self(m);
    e->padding_idx = opts.use_padding_idx ? padding : -1;
    module_add_f32(m, "weight", DET_DIMS(n, dim));
    return module_ready(m, embedding_reset);
}

// Unit attention.c: MultiheadAttention and TransformerEncoderLayer.
#include "nn/module.h"

enum { IN_PROJ_WEIGHT, IN_PROJ_BIAS }; // parameters
enum { OUT_PROJ };                     // child

struct mha {
    int64_t dim, heads;
    double dropout;
    bool batch_first;
};

// --- multi-head attention

// Rows of the in-projection for query (0), key (1) or value (2).
static det_tensor *project(det_module *m, det_tensor *x, int which)
{
    const struct mha *a = det_module_self(m);
    int64_t from = which * a->dim, to = from + a->dim;
    det_tensor *bias = param(m, IN_PROJ_BIAS);
    return det_linear(x, det_slice(param(m, IN_PROJ_WEIGHT), 0, from, to, 1),
                      bias ? det_slice(bias, 0, from, to, 1) : NULL);
}

// q, k, v from their inputs; self-attention needs one product for all three.
static void project_all(det_module *m, det_tensor *in[3], det_tensor *out[3])
{
    const struct mha *a = det_module_self(m);
    bool one_input = in[0] == in[1] && in[1] == in[2];
    det_tensor *qkv =
        one_input ? det_linear(in[0], param(m, IN_PROJ_WEIGHT), param(m, IN_PROJ_BIAS)) : NULL;
    for (int i = 0; i < 3; i++)
        out[i] =
            one_input ? det_slice(qkv, -1, i * a->dim, (i + 1) * a->dim, 1) : project(m, in[i], i);
}

// (T, B, E), or (B, T, E) if batch_first, to (B, heads, T, E / heads).
static det_tensor *split_heads(const struct mha *a, det_tensor *x)
{
    if (!x) return NULL;
    x = det_reshape(x, DET_DIMS(det_size(x, 0), det_size(x, 1), a->heads, a->dim / a->heads));
    return a->batch_first ? det_permute(x, DET_DIMS(0, 2, 1, 3))
                          : det_permute(x, DET_DIMS(1, 2, 0, 3));
}

static det_tensor *join_heads(const struct mha *a, det_tensor *x)
{
    x = a->batch_first ? det_permute(x, DET_DIMS(0, 2, 1, 3))
                       : det_permute(x, DET_DIMS(2, 0, 1, 3));
    return x ? det_reshape(x, DET_DIMS(det_size(x, 0), det_size(x, 1), a->dim)) : NULL;
}

static bool inputs_ok(const det_module *m, det_tensor *in[3])
{
    static const char *const names[] = {"query", "key", "value"};
    const struct mha *a = (const struct mha *)m->self;
    for (int i = 0; i < 3; i++) {
        char text[96];
        if (det_ndim(in[i]) == 3 && det_size(in[i], 2) == a->dim) continue;
        module_fail(m, DET_ESHAPE, "%s is %s, wants 3 dims with %lld in the last", names[i],
                    det_describe(in[i], text, sizeof text), (long long)a->dim);
        return false;
    }
    return true;
}

static det_tensor *attend(det_module *m, det_tensor *in[3], det_tensor *mask, bool causal)
{
    const struct mha *a = det_module_self(m);
    if (!inputs_ok(m, in)) return NULL;
    det_tensor *x[3];
    project_all(m, in, x);
    for (int i = 0; i < 3; i++)
        x[i] = split_heads(a, x[i]);
    det_tensor *y = det_attention(x[0], x[1], x[2], .mask = mask, .causal = causal,
                                  .dropout = m->training ? a->dropout : 0);
    return det_forward(m->child[OUT_PROJ], join_heads(a, y));
}

static det_tensor *mha_self_attention(det_module *m, det_tensor *x)
{
    return attend(m, (det_tensor *[]){x, x, x}, NULL, false);
}

det_tensor *det_mha_forward(det_module *mha, det_tensor *query, det_tensor *key, det_tensor *value,
                            det_tensor *mask, bool causal)
{
    if (sticky_failed()) return NULL;
    if (!mha || mha->forward != mha_self_attention) {
        det_raise(DET_EINVAL, "det_mha_forward: %s is not a MultiheadAttention",
                  mha ? mha->type : "NULL");
        return NULL;
    }
    struct module_call call = module_enter(mha);
    det_tensor *y = attend(mha, (det_tensor *[]){query, key, value}, mask, causal);
    module_leave(&call);
    return module_result(&call, y);
}

static void mha_reset(det_module *m)
{
    det_init_xavier_uniform(param(m, IN_PROJ_WEIGHT), 1);
    det_init_constant(param(m, IN_PROJ_BIAS), 0);
    det_init_constant(det_module_find_param(m, "out_proj.bias"), 0);
}

det_module *det_nn_multihead_attention_with(int64_t dim, int64_t heads, det_mha_opts opts)
{
    static const char type[] = "MultiheadAttention";
    if (!arg_at_least(type, "num_heads", heads, 1)) return NULL;
    if (!arg_at_least(type, "embed_dim", dim, 1)) return NULL;
    if (!arg_is_probability(type, "dropout", opts.dropout)) return NULL;
    if (dim % heads) {
        det_raise(DET_EINVAL, "%s: embed_dim %lld is not a multiple of %lld heads", type,
                  (long long)dim, (long long)heads);
        return NULL;
    }
    det_module *m = det_module_new(type, sizeof(struct mha), mha_self_attention);
    *(struct mha *)det_module_self(m) = (struct mha){dim, heads, opts.dropout, opts.batch_first};
    module_add_f32(m, "in_proj_weight", DET_DIMS(3 * dim, dim));
    if (opts.no_bias)
        module_add_none(m, "in_proj_bias");
    else
        module_add_f32(m, "in_proj_bias", DET_DIMS(3 * dim));
    det_module_add(m, "out_proj", det_nn_linear(dim, dim, .no_bias = opts.no_bias));
    return module_ready(m, mha_reset);
}

// --- transformer

enum { SELF_ATTN, LINEAR1, DROPOUT, LINEAR2, NORM1, NORM2, DROPOUT1, DROPOUT2 }; // children

struct encoder_layer {
    bool gelu, norm_first, causal;
};

static det_tensor *attention_block(det_module *m, det_tensor *x)
{
    const struct encoder_layer *e = det_module_self(m);
    det_tensor *y = det_mha_forward(m->child[SELF_ATTN], x, x, x, NULL, e->causal);
    return det_forward(m->child[DROPOUT1], y);
}

static det_tensor *feed_forward_block(det_module *m, det_tensor *x)
{
    const struct encoder_layer *e = det_module_self(m);
    x = det_forward(m->child[LINEAR1], x);
    x = det_forward(m->child[DROPOUT], e->gelu ? det_gelu(x) : det_relu(x));
    return det_forward(m->child[DROPOUT2], det_forward(m->child[LINEAR2], x));
}

static det_tensor *encoder_layer_forward(det_module *m, det_tensor *x)
{
    const struct encoder_layer *e = det_module_self(m);
    det_module *norm1 = m->child[NORM1], *norm2 = m->child[NORM2];
    if (e->norm_first) {
        x = det_add(x, attention_block(m, det_forward(norm1, x)));
        return det_add(x, feed_forward_block(m, det_forward(norm2, x)));
    }
    x = det_forward(norm1, det_add(x, attention_block(m, x)));
    return det_forward(norm2, det_add(x, feed_forward_block(m, x)));
}

det_module *det_nn_transformer_encoder_layer_with(int64_t dim, int64_t heads,
                                                  det_transformer_opts opts)
{
    int64_t hidden = opts.dim_feedforward ? opts.dim_feedforward : 2048;
    det_module *m = det_module_new("TransformerEncoderLayer", sizeof(struct encoder_layer),
                                   encoder_layer_forward);
    *(struct encoder_layer *)det_module_self(m) =
        (struct encoder_layer){opts.gelu, opts.norm_first, opts.causal};
    det_module_add(m, "self_attn",
                   det_nn_multihead_attention(dim, heads, .dropout = opts.dropout,
                                              .batch_first = opts.batch_first));
    det_module_add(m, "linear1", det_nn_linear(dim, hidden));
    det_module_add(m, "dropout", det_nn_dropout(opts.dropout));
    det_module_add(m, "linear2", det_nn_linear(hidden, dim));
    det_module_add(m, "norm1", det_nn_layer_norm(dim));
    det_module_add(m, "norm2", det_nn_layer_norm(dim));
    det_module_add(m, "dropout1", det_nn_dropout(opts.dropout));
    det_module_add(m, "dropout2", det_nn_dropout(opts.dropout));
    return module_ready(m, NULL);
}

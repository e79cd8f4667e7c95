// det/nn.h: modules. Names, defaults, initialisation and state-dict keys are torch's.
//
//     det_module *net = det_nn_sequential(
//         det_nn_conv2d(1, 32, .kernel = 5), det_nn_max_pool2d(2), det_nn_relu(), det_nn_flatten(),
//         det_nn_linear(4608, 10), det_nn_log_softmax(1));
//     det_tensor *y = det_forward(net, x);
//     det_module_free(net);
//
// A module owns its children; putting it into another one hands it over. It must outlive the scopes
// in which it was used. Making a layer can fail only for bad arguments or memory: then the sticky
// error is set (det_check) and NULL is returned, and NULL is accepted wherever a module is, so that
// one question after building the whole tree is enough.
#pragma once

#include "det/tensor.h"

// --- making a module of one's own
//
//     struct block { det_module *norm, *fc; };
//
//     static det_tensor *block_forward(det_module *m, det_tensor *x)
//     {
//         struct block *b = det_module_self(m);
//         return det_add(x, det_forward(b->fc, det_forward(b->norm, x)));
//     }
//
//     det_module *block_new(int64_t d)
//     {
//         det_module *m = det_module_new("Block", sizeof(struct block), block_forward);
//         struct block *b = det_module_self(m);
//         b->norm = det_module_add(m, "norm", det_nn_layer_norm(d));
//         b->fc = det_module_add(m, "fc", det_nn_linear(d, d));
//         return m;
//     }

typedef det_tensor *(*det_forward_fn)(det_module *m, det_tensor *x);

// Never NULL. type is copied; forward may be NULL (a list of modules, say).
DET_API det_module *det_module_new(const char *type, size_t self_bytes, det_forward_fn forward);
DET_API void det_module_free(det_module *m);  // and all below it; only of a module at the top
DET_API void *det_module_self(det_module *m); // self_bytes of zeroed memory, the user's

// Registers under a name without dots and returns what was added, or NULL. A name used before is
// given the new thing: a head is exchanged with det_module_add(net, "fc", ...), weights are tied
// with det_module_add_param(head, "weight", det_module_find_param(net, "embedding.weight")).
// Parameters require gradients from then on; tensors are kept by reference.
// The order of the state dict is torch's: parameters, buffers, then children, each as registered.
DET_API det_module *det_module_add(det_module *m, const char *name, det_module *child);
DET_API det_tensor *det_module_add_param(det_module *m, const char *name, det_tensor *t);
DET_API det_tensor *det_module_add_buffer(det_module *m, const char *name, det_tensor *t);

// Called by det_module_reset_parameters, after those of the children and with gradients off;
// modules of the library have theirs.
DET_API void det_module_on_reset(det_module *m, void (*reset)(det_module *m));
// Called by det_module_free before self goes away.
DET_API void det_module_on_free(det_module *m, void (*done)(det_module *m));

// --- using modules

DET_API det_tensor *det_forward(det_module *m, det_tensor *x);
DET_API void det_module_train(det_module *m, bool training); // the module and all below it
DET_API bool det_module_training(const det_module *m);
// det_forward of m, or of a module below it that is called by itself, computes in mixed precision
// (det_set_autocast) and gives f32 where it gave bf16.
DET_API void det_module_autocast(det_module *m, bool on);
DET_API const char *det_module_type(const det_module *m); // "Conv2d"
DET_API const char *det_module_name(const det_module *m); // in its parent; NULL at the top

DET_API int det_module_n_children(const det_module *m);
DET_API det_module *det_module_child(const det_module *m, int index);
// "encoder.0.fc1"; m itself for "", NULL if there is none.
DET_API det_module *det_module_find(det_module *m, const char *path);

// Parameters of the module and all below it, in torch's order, each tensor once.
DET_API int det_module_n_params(const det_module *m);
DET_API det_tensor *det_module_param(const det_module *m, int index);
DET_API det_tensor *det_module_find_param(det_module *m, const char *path); // parameter or buffer
DET_API int64_t det_module_numel(const det_module *m);         // elements of all parameters
DET_API void det_module_requires_grad(det_module *m, bool on); // freezes and unfreezes
DET_API void det_module_zero_grad(det_module *m);
DET_API void det_module_reset_parameters(det_module *m); // new initial values, everywhere below

// Parameters and buffers as a dict of tensors with torch's keys. The tensors are the module's own;
// one that is registered twice is there twice.
DET_API det_value *det_module_state_dict(const det_module *m);
// Copies values in, converting types. All keys must match unless strict is false; shapes must
// always. The error lists what is missing, unexpected or of another shape; nothing is changed then.
DET_API int det_module_load_state_dict(det_module *m, const det_value *state, bool strict,
                                       det_err *err);

// One line per module, indented: "(fc1) Linear: 401920 parameters". To be freed by the caller.
DET_API char *det_module_describe(const det_module *m);

// --- containers

#define det_nn_sequential(...)                               \
    det_nn_sequential_of((det_module *const[]){__VA_ARGS__}, \
                         (int)(sizeof((det_module *const[]){__VA_ARGS__}) / sizeof(det_module *)))
DET_API det_module *det_nn_sequential_of(det_module *const *modules, int n);
DET_API det_module *det_nn_module_list(det_module *const *modules, int n); // no forward of its own

// --- layers

typedef struct det_linear_opts {
    bool no_bias;
} det_linear_opts;
#define det_nn_linear(in, out, ...) det_nn_linear_with(in, out, (det_linear_opts){__VA_ARGS__})
DET_API det_module *det_nn_linear_with(int64_t in, int64_t out, det_linear_opts opts);

typedef struct det_nn_conv_opts {
    int64_t kernel, stride, padding, dilation, groups, output_padding; // square; 0: default
    int64_t kernel_hw[2], stride_hw[2], padding_hw[2], dilation_hw[2]; // instead of the above
    bool no_bias;
} det_nn_conv_opts;
#define det_nn_conv1d(in, out, ...) det_nn_conv1d_with(in, out, (det_nn_conv_opts){__VA_ARGS__})
#define det_nn_conv2d(in, out, ...) det_nn_conv2d_with(in, out, (det_nn_conv_opts){__VA_ARGS__})
#define det_nn_conv_transpose2d(in, out, ...) \
    det_nn_conv_transpose2d_with(in, out, (det_nn_conv_opts){__VA_ARGS__})
DET_API det_module *det_nn_conv1d_with(int64_t in, int64_t out, det_nn_conv_opts opts);
DET_API det_module *det_nn_conv2d_with(int64_t in, int64_t out, det_nn_conv_opts opts);
DET_API det_module *det_nn_conv_transpose2d_with(int64_t in, int64_t out, det_nn_conv_opts opts);

typedef struct det_nn_pool_opts {
    int64_t stride, padding; // 0: kernel, 0
    bool ceil_mode, exclude_padding;
} det_nn_pool_opts;
#define det_nn_max_pool2d(kernel, ...) \
    det_nn_max_pool2d_with(kernel, (det_nn_pool_opts){__VA_ARGS__})
#define det_nn_avg_pool2d(kernel, ...) \
    det_nn_avg_pool2d_with(kernel, (det_nn_pool_opts){__VA_ARGS__})
DET_API det_module *det_nn_max_pool2d_with(int64_t kernel, det_nn_pool_opts opts);
DET_API det_module *det_nn_avg_pool2d_with(int64_t kernel, det_nn_pool_opts opts);
DET_API det_module *det_nn_adaptive_avg_pool2d(int64_t out_h, int64_t out_w);
DET_API det_module *det_nn_adaptive_max_pool2d(int64_t out_h, int64_t out_w);
// Sizes times scale, rounded down; pixels are placed by the sizes (torch's recompute_scale_factor).
DET_API det_module *det_nn_upsample(double scale, det_interpolation mode, bool align_corners);

typedef struct det_norm_opts {
    double eps, momentum; // momentum: of batch norm's running statistics; 0: they stay as they are
    bool no_affine, no_running_stats, no_bias;
} det_norm_opts;
#define DET_NORM_OPTS(...) DET_OPTS(det_norm_opts, .eps = 1e-5, .momentum = 0.1, __VA_ARGS__)
#define det_nn_batch_norm1d(n, ...) det_nn_batch_norm_with(n, 1, DET_NORM_OPTS(__VA_ARGS__))
#define det_nn_batch_norm2d(n, ...) det_nn_batch_norm_with(n, 2, DET_NORM_OPTS(__VA_ARGS__))
#define det_nn_layer_norm(n, ...) det_nn_layer_norm_with(n, DET_NORM_OPTS(__VA_ARGS__))
#define det_nn_rms_norm(n, ...) det_nn_rms_norm_with(n, DET_NORM_OPTS(__VA_ARGS__))
#define det_nn_group_norm(groups, n, ...) \
    det_nn_group_norm_with(groups, n, DET_NORM_OPTS(__VA_ARGS__))
DET_API det_module *det_nn_batch_norm_with(int64_t n, int spatial_dims, det_norm_opts opts);
DET_API det_module *det_nn_layer_norm_with(int64_t n, det_norm_opts opts); // over the last dim
DET_API det_module *det_nn_rms_norm_with(int64_t n, det_norm_opts opts);
DET_API det_module *det_nn_group_norm_with(int64_t groups, int64_t n, det_norm_opts opts);

typedef struct det_embedding_opts {
    bool use_padding_idx;
    int64_t padding_idx;
} det_embedding_opts;
#define det_nn_embedding(n, dim, ...) \
    det_nn_embedding_with(n, dim, (det_embedding_opts){__VA_ARGS__})
DET_API det_module *det_nn_embedding_with(int64_t n, int64_t dim, det_embedding_opts opts);

DET_API det_module *det_nn_dropout(double p);
DET_API det_module *det_nn_dropout2d(double p);
DET_API det_module *det_nn_flatten(void); // keeps dim 0
DET_API det_module *det_nn_identity(void);
DET_API det_module *det_nn_softmax(int dim);
DET_API det_module *det_nn_log_softmax(int dim);
DET_API det_module *det_nn_relu(void);
DET_API det_module *det_nn_gelu(void);
DET_API det_module *det_nn_silu(void);
DET_API det_module *det_nn_tanh(void);
DET_API det_module *det_nn_sigmoid(void);
DET_API det_module *det_nn_leaky_relu(double negative_slope);
DET_API det_module *det_nn_elu(double alpha);

// --- recurrent

typedef struct det_rnn_opts {
    int64_t num_layers; // 0: 1
    double dropout;     // between layers, while training
    bool batch_first, bidirectional, no_bias;
    bool relu; // RNN only: relu instead of tanh
} det_rnn_opts;
#define det_nn_rnn(in, hidden, ...) det_nn_rnn_with(in, hidden, (det_rnn_opts){__VA_ARGS__})
#define det_nn_lstm(in, hidden, ...) det_nn_lstm_with(in, hidden, (det_rnn_opts){__VA_ARGS__})
#define det_nn_gru(in, hidden, ...) det_nn_gru_with(in, hidden, (det_rnn_opts){__VA_ARGS__})
DET_API det_module *det_nn_rnn_with(int64_t in, int64_t hidden, det_rnn_opts opts);
DET_API det_module *det_nn_lstm_with(int64_t in, int64_t hidden, det_rnn_opts opts);
DET_API det_module *det_nn_gru_with(int64_t in, int64_t hidden, det_rnn_opts opts);

// det_forward gives the output sequence for x (T, B, I), or (B, T, I) if batch_first. This takes
// initial states and gives final ones too: (layers * directions, B, H). h0, c0, h_n, c_n may be
// NULL; c is for the LSTM only.
DET_API det_tensor *det_rnn_forward(det_module *rnn, det_tensor *x, det_tensor *h0, det_tensor *c0,
                                    det_tensor **h_n, det_tensor **c_n);

// --- attention

typedef struct det_mha_opts {
    double dropout;
    bool no_bias, batch_first;
} det_mha_opts;
#define det_nn_multihead_attention(dim, heads, ...) \
    det_nn_multihead_attention_with(dim, heads, (det_mha_opts){__VA_ARGS__})
DET_API det_module *det_nn_multihead_attention_with(int64_t dim, int64_t heads, det_mha_opts opts);
// det_forward is self-attention without a mask. This is the whole of it: query (T, B, E), key and
// value (S, B, E), or with B first if batch_first; mask as in det_attention: bool (true: attend) or
// float (added), broadcast to (B, heads, T, S); causal: no query sees later keys.
DET_API det_tensor *det_mha_forward(det_module *mha, det_tensor *query, det_tensor *key,
                                    det_tensor *value, det_tensor *mask, bool causal);

typedef struct det_transformer_opts {
    int64_t dim_feedforward; // 0: 2048
    double dropout;          // as given; torch's default is 0.1
    bool gelu, batch_first, norm_first;
    bool causal; // det_forward masks later positions, as in a decoder-only model
} det_transformer_opts;
#define det_nn_transformer_encoder_layer(dim, heads, ...) \
    det_nn_transformer_encoder_layer_with(dim, heads, (det_transformer_opts){__VA_ARGS__})
DET_API det_module *det_nn_transformer_encoder_layer_with(int64_t dim, int64_t heads,
                                                          det_transformer_opts opts);

// --- initialisers: write into t, drawing from the thread's random stream

DET_API void det_init_uniform(det_tensor *t, double low, double high);
DET_API void det_init_normal(det_tensor *t, double mean, double std);
DET_API void det_init_constant(det_tensor *t, double value);
DET_API void det_init_xavier_uniform(det_tensor *t, double gain);
DET_API void det_init_xavier_normal(det_tensor *t, double gain);
DET_API void det_init_kaiming_uniform(det_tensor *t, double a); // fan in, leaky relu of slope a
DET_API void det_init_kaiming_normal(det_tensor *t, double a);
DET_API void det_init_orthogonal(det_tensor *t, double gain);

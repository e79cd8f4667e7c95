// Unit models.c: the networks of models.h.
#include "support/models.h"

det_module *model_mnist(double dropout)
{
    return det_nn_sequential(det_nn_conv2d(1, 40, .kernel = 5), det_nn_max_pool2d(2), det_nn_relu(),
                             det_nn_conv2d(40, 40, .kernel = 5), det_nn_max_pool2d(2),
                             det_nn_relu(), det_nn_flatten(), det_nn_linear(640, 50), det_nn_relu(),
                             det_nn_dropout2d(dropout), det_nn_linear(50, 10),
                             det_nn_log_softmax(1));
}

det_module *model_mlp(void)
{
    return det_nn_sequential(det_nn_linear(784, 512), det_nn_relu(), det_nn_linear(512, 512),
                             det_nn_relu(), det_nn_linear(512, 10));
}

det_module *model_vgg(void)
{
    det_module *layers[32];
    int n = 0;
    int64_t in = 3;
    for (int64_t c = 64; c <= 256; c *= 2) {
        for (int i = 0; i < 2; i++) {
            layers[n++] = det_nn_conv2d(in, c, .kernel = 3, .padding = 1);
            layers[n++] = det_nn_batch_norm2d(c);
            layers[n++] = det_nn_relu();
            in = c;
        }
        layers[n++] = det_nn_max_pool2d(2);
    }
    layers[n++] = det_nn_flatten();
    layers[n++] = det_nn_linear(4096, 10);
    return det_nn_sequential_of(layers, n);
}

// --- residual network

struct block {
    det_module *conv1, *bn1, *conv2, *bn2, *shortcut;
};

static det_tensor *block_forward(det_module *m, det_tensor *x)
{
    struct block *b = det_module_self(m);
    det_tensor *y = det_relu(det_forward(b->bn1, det_forward(b->conv1, x)));
    y = det_forward(b->bn2, det_forward(b->conv2, y));
    return det_relu(det_add(y, b->shortcut ? det_forward(b->shortcut, x) : x));
}

static det_module *block_new(int64_t in, int64_t out, int64_t stride)
{
    det_module *m = det_module_new("BasicBlock", sizeof(struct block), block_forward);
    struct block *b = det_module_self(m);
    b->conv1 = det_module_add(
        m, "conv1",
        det_nn_conv2d(in, out, .kernel = 3, .stride = stride, .padding = 1, .no_bias = true));
    b->bn1 = det_module_add(m, "bn1", det_nn_batch_norm2d(out));
    b->conv2 = det_module_add(m, "conv2",
                              det_nn_conv2d(out, out, .kernel = 3, .padding = 1, .no_bias = true));
    b->bn2 = det_module_add(m, "bn2", det_nn_batch_norm2d(out));
    if (stride != 1 || in != out)
        b->shortcut =
            det_module_add(m, "shortcut",
                           det_nn_sequential(det_nn_conv2d(in, out, .kernel = 1, .stride = stride,
                                                           .no_bias = true),
                                             det_nn_batch_norm2d(out)));
    return m;
}

det_module *model_resnet(int64_t width)
{
    det_module *layers[32];
    int n = 0;
    int64_t in = width;
    layers[n++] = det_nn_conv2d(3, width, .kernel = 3, .padding = 1, .no_bias = true);
    layers[n++] = det_nn_batch_norm2d(width);
    layers[n++] = det_nn_relu();
    for (int stage = 0; stage < 4; stage++) {
        int64_t out = width << stage;
        layers[n++] = block_new(in, out, stage ? 2 : 1);
        layers[n++] = block_new(out, out, 1);
        in = out;
    }
    layers[n++] = det_nn_adaptive_avg_pool2d(1, 1);
    layers[n++] = det_nn_flatten();
    layers[n++] = det_nn_linear(in, 10);
    return det_nn_sequential_of(layers, n);
}

// --- recurrent

struct lstm {
    det_module *rnn, *out;
};

static det_tensor *lstm_forward(det_module *m, det_tensor *x)
{
    struct lstm *l = det_module_self(m);
    return det_forward(l->out, det_select(det_forward(l->rnn, x), 0, -1));
}

det_module *model_lstm(int64_t in, int64_t hidden, int64_t classes)
{
    det_module *m = det_module_new("LstmClassifier", sizeof(struct lstm), lstm_forward);
    struct lstm *l = det_module_self(m);
    l->rnn = det_module_add(m, "rnn", det_nn_lstm(in, hidden));
    l->out = det_module_add(m, "out", det_nn_linear(hidden, classes));
    return m;
}

// --- transformer

struct layer {
    det_module *qkv, *proj, *ln1, *ln2, *fc1, *fc2;
    int64_t heads;
};

// (B, T, C) -> (B, heads, T, C / heads)
static det_tensor *split_heads(det_tensor *x, int64_t heads)
{
    int64_t b = det_size(x, 0), t = det_size(x, 1), c = det_size(x, 2);
    return det_transpose(det_view(x, DET_DIMS(b, t, heads, heads ? c / heads : 0)), 1, 2);
}

static det_tensor *layer_forward(det_module *m, det_tensor *x)
{
    struct layer *l = det_module_self(m);
    det_tensor *part[3] = {0};
    det_split(det_forward(l->qkv, det_forward(l->ln1, x)), det_size(x, 2), 2, part, 3);
    det_tensor *y = det_attention(split_heads(part[0], l->heads), split_heads(part[1], l->heads),
                                  split_heads(part[2], l->heads), .causal = true);
    y = det_reshape(det_transpose(y, 1, 2), det_shape(x), 3);
    x = det_add(x, det_forward(l->proj, y));
    y = det_gelu(det_forward(l->fc1, det_forward(l->ln2, x)));
    return det_add(x, det_forward(l->fc2, y));
}

static det_module *layer_new(int64_t dim, int64_t heads)
{
    det_module *m = det_module_new("Layer", sizeof(struct layer), layer_forward);
    struct layer *l = det_module_self(m);
    l->heads = heads;
    l->qkv = det_module_add(m, "qkv", det_nn_linear(dim, 3 * dim));
    l->proj = det_module_add(m, "proj", det_nn_linear(dim, dim));
    l->ln1 = det_module_add(m, "ln1", det_nn_layer_norm(dim));
    l->ln2 = det_module_add(m, "ln2", det_nn_layer_norm(dim));
    l->fc1 = det_module_add(m, "fc1", det_nn_linear(dim, 4 * dim));
    l->fc2 = det_module_add(m, "fc2", det_nn_linear(4 * dim, dim));
    return m;
}

struct gpt {
    det_module *embed, *layers, *norm, *head;
    det_tensor *position;
};

static det_tensor *gpt_forward(det_module *m, det_tensor *tokens)
{
    struct gpt *g = det_module_self(m);
    det_tensor *position = det_slice(g->position, 0, 0, det_size(tokens, 1), 1);
    det_tensor *x = det_add(det_forward(g->embed, tokens), position);
    return det_forward(g->head, det_forward(g->norm, det_forward(g->layers, x)));
}

det_module *model_gpt(int64_t vocab, int64_t dim, int64_t heads, int64_t layers, int64_t context)
{
    det_module *m = det_module_new("Gpt", sizeof(struct gpt), gpt_forward), *list[64];
    struct gpt *g = det_module_self(m);
    for (int i = 0; i < layers && i < 64; i++)
        list[i] = layer_new(dim, heads);
    det_tensor *position = det_randn(DET_F32, DET_DIMS(context, dim));
    det_mul_(position, 0.02);
    g->position = det_module_add_param(m, "position", position);
    g->embed = det_module_add(m, "embed", det_nn_embedding(vocab, dim));
    g->layers = det_module_add(m, "layers", det_nn_sequential_of(list, (int)layers));
    g->norm = det_module_add(m, "norm", det_nn_layer_norm(dim));
    g->head = det_module_add(m, "head", det_nn_linear(dim, vocab, .no_bias = true));
    return m;
}

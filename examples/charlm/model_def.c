// A language model of characters: a small GPT that learns a text and writes more of the kind.
//
// After each validation a callback lets it write a few lines.
#include <det/det.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_BYTES = 256, SAMPLE_LENGTH = 200, TEXT_MAX = 64 << 20, MAX_LAYERS = 48 };

// The text as ids: the bytes that occur in it are numbered.
struct text {
    int64_t *ids;
    int64_t n;
    int id_of[N_BYTES]; // -1: does not occur
    char char_of[N_BYTES];
    int n_chars;
};

struct charlm {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
    struct text text;
    int64_t window; // characters that the model sees at once
};

// --- text

static int text_read(struct text *t, const char *path, det_err *err)
{
    FILE *f = fopen(path, "rb");
    if (!f) return det_fail(err, DET_ENOTFOUND, "cannot open the text '%s'", path);
    char *bytes = malloc(TEXT_MAX);
    size_t n = bytes ? fread(bytes, 1, TEXT_MAX, f) : 0;
    fclose(f);
    t->ids = n ? malloc(n * sizeof *t->ids) : NULL;
    memset(t->id_of, -1, sizeof t->id_of);
    for (size_t i = 0; t->ids && i < n; i++) {
        int *id = &t->id_of[(unsigned char)bytes[i]];
        if (*id < 0) {
            t->char_of[t->n_chars] = bytes[i];
            *id = t->n_chars++;
        }
        t->ids[t->n++] = *id;
    }
    free(bytes);
    return t->n ? 0 : det_fail(err, DET_EINVAL, "the text '%s' is empty", path);
}

// --- data: every stretch of window characters, and the same one character further on

struct windows {
    const int64_t *ids;
    int64_t n, window;
};

static int64_t windows_length(void *self)
{
    struct windows *w = self;
    return w->n - w->window;
}

static det_value *windows_item(void *self, int64_t index, const det_draw *draw, det_err *err)
{
    struct windows *w = self;
    (void)draw, (void)err;
    det_value *sample = det_value_tuple();
    for (int shift = 0; shift < 2; shift++)
        det_value_push(sample, det_value_tensor(
                                   det_from(DET_I64, DET_DIMS(w->window), w->ids + index + shift)));
    return sample;
}

static const det_dataset_ops windows_ops = {windows_length, windows_item, free};

// The last tenth of the text is kept for validation.
static det_loader *charlm_data(struct charlm *m, bool train)
{
    int64_t n_train = m->text.n - m->text.n / 10;
    struct windows *w = malloc(sizeof *w);
    *w = train ? (struct windows){m->text.ids, n_train, m->window}
               : (struct windows){m->text.ids + n_train, m->text.n - n_train, m->window};
    if (windows_length(w) < 1)
        det_raise(DET_EINVAL, "a text of %lld characters is too short for windows of %lld",
                  (long long)m->text.n, (long long)m->window);
    return det_loader_new(det_dataset_new(&windows_ops, w), .shuffle = train,
                          .batch_size = det_context_per_slot_batch_size(m->ctx));
}

static det_loader *charlm_training_data(void *self)
{
    return charlm_data(self, true);
}

static det_loader *charlm_validation_data(void *self)
{
    return charlm_data(self, false);
}

// --- model

struct gpt {
    det_module *tokens, *blocks, *norm, *head;
    det_tensor *positions; // (window, width)
};

// (B, T) ids to (B, T, characters) logits
static det_tensor *gpt_forward(det_module *m, det_tensor *ids)
{
    struct gpt *g = det_module_self(m);
    det_tensor *positions = det_slice(g->positions, 0, 0, det_size(ids, 1), 1);
    det_tensor *x = det_add(det_forward(g->tokens, ids), positions);
    return det_forward(g->head, det_forward(g->norm, det_forward(g->blocks, x)));
}

static det_module *gpt_blocks(det_context *ctx, int64_t width)
{
    det_module *blocks[MAX_LAYERS];
    int64_t n = det_hparam_int(ctx, "layers"), n_heads = det_hparam_int(ctx, "heads");
    double dropout = det_hparam_double(ctx, "dropout");
    if (n < 1 || n > MAX_LAYERS) {
        det_raise(DET_EHPARAM, "layers must be 1 to %d, got %lld", MAX_LAYERS, (long long)n);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        blocks[i] = det_nn_transformer_encoder_layer(
            width, n_heads, .dim_feedforward = 4 * width, .dropout = dropout, .gelu = true,
            .batch_first = true, .norm_first = true, .causal = true);
    return det_nn_sequential_of(blocks, (int)n);
}

static det_module *gpt_new(const struct charlm *c)
{
    int64_t width = det_hparam_int(c->ctx, "width");
    det_module *m = det_module_new("GPT", sizeof(struct gpt), gpt_forward);
    struct gpt *g = det_module_self(m);
    g->positions =
        det_module_add_param(m, "positions", det_zeros(DET_F32, DET_DIMS(c->window, width)));
    det_init_normal(g->positions, 0, 0.02);
    g->tokens = det_module_add(m, "tokens", det_nn_embedding(c->text.n_chars, width));
    g->blocks = det_module_add(m, "blocks", gpt_blocks(c->ctx, width));
    g->norm = det_module_add(m, "norm", det_nn_layer_norm(width));
    g->head = det_module_add(m, "head", det_nn_linear(width, c->text.n_chars, .no_bias = true));
    return m;
}

static int charlm_init(void *self, det_context *ctx, det_err *err)
{
    struct charlm *m = self;
    m->ctx = ctx;
    m->window = det_hparam_int(ctx, "window");
    int rc = text_read(&m->text, det_config_str(det_data_config(ctx), "file"), err);
    if (rc) return rc;
    m->model = det_wrap_model(ctx, gpt_new(m));
    m->opt = det_wrap_optimizer(
        ctx, det_optim_adamw(m->model, .lr = det_hparam_double(ctx, "learning_rate")));
    return det_check(err);
}

static void charlm_done(void *self)
{
    struct charlm *m = self;
    free(m->text.ids);
}

// --- one batch

// Mean over all characters, in nats.
static det_tensor *charlm_loss(struct charlm *m, const det_value *batch)
{
    det_tensor *logits = det_forward(m->model, det_batch_at(batch, 0));
    return det_cross_entropy(det_flatten(logits, 0, 1), det_flatten(det_batch_at(batch, 1), 0, 1));
}

static int charlm_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct charlm *m = self;
    det_tensor *loss = charlm_loss(m, step->batch);
    det_backward_loss(m->ctx, loss);
    det_step_optimizer(m->ctx, m->opt, .clip_norm = 1);
    det_metric(out, "loss", loss);
    return det_check(err);
}

static int charlm_evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    det_metric(out, "validation_loss", charlm_loss(self, step->batch));
    return det_check(err);
}

// --- writing

// The number of the character that a uniform number u falls on.
static int64_t draw(const float *probability, int64_t n, double u)
{
    int64_t i = 0;
    for (; i < n - 1 && u >= (double)probability[i]; i++)
        u -= (double)probability[i];
    return i;
}

// Given n characters, one more.
static int64_t next_char(struct charlm *m, const int64_t *ids, int64_t n)
{
    if (n > m->window) {
        ids += n - m->window;
        n = m->window;
    }
    det_scope_begin();
    det_tensor *logits = det_forward(m->model, det_from(DET_I64, DET_DIMS(1, n), ids));
    det_tensor *probability = det_softmax(det_select(det_select(logits, 1, n - 1), 0, 0), 0);
    const float *p = det_data_f32(probability);
    int64_t id = p ? draw(p, m->text.n_chars, det_item(det_rand(DET_F32, DET_SCALAR))) : 0;
    det_scope_end();
    return id;
}

static int write_sample(void *self, const det_metrics *metrics, det_err *err)
{
    struct charlm *m = self;
    int64_t ids[SAMPLE_LENGTH] = {m->text.ids[0]};
    (void)metrics;
    if (det_context_rank(m->ctx) != 0) return det_ok(err);
    bool grad = det_set_grad_enabled(false), training = det_module_training(m->model);
    det_module_train(m->model, false);
    for (int i = 1; i < SAMPLE_LENGTH; i++)
        ids[i] = next_char(m, ids, i);
    det_module_train(m->model, training);
    det_set_grad_enabled(grad);
    int rc = det_check(err);
    if (rc) return rc;
    fputs("--- sample\n", stdout);
    for (int i = 0; i < SAMPLE_LENGTH; i++)
        putchar(m->text.char_of[ids[i]]);
    fputs("\n---\n", stdout);
    return 0;
}

static void charlm_callbacks(void *self, det_context *ctx)
{
    static const det_callback_ops writer = {.on_validation_end = write_sample};
    det_add_callback(ctx, "writer", &writer, self);
}

DET_TRIAL(CharLMTrial) = {
    .size = sizeof(struct charlm),
    .init = charlm_init,
    .done = charlm_done,
    .train_batch = charlm_train_batch,
    .evaluate_batch = charlm_evaluate_batch,
    .build_training_data_loader = charlm_training_data,
    .build_validation_data_loader = charlm_validation_data,
    .build_callbacks = charlm_callbacks,
};

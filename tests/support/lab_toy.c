// Unit lab_toy.c: the lab of the toy engine.
#include "support/lab.h"

#include "base/mem.h"
#include "support/toy_state.h"

const det_engine *const lab_engine = &toy_engine;

// --- data

static det_loader *loader_new(det_loader l)
{
    det_loader *loader = xcalloc(1, sizeof *loader);
    *loader = l;
    toy_counts.loaders++;
    return loader;
}

det_loader *lab_loader(struct lab_data d)
{
    return loader_new((det_loader){
        .samples = d.samples, .batch = d.batch, .features = d.features, .shuffle = d.shuffle});
}

det_loader *lab_ones(int64_t batch)
{
    return loader_new((det_loader){.samples = 64, .batch = batch, .features = 1, .is_ones = true});
}

int64_t lab_batch_length(const det_value *batch)
{
    return toy_batch_of(batch)->n;
}

int64_t lab_batch_number(const det_value *batch, int64_t i)
{
    return toy_batch_of(batch)->number[i];
}

double lab_batch_sum(const det_value *batch)
{
    const struct toy_batch *b = toy_batch_of(batch);
    double sum = 0;
    for (int64_t i = 0; i < b->n; i++)
        sum += b->y[i];
    return sum;
}

// --- models

det_module *lab_model(struct lab_model o)
{
    det_module *m = xcalloc(1, sizeof *m);
    m->n = o.features;
    m->weight = xcalloc((size_t)m->n, sizeof *m->weight);
    m->grad = xcalloc((size_t)m->n, sizeof *m->grad);
    for (int i = 0; i < m->n; i++)
        m->weight[i] = isnan(o.start) ? toy_draw() - 0.5 : o.start;
    m->dropout = o.dropout;
    m->counts = o.has_buffer;
    toy_counts.models++;
    return m;
}

double lab_weight(const det_module *m, int i)
{
    return m->weight[i];
}

void lab_set_weight(det_module *m, int i, double value)
{
    m->weight[i] = value;
}

det_tensor *lab_weight_tensor(det_module *m)
{
    det_tensor *t = toy_tensor(1, NULL);
    if (t) t->value[0] = m->weight[0];
    return t;
}

bool lab_is_training(const det_module *m)
{
    return m->training;
}

int lab_state(const det_module *m, float *out, int max)
{
    if (m->n + 1 > max) return 0;
    for (int i = 0; i < m->n; i++)
        out[i] = (float)m->weight[i];
    out[m->n] = (float)m->n_seen;
    return m->n + 1;
}

// The inputs that take part: those that are dropped are 0, the others larger.
static void drop(const det_module *m, const struct toy_batch *b, double *x)
{
    for (int64_t i = 0; i < b->n * b->features; i++) {
        double keep = 1 - m->dropout;
        bool active = m->training && m->dropout > 0;
        x[i] = !active ? b->x[i] : toy_draw() < keep ? b->x[i] / keep : 0;
    }
}

static double rounded(double y)
{
    int exponent;
    double mantissa = frexp(y, &exponent);
    return ldexp(nearbyint(mantissa * 256) / 256, exponent);
}

static det_tensor *loss_of(det_module *m, const struct toy_batch *b, const double *x)
{
    det_tensor *t = toy_tensor(1, m);
    for (int64_t i = 0; t && i < b->n; i++) {
        const double *row = x + i * b->features;
        double y = 0;
        for (int k = 0; k < m->n; k++)
            y += m->weight[k] * row[k];
        double diff = (m->low_precision ? rounded(y) : y) - b->y[i];
        t->value[0] += diff * diff / (double)b->n;
        for (int k = 0; t->slope && k < m->n; k++)
            t->slope[k] += 2 * diff * row[k] / (double)b->n;
    }
    return t;
}

det_tensor *lab_loss(det_module *m, const det_value *batch)
{
    const struct toy_batch *b = toy_batch_of(batch);
    double *x = xcalloc((size_t)(b->n * b->features), sizeof *x);
    drop(m, b, x);
    det_tensor *loss = loss_of(m, b, x);
    if (m->training && m->counts) m->n_seen += x[0];
    free(x);
    return loss;
}

det_tensor *lab_output(det_module *m, const det_value *batch)
{
    det_tensor *t = toy_forward(m, toy_batch_of(batch));
    for (int i = 0; t && m->low_precision && i < t->n; i++)
        t->value[i] = rounded(t->value[i]);
    return t;
}

det_tensor *lab_mean(det_tensor *t)
{
    det_tensor *mean = t ? toy_tensor(1, NULL) : NULL;
    for (int i = 0; mean && i < t->n; i++)
        mean->value[0] += t->value[i] / t->n;
    return mean;
}

det_tensor *lab_times(det_tensor *t, double factor)
{
    det_tensor *product = t ? toy_tensor(1, t->model) : NULL;
    if (!product) return NULL;
    product->value[0] = t->value[0] * factor;
    for (int i = 0; product->slope && i < t->model->n; i++)
        product->slope[i] = t->slope[i] * factor;
    return product;
}

double lab_item(det_tensor *t)
{
    return t ? t->value[0] : NAN;
}

int lab_values(det_tensor *t, float *out, int max)
{
    if (!t || t->n > max) return 0;
    for (int i = 0; i < t->n; i++)
        out[i] = (float)t->value[i];
    return t->n;
}

void lab_free(det_tensor *t)
{
    toy_engine.kept_free(t);
}

bool lab_grad_enabled(void)
{
    return toy_grad_enabled();
}

double lab_draw(void)
{
    return toy_draw();
}

// --- optimizers, schedules, scalers

det_optimizer *lab_sgd(det_module *m, double lr, double momentum)
{
    if (sticky_failed()) return NULL;
    det_optimizer *opt = xcalloc(1, sizeof *opt);
    *opt = (det_optimizer){.model = {m}, .n_models = 1, .lr = lr, .momentum = momentum};
    opt->velocity = xcalloc((size_t)m->n, sizeof *opt->velocity);
    toy_counts.optimizers++;
    return opt;
}

det_optimizer *lab_adam(det_module *m, double lr)
{
    return lab_sgd(m, lr, 0.9);
}

void lab_add_model(det_optimizer *opt, det_module *m)
{
    opt->model[opt->n_models++] = m;
}

double lab_lr(const det_optimizer *opt)
{
    return opt->lr;
}

static double counting(const det_lr_scheduler *s)
{
    return s->base * (double)s->step;
}

static double decaying(const det_lr_scheduler *s)
{
    return s->base * pow(s->factor, (double)s->step);
}

static det_lr_scheduler *schedule_new(det_lr_scheduler s)
{
    if (!s.opt) return NULL;
    det_lr_scheduler *schedule = xcalloc(1, sizeof *schedule);
    *schedule = s;
    schedule->base = s.opt->lr;
    if (schedule->rate) schedule->opt->lr = schedule->rate(schedule);
    return schedule;
}

det_lr_scheduler *lab_lr_counting(det_optimizer *opt)
{
    return schedule_new((det_lr_scheduler){.opt = opt, .rate = counting});
}

det_lr_scheduler *lab_lr_decaying(det_optimizer *opt, double factor)
{
    return schedule_new((det_lr_scheduler){.opt = opt, .rate = decaying, .factor = factor});
}

det_lr_scheduler *lab_lr_plateau(det_optimizer *opt)
{
    return schedule_new((det_lr_scheduler){.opt = opt});
}

det_scaler *lab_scaler(int64_t growth_interval)
{
    det_scaler *s = toy_engine.scaler_new();
    s->interval = growth_interval;
    return s;
}

double lab_scale(const det_scaler *s)
{
    return s->scale;
}

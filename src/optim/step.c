// Unit step.c: steps, and everything else that is one pass over the gradients.
#include "optim/optim.h"
#include "optim/optimizer.h"

#include "base/assert.h"
#include "sys/cpu.h"
#include "sys/pool.h"
#include <math.h>
#include <stdatomic.h>

#if defined(__x86_64__)
static const struct optim_kernels *const kernel_sets[CPU_N_ISA] = {
    &optim_kernels_plain, &optim_kernels_avx2, &optim_kernels_avx512};
#else
static const struct optim_kernels *const kernel_sets[CPU_N_ISA] = {&optim_kernels_plain};
#endif

const struct optim_kernels *optim_kernels = &optim_kernels_plain;

__attribute__((constructor)) static void choose_kernels(void)
{
    optim_kernels = kernel_sets[cpu_features()->isa];
}

// --- stretches of memory

// Whether parameter i goes on where the run ends. Where it is, is asked anew each time: another
// optimizer may have moved it into a block of its own.
static bool run_goes_on(const struct run *r, int i)
{
    const struct param *p = &r->group->param[i], *first = &r->group->param[r->first];
    int64_t at = r->group->flat.offset[i] - r->offset;
    float *value, *grad;
    return flat_memory(p->tensor, &value, &grad) && value == r->value + at &&
           grad == r->grad + at && p->step == first->step && p->has == first->has;
}

static bool run_start(struct run *r, struct group *g, int first)
{
    while (first < g->n && !flat_memory(g->param[first].tensor, &r->value, &r->grad))
        first++;
    if (first == g->n) return false;
    r->group = g;
    r->first = first;
    r->offset = g->flat.offset[first];
    r->end = first + 1;
    while (r->end < g->n && run_goes_on(r, r->end))
        r->end++;
    r->n_elements = g->flat.offset[r->end] - r->offset;
    return true;
}

static bool run_next(const det_optimizer *opt, struct run *r)
{
    for (; r->g < opt->n_groups; r->g++, r->end = 0)
        if (r->end < opt->group[r->g]->n && run_start(r, opt->group[r->g], r->end)) return true;
    return false;
}

static int n_pieces(const struct run *r)
{
    return (int)divide_up(r->n_elements, PIECE_ELEMENTS);
}

static int64_t piece_size(const struct run *r, int piece)
{
    int64_t begin = (int64_t)piece * PIECE_ELEMENTS;
    return MIN(r->n_elements - begin, PIECE_ELEMENTS);
}

// --- step

struct step_work {
    const struct run *run;
    const struct update *update;
    update_fn kernel;
};

static void step_piece(void *ctx, int piece)
{
    const struct step_work *w = ctx;
    int64_t begin = (int64_t)piece * PIECE_ELEMENTS;
    w->kernel(w->update, begin, begin + piece_size(w->run, piece));
}

static void step_run(const struct optim_kind *kind, struct run *r)
{
    struct group *g = r->group;
    struct param *first = &g->param[r->first];
    unsigned uses = kind->uses(&g->hyper), fresh = uses & ~first->has;
    if (fresh && group_allocate_state(kind, g, fresh)) return;
    struct update u = {.value = r->value, .grad = r->grad};
    for (int i = 0; i < UPDATE_MAX_STATE; i++)
        if (uses >> i & 1) u.state[i] = param_state(g, i, r->first);
    update_fn kernel = kind->prepare(&g->hyper, first->step + 1, fresh, &u);
    if (r->n_elements <= PIECE_ELEMENTS)
        kernel(&u, 0, r->n_elements);
    else
        pool_run(n_pieces(r), step_piece, &(struct step_work){r, &u, kernel});
    for (int i = r->first; i < r->end; i++) {
        g->param[i].step++;
        g->param[i].has |= uses;
    }
    tensor_touch(first->tensor);
}

static void warn_of_idle_step(const det_optimizer *opt)
{
    int n = 0;
    for (int g = 0; g < opt->n_groups; g++)
        n += opt->group[g]->n;
    tensor_warn(
        NULL,
        "a step of %s changes nothing: none of its %d parameters has a gradient; is there a "
        "backward pass before it (det_backward, in a trial det_backward_loss)?",
        opt->kind->name, n);
}

void det_optim_step(det_optimizer *opt)
{
    if (!opt) return;
    tape_finish_all(); // what was put off wants the values of before
    struct run r = {0};
    bool idle = true;
    for (; !sticky_failed() && run_next(opt, &r); idle = false)
        step_run(opt->kind, &r);
    if (idle && !sticky_failed()) warn_of_idle_step(opt);
}

void det_optim_zero_grad(det_optimizer *opt)
{
    for (int g = 0; opt && g < opt->n_groups; g++)
        for (int i = 0; i < opt->group[g]->n; i++)
            tensor_set_grad_valid(opt->group[g]->param[i].tensor, false);
}

// --- norm

struct norm_work {
    const struct run *run;
    double *piece_sum;
};

static void norm_piece(void *ctx, int piece)
{
    const struct norm_work *w = ctx;
    w->piece_sum[piece] = optim_kernels->sum_of_squares(
        w->run->grad + (int64_t)piece * PIECE_ELEMENTS, piece_size(w->run, piece));
}

double det_optim_grad_norm(const det_optimizer *opt)
{
    if (!opt || sticky_failed()) return NAN;
    double sum = 0;
    struct run r = {0};
    while (run_next(opt, &r)) {
        pool_run(n_pieces(&r), norm_piece, &(struct norm_work){&r, opt->piece_sum});
        for (int i = 0; i < n_pieces(&r); i++)
            sum += opt->piece_sum[i];
    }
    return sqrt(sum);
}

// --- changing gradients

struct change_work {
    const struct run *run;
    void (*change)(float *grad, int64_t n, float number);
    float number;
};

static void change_piece(void *ctx, int piece)
{
    const struct change_work *w = ctx;
    w->change(w->run->grad + (int64_t)piece * PIECE_ELEMENTS, piece_size(w->run, piece), w->number);
}

static void change_grads(det_optimizer *opt, void (*change)(float *grad, int64_t n, float number),
                         double number)
{
    if (!opt || sticky_failed()) return;
    tape_finish_all(); // as for a step
    struct run r = {0};
    while (run_next(opt, &r)) {
        pool_run(n_pieces(&r), change_piece, &(struct change_work){&r, change, (float)number});
        tensor_touch(det_grad(r.group->param[r.first].tensor));
    }
}

double det_optim_clip_grad_norm(det_optimizer *opt, double max_norm)
{
    double norm = det_optim_grad_norm(opt);
    double factor = max_norm / (norm + 1e-6);
    if (!(factor >= 1)) change_grads(opt, optim_kernels->scale, factor); // NaN spreads, as in torch
    return norm;
}

void det_optim_clip_grad_value(det_optimizer *opt, double limit)
{
    change_grads(opt, optim_kernels->clamp, limit);
}

void det_optim_scale_grads(det_optimizer *opt, double factor)
{
    change_grads(opt, optim_kernels->scale, factor);
}

struct unscale_work {
    const struct run *run;
    float factor;
    _Atomic bool found_inf;
};

static void unscale_piece(void *ctx, int piece)
{
    struct unscale_work *w = ctx;
    float *grad = w->run->grad + (int64_t)piece * PIECE_ELEMENTS;
    if (!optim_kernels->scale_finite(grad, piece_size(w->run, piece), w->factor))
        w->found_inf = true;
}

bool optimizer_unscale(det_optimizer *opt, double factor)
{
    struct run r = {0};
    struct unscale_work work = {.run = &r, .factor = (float)factor};
    while (run_next(opt, &r))
        pool_run(n_pieces(&r), unscale_piece, &work);
    return !work.found_inf;
}

// --- for other layers

int optim_visit_grads(det_optimizer *opt, optim_visit_fn visit, void *user)
{
    struct run r = {0};
    int rc = 0;
    tape_finish_all();
    while (!rc && run_next(opt, &r))
        rc = visit(user, r.grad, r.n_elements);
    return rc;
}

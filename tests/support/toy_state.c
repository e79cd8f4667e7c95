// Unit toy_state.c: the states of the toy engine, in memory and in files.
#include "support/toy_state.h"

#include "base/mem.h"
#include "sys/fs.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t FILE_MAX_BYTES = 1 << 24;

// --- blocks of numbers

static void retain(void *object)
{
    ((struct toy_block *)object)->refs++;
}

static void release(void *object)
{
    struct toy_block *b = object;
    if (--b->refs) return;
    __atomic_sub_fetch(&toy_counts.blocks, 1, __ATOMIC_RELAXED);
    free(b);
}

static const struct object_type block_type = {"toy state", DET_KIND_OBJECT, retain, release};

det_value *toy_block_value(const double *values, int n)
{
    struct toy_block *b = xcalloc(1, sizeof *b + (size_t)n * sizeof *values);
    b->refs = 1;
    b->n = n;
    memcpy(b->value, values, (size_t)n * sizeof *values);
    __atomic_add_fetch(&toy_counts.blocks, 1, __ATOMIC_RELAXED);
    return value_object_take(&block_type, b);
}

const struct toy_block *toy_block_of(const det_value *v)
{
    return value_as_object(v, &block_type);
}

static const double *numbers(const det_value *v, int n, const char *what, det_err *err)
{
    const struct toy_block *b = toy_block_of(v);
    if (b && b->n == n) return b->value;
    det_fail(err, DET_EINVAL, "%s: %d numbers saved, %d here", what, b ? b->n : 0, n);
    return NULL;
}

// --- models

det_value *toy_model_state(const det_module *m)
{
    double *all = xcalloc((size_t)m->n + 1, sizeof *all);
    memcpy(all, m->weight, (size_t)m->n * sizeof *all);
    all[m->n] = m->n_seen;
    det_value *state = toy_block_value(all, m->n + 1);
    free(all);
    return state;
}

int toy_model_load(det_module *m, const det_value *state, det_err *err)
{
    const double *all = numbers(state, m->n + 1, "weights", err);
    if (!all) return DET_EINVAL;
    memcpy(m->weight, all, (size_t)m->n * sizeof *all);
    m->n_seen = all[m->n];
    return 0;
}

det_value *toy_grads_state(const det_module *m)
{
    return m->has_grad ? toy_block_value(m->grad, m->n) : NULL;
}

int toy_grads_load(det_module *m, const det_value *state, det_err *err)
{
    const double *all = numbers(state, m->n, "gradients", err);
    if (!all) return DET_EINVAL;
    memcpy(m->grad, all, (size_t)m->n * sizeof *all);
    m->has_grad = true;
    return 0;
}

// --- optimizers, schedules, scalers, random numbers

det_value *toy_optim_state(const det_optimizer *opt)
{
    int n = opt->model[0]->n;
    double *all = xcalloc((size_t)n + 1, sizeof *all);
    memcpy(all, opt->velocity, (size_t)n * sizeof *all);
    all[n] = opt->lr;
    det_value *state = toy_block_value(all, n + 1);
    free(all);
    return state;
}

int toy_optim_load(det_optimizer *opt, const det_value *state, det_err *err)
{
    int n = opt->model[0]->n;
    const double *all = numbers(state, n + 1, "momentum", err);
    if (!all) return DET_EINVAL;
    memcpy(opt->velocity, all, (size_t)n * sizeof *all);
    opt->lr = all[n];
    return 0;
}

det_value *toy_lr_state(const det_lr_scheduler *s)
{
    return det_value_int(s->step);
}

int toy_lr_load(det_lr_scheduler *s, const det_value *state, det_err *err)
{
    return det_value_as_int(state, &s->step, err);
}

det_value *toy_scaler_state(const det_scaler *s)
{
    det_value *dict = det_value_dict();
    det_value_set(dict, "scale", det_value_float(s->scale));
    det_value_set(dict, "n_good", det_value_int(s->n_good));
    return dict;
}

int toy_scaler_load(det_scaler *s, const det_value *state, det_err *err)
{
    int rc = det_value_as_float(det_value_get(state, "scale"), &s->scale, err);
    return rc ? rc : det_value_as_int(det_value_get(state, "n_good"), &s->n_good, err);
}

det_value *toy_rng_state(void)
{
    const struct toy_rng *r = toy_rng();
    det_value *list = det_value_list();
    det_value_push(list, det_value_int((int64_t)r->seed));
    det_value_push(list, det_value_int((int64_t)r->step));
    det_value_push(list, det_value_int((int64_t)r->op));
    return list;
}

int toy_rng_load(const det_value *state, det_err *err)
{
    int64_t part[3];
    for (int i = 0; i < 3; i++) {
        int rc = det_value_as_int(det_value_at(state, i), &part[i], err);
        if (rc) return rc;
    }
    *toy_rng() = (struct toy_rng){(uint64_t)part[0], (uint64_t)part[1], (uint64_t)part[2]};
    return 0;
}

// --- trees

static pthread_t snapshot_thread;

// Blocks never change, so they can be shared.
det_value *toy_snapshot(const det_value *state, det_err *err)
{
    (void)err;
    snapshot_thread = pthread_self();
    return det_value_copy(state);
}

static int pack_block(const det_value *v, struct buf *out, det_err *err)
{
    const struct toy_block *b = toy_block_of(v);
    if (!b) return det_fail(err, DET_EINVAL, "this is no block");
    buf_add(out, b->value, (size_t)b->n * sizeof *b->value);
    return 0;
}

static det_value *unpack_block(struct str bytes, det_err *err)
{
    double *values = xcalloc(bytes.len / sizeof *values + 1, sizeof *values);
    (void)err;
    memcpy(values, bytes.ptr, bytes.len);
    det_value *v = toy_block_value(values, (int)(bytes.len / sizeof *values));
    free(values);
    return v;
}

int toy_pack(const det_value *tree, struct buf *out, det_err *err)
{
    return value_pack(tree, pack_block, out, err);
}

det_value *toy_unpack(struct str bytes, det_err *err)
{
    return value_unpack(bytes, unpack_block, err);
}

int toy_save(const char *path, const det_value *snapshot, det_err *err)
{
    struct buf bytes = BUF_INIT(FILE_MAX_BYTES);
    FILE *f = fopen(path, "wb");
    int rc = f ? toy_pack(snapshot, &bytes, err) : fs_fail(err, "open", path);
    if (!rc && fwrite(bytes.ptr, 1, bytes.len, f) != bytes.len) rc = fs_fail(err, "write", path);
    if (f && fclose(f) && !rc) rc = fs_fail(err, "close", path);
    buf_done(&bytes);
    if (!pthread_equal(snapshot_thread, pthread_self())) toy_counts.saved_elsewhere++;
    return rc;
}

det_value *toy_load(const char *path, det_err *err)
{
    struct buf bytes = BUF_INIT(FILE_MAX_BYTES);
    det_value *tree = fs_read(path, &bytes, err) ? NULL : toy_unpack(buf_str(&bytes), err);
    buf_done(&bytes);
    return tree;
}

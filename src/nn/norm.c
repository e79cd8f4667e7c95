// Unit norm.c: BatchNorm, LayerNorm, RMSNorm, GroupNorm.
#include "nn/module.h"

enum { WEIGHT, BIAS };                                   // parameters
enum { RUNNING_MEAN, RUNNING_VAR, NUM_BATCHES_TRACKED }; // buffers of BatchNorm

struct norm {
    double eps, momentum;
    int spatial_dims; // BatchNorm
    int64_t n, groups;
};

static det_module *norm_new(const char *type, det_forward_fn forward, int64_t n,
                            const det_norm_opts *opts)
{
    det_module *m = det_module_new(type, sizeof(struct norm), forward);
    struct norm *self = det_module_self(m);
    self->eps = opts->eps;
    self->momentum = opts->momentum;
    self->n = n;
    if (opts->no_affine)
        module_add_none(m, "weight");
    else
        module_add_f32(m, "weight", DET_DIMS(n));
    if (opts->no_affine || opts->no_bias)
        module_add_none(m, "bias");
    else
        module_add_f32(m, "bias", DET_DIMS(n));
    return m;
}

static void norm_reset(det_module *m)
{
    det_init_constant(param(m, WEIGHT), 1);
    det_init_constant(param(m, BIAS), 0);
}

// --- batch norm

static bool batch_norm_input_ok(const det_module *m, const struct norm *self, det_tensor *x)
{
    int n = det_ndim(x);
    bool ok = self->spatial_dims == 2 ? n == 4 : n == 2 || n == 3;
    char text[96];
    if (!ok)
        module_fail(m, DET_ESHAPE, "input is %s, wants %s", det_describe(x, text, sizeof text),
                    self->spatial_dims == 2 ? "4 dims" : "2 or 3 dims");
    return ok;
}

static det_tensor *batch_norm_forward(det_module *m, det_tensor *x)
{
    const struct norm *self = det_module_self(m);
    if (!batch_norm_input_ok(m, self, x)) return NULL;
    det_tensor *count = buffer(m, NUM_BATCHES_TRACKED);
    if (m->training && count) {
        ++*(int64_t *)tensor_memory(count);
        tensor_touch(count);
    }
    return det_batch_norm(x, .weight = param(m, WEIGHT), .bias = param(m, BIAS),
                          .running_mean = buffer(m, RUNNING_MEAN),
                          .running_var = buffer(m, RUNNING_VAR),
                          .training = m->training || !buffer(m, RUNNING_MEAN),
                          .momentum = self->momentum, .eps = self->eps);
}

static void batch_norm_reset(det_module *m)
{
    norm_reset(m);
    det_init_constant(buffer(m, RUNNING_MEAN), 0);
    det_init_constant(buffer(m, RUNNING_VAR), 1);
    det_init_constant(buffer(m, NUM_BATCHES_TRACKED), 0);
}

static void add_running_stats(det_module *m, int64_t n, bool none)
{
    static const char *const names[] = {"running_mean", "running_var", "num_batches_tracked"};
    det_scope_begin();
    for (int i = 0; i < 3; i++) {
        det_tensor *t = i == NUM_BATCHES_TRACKED ? det_zeros(DET_I64, DET_SCALAR)
                                                 : det_zeros(DET_F32, DET_DIMS(n));
        det_module_add_buffer(m, names[i], none ? NULL : t);
    }
    det_scope_end();
}

det_module *det_nn_batch_norm_with(int64_t n, int spatial_dims, det_norm_opts opts)
{
    const char *type = spatial_dims == 2 ? "BatchNorm2d" : "BatchNorm1d";
    if (!arg_at_least(type, "num_features", n, 1)) return NULL;
    if (spatial_dims != 1 && spatial_dims != 2) {
        det_raise(DET_EINVAL, "BatchNorm: spatial_dims is %d, wants 1 or 2", spatial_dims);
        return NULL;
    }
    det_module *m = norm_new(type, batch_norm_forward, n, &opts);
    ((struct norm *)det_module_self(m))->spatial_dims = spatial_dims;
    add_running_stats(m, n, opts.no_running_stats);
    return module_ready(m, batch_norm_reset);
}

// --- over the last dim

static bool last_dim_ok(const det_module *m, const struct norm *self, det_tensor *x)
{
    char text[96];
    bool ok = det_ndim(x) > 0 && det_size(x, -1) == self->n;
    if (!ok)
        module_fail(m, DET_ESHAPE, "input is %s, wants %lld in its last dim",
                    det_describe(x, text, sizeof text), (long long)self->n);
    return ok;
}

static det_tensor *layer_norm_forward(det_module *m, det_tensor *x)
{
    const struct norm *self = det_module_self(m);
    if (!last_dim_ok(m, self, x)) return NULL;
    return det_layer_norm(x, 1, param(m, WEIGHT), param(m, BIAS), self->eps);
}

det_module *det_nn_layer_norm_with(int64_t n, det_norm_opts opts)
{
    if (!arg_at_least("LayerNorm", "normalized_shape", n, 1)) return NULL;
    return module_ready(norm_new("LayerNorm", layer_norm_forward, n, &opts), norm_reset);
}

static det_tensor *rms_norm_forward(det_module *m, det_tensor *x)
{
    const struct norm *self = det_module_self(m);
    if (!last_dim_ok(m, self, x)) return NULL;
    return det_rms_norm(x, 1, param(m, WEIGHT), self->eps);
}

det_module *det_nn_rms_norm_with(int64_t n, det_norm_opts opts)
{
    if (!arg_at_least("RMSNorm", "normalized_shape", n, 1)) return NULL;
    opts.no_bias = true;
    return module_ready(norm_new("RMSNorm", rms_norm_forward, n, &opts), norm_reset);
}

// --- group norm

static det_tensor *group_norm_forward(det_module *m, det_tensor *x)
{
    const struct norm *self = det_module_self(m);
    return det_group_norm(x, self->groups, param(m, WEIGHT), param(m, BIAS), self->eps);
}

det_module *det_nn_group_norm_with(int64_t groups, int64_t n, det_norm_opts opts)
{
    if (!arg_at_least("GroupNorm", "num_groups", groups, 1)) return NULL;
    if (!arg_at_least("GroupNorm", "num_channels", n, 1)) return NULL;
    if (n % groups) {
        det_raise(DET_EINVAL, "GroupNorm: %lld channels are not a multiple of %lld groups",
                  (long long)n, (long long)groups);
        return NULL;
    }
    det_module *m = norm_new("GroupNorm", group_norm_forward, n, &opts);
    ((struct norm *)det_module_self(m))->groups = groups;
    return module_ready(m, norm_reset);
}

// Unit activation.c: modules without parameters that apply one function.
#include "nn/module.h"

// --- y = f(x)

typedef det_tensor *(*function)(det_tensor *x);

static det_tensor *function_forward(det_module *m, det_tensor *x)
{
    return (*(function *)det_module_self(m))(x);
}

static det_module *function_new(const char *type, function f)
{
    det_module *m = det_module_new(type, sizeof f, function_forward);
    *(function *)det_module_self(m) = f;
    return module_ready(m, NULL);
}

static det_tensor *same(det_tensor *x)
{
    return x;
}

static det_tensor *flatten_all_but_first(det_tensor *x)
{
    return det_flatten(x, 1, -1);
}

det_module *det_nn_flatten(void)
{
    return function_new("Flatten", flatten_all_but_first);
}

det_module *det_nn_identity(void)
{
    return function_new("Identity", same);
}

det_module *det_nn_relu(void)
{
    return function_new("ReLU", det_relu);
}

det_module *det_nn_gelu(void)
{
    return function_new("GELU", det_gelu);
}

det_module *det_nn_silu(void)
{
    return function_new("SiLU", det_silu);
}

det_module *det_nn_tanh(void)
{
    return function_new("Tanh", det_tanh);
}

det_module *det_nn_sigmoid(void)
{
    return function_new("Sigmoid", det_sigmoid);
}

// --- y = f(x, number)

struct with_number {
    det_tensor *(*f)(det_tensor *x, double number);
    double number;
};

static det_tensor *with_number_forward(det_module *m, det_tensor *x)
{
    const struct with_number *self = det_module_self(m);
    return self->f(x, self->number);
}

static det_module *with_number_new(const char *type, struct with_number self)
{
    det_module *m = det_module_new(type, sizeof self, with_number_forward);
    *(struct with_number *)det_module_self(m) = self;
    return module_ready(m, NULL);
}

det_module *det_nn_leaky_relu(double negative_slope)
{
    return with_number_new("LeakyReLU", (struct with_number){det_leaky_relu, negative_slope});
}

det_module *det_nn_elu(double alpha)
{
    return with_number_new("ELU", (struct with_number){det_elu, alpha});
}

// --- y = f(x, dim)

struct with_dim {
    det_tensor *(*f)(det_tensor *x, int dim);
    int dim;
};

static det_tensor *with_dim_forward(det_module *m, det_tensor *x)
{
    const struct with_dim *self = det_module_self(m);
    return self->f(x, self->dim);
}

static det_module *with_dim_new(const char *type, struct with_dim self)
{
    det_module *m = det_module_new(type, sizeof self, with_dim_forward);
    *(struct with_dim *)det_module_self(m) = self;
    return module_ready(m, NULL);
}

det_module *det_nn_softmax(int dim)
{
    return with_dim_new("Softmax", (struct with_dim){det_softmax, dim});
}

det_module *det_nn_log_softmax(int dim)
{
    return with_dim_new("LogSoftmax", (struct with_dim){det_log_softmax, dim});
}

// --- dropout

struct dropout {
    det_tensor *(*f)(det_tensor *x, double p, bool training);
    double p;
};

static det_tensor *dropout_forward(det_module *m, det_tensor *x)
{
    const struct dropout *self = det_module_self(m);
    return self->f(x, self->p, m->training);
}

static det_module *dropout_new(const char *type, struct dropout self)
{
    if (!arg_is_probability(type, "p", self.p)) return NULL;
    det_module *m = det_module_new(type, sizeof self, dropout_forward);
    *(struct dropout *)det_module_self(m) = self;
    return module_ready(m, NULL);
}

det_module *det_nn_dropout(double p)
{
    return dropout_new("Dropout", (struct dropout){det_dropout, p});
}

det_module *det_nn_dropout2d(double p)
{
    return dropout_new("Dropout2d", (struct dropout){det_dropout_channels, p});
}

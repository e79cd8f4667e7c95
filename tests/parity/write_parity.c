// Program write_parity: runs small programs of views, writes in place and other operations that
// write_parity.py makes up, and tells what came of them. A program works on a few registers; an
// instruction is a list: its name, the register it sets or writes into, its other arguments.
#include "support/wire.h"

#include "tensor/tensor.h"
#include <string.h>

enum { N_REGISTERS = 16, MAX_ARGS = 12 };

// An instruction; names as in the instructions of write_parity.py.
struct call {
    det_tensor **r;
    int n;               // arguments behind the name
    int64_t i[MAX_ARGS]; // as integers, 0 where they are none
    double f[MAX_ARGS];  // as numbers
    det_tensor *data;    // the tensor among the arguments
};

static det_tensor *in(const struct call *c, int k)
{
    return c->r[c->i[k]];
}

static det_tensor *copy_of(det_tensor *data)
{
    bool old = det_set_grad_enabled(false);
    det_tensor *t = det_clone(data);
    det_set_grad_enabled(old);
    return t;
}

static void run_leaf(struct call *c)
{
    c->r[c->i[0]] = det_requires_grad(copy_of(c->data), true);
}
static void run_plain(struct call *c)
{
    c->r[c->i[0]] = copy_of(c->data);
}

// Results replace what is in the register, refusals leave it.
static void set(struct call *c, det_tensor *t)
{
    if (t) c->r[c->i[0]] = t;
}

// --- views

static void run_slice(struct call *c)
{
    set(c, det_slice(in(c, 1), (int)c->i[2], c->i[3], c->i[4], c->i[5]));
}
static void run_select(struct call *c)
{
    set(c, det_select(in(c, 1), (int)c->i[2], c->i[3]));
}
static void run_transpose(struct call *c)
{
    set(c, det_transpose(in(c, 1), (int)c->i[2], (int)c->i[3]));
}
static void run_expand(struct call *c)
{
    set(c, det_expand(in(c, 1), c->i + 2, c->n - 2));
}
static void run_reshape(struct call *c)
{
    set(c, det_reshape(in(c, 1), c->i + 2, c->n - 2));
}
static void run_split(struct call *c)
{
    det_tensor *piece[64];
    int n = det_split(in(c, 1), c->i[2], (int)c->i[3], piece, 64);
    if (n > 0) set(c, piece[c->i[4]]);
}
static void run_detach(struct call *c)
{
    set(c, det_detach(in(c, 1)));
}

// --- writes

static void run_fill(struct call *c)
{
    det_fill_(in(c, 0), c->f[1]);
}
static void run_write(struct call *c)
{
    det_write(in(c, 0), det_data(c->data));
}
static void run_copy(struct call *c)
{
    det_copy_(in(c, 0), in(c, 1));
}
static void run_add_(struct call *c)
{
    det_add_(in(c, 0), in(c, 1), c->f[2]);
}
static void run_mul_(struct call *c)
{
    det_mul_(in(c, 0), c->f[1]);
}

// --- others

#define UNARY(name)                        \
    static void run_##name(struct call *c) \
    {                                      \
        set(c, det_##name(in(c, 1)));      \
    }
#define BINARY(name)                            \
    static void run_##name(struct call *c)      \
    {                                           \
        set(c, det_##name(in(c, 1), in(c, 2))); \
    }
UNARY(sin)
UNARY(tanh)
UNARY(exp)
UNARY(relu)
UNARY(gelu)
UNARY(clone)
BINARY(add)
BINARY(mul)
BINARY(div)
BINARY(matmul)

static void run_linear(struct call *c)
{
    set(c, det_linear(in(c, 1), in(c, 2), NULL));
}
static void run_scale(struct call *c)
{
    set(c, det_mul_scalar(in(c, 1), c->f[2]));
}
static void run_to(struct call *c)
{
    set(c, det_to(in(c, 1), (det_dtype)c->i[2]));
}
static void run_grad(struct call *c)
{
    det_set_grad_enabled(c->i[0]);
}
static void run_backward(struct call *c)
{
    det_backward(det_sum(in(c, 0)), .retain_graph = true);
}

static const struct {
    const char *name;
    void (*run)(struct call *c);
} instructions[] = {
#define ROW(name)         \
    {                     \
#name, run_##name \
    }
    ROW(leaf),    ROW(plain), ROW(slice),  ROW(select), ROW(transpose), ROW(expand),
    ROW(reshape), ROW(split), ROW(detach), ROW(fill),   ROW(write),     ROW(copy),
    ROW(add_),    ROW(mul_),  ROW(sin),    ROW(tanh),   ROW(exp),       ROW(relu),
    ROW(gelu),    ROW(clone), ROW(add),    ROW(mul),    ROW(div),       ROW(matmul),
    ROW(linear),  ROW(scale), ROW(to),     ROW(grad),   ROW(backward),
};

static void read_args(const det_value *list, struct call *c)
{
    c->n = det_value_len(list) - 1;
    for (int k = 0; k < c->n && k < MAX_ARGS; k++) {
        const det_value *v = det_value_at(list, k + 1);
        det_value_as_int(v, &c->i[k], NULL);
        det_value_as_float(v, &c->f[k], NULL);
        if (det_value_as_tensor(v)) c->data = det_value_as_tensor(v);
    }
}

// "" or why it was refused. Nothing that was put off is run by asking.
static det_value *outcome(void)
{
    det_err err = {0};
    if (sticky_failed()) det_check(&err);
    return det_value_str(err.msg);
}

static det_value *run(det_tensor **r, const det_value *list)
{
    const char *name = "";
    det_value_as_str(det_value_at(list, 0), &name, NULL);
    struct call c = {.r = r};
    read_args(list, &c);
    for (size_t k = 0; k < sizeof instructions / sizeof *instructions; k++)
        if (!strcmp(instructions[k].name, name)) instructions[k].run(&c);
    return outcome();
}

static det_value *content(det_tensor *t)
{
    if (!t) return det_value_none();
    det_data(t);
    return sticky_failed() ? outcome() : det_value_tensor(t);
}

static det_value *answer(const det_value *program)
{
    det_tensor *r[N_REGISTERS] = {0};
    det_value *a = det_value_dict(), *outcomes = det_value_set(a, "outcomes", det_value_list());
    for (int i = 0; i < det_value_len(program); i++)
        det_value_push(outcomes, run(r, det_value_at(program, i)));
    det_set_grad_enabled(true);
    det_value *values = det_value_set(a, "values", det_value_list());
    det_value *grads = det_value_set(a, "grads", det_value_list());
    det_value *flags = det_value_set(a, "requires_grad", det_value_list());
    for (int i = 0; i < N_REGISTERS; i++) {
        det_value_push(values, content(r[i]));
        det_value_push(grads, content(det_grad(r[i])));
        det_value_push(flags, det_value_bool(det_has_requires_grad(r[i])));
        det_value_free(outcome());
    }
    return a;
}

int main(void)
{
    det_value *program;
    while ((program = wire_read(stdin))) {
        det_scope_begin();
        det_value *a = answer(program);
        wire_write(stdout, a);
        fflush(stdout);
        det_value_free(a);
        det_scope_end();
        det_value_free(program);
    }
    return 0;
}

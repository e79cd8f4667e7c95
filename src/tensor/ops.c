// Unit ops.c: the table of operations.
#include "tensor/ops.h"

#define ROW(name) &op_##name,
#define UNARY(name, test, torch, saved, value, grad) ROW(name)
#define PREDICATE(name, torch, value) ROW(name)
const struct op *const op_table[] = {
#include "tensor/kernels/unary.def"
#include "tensor/kernels/predicate.def"
    OPS(ROW)};
#undef UNARY
#undef PREDICATE

const int n_ops = sizeof op_table / sizeof *op_table;

// tests/parity/op_calls.h: public functions by name, for cases that arrive as text.
//
// A statement is "results = function arguments options":
//
//     y i = topk x 3 -1 1
//     y = conv2d x w - stride=2,1 groups=2
//
// Results and arguments are names of tensors, - is NULL; numbers are as strtod reads them; lists
// are [2,3]; options are name=value.
#pragma once

#include "det/tensor.h"

enum { CALL_MAX_WORDS = 32, CALL_MAX_OUT = 8, CALL_MAX_LIST = 16 };

struct named_tensor {
    char name[16];
    det_tensor *tensor;
};

struct call {
    const struct named_tensor *known; // n_known tensors that arguments may name
    int n_known;
    char *arg[CALL_MAX_WORDS], *option[CALL_MAX_WORDS];
    int n_arg, n_option;
    void *data; // row-major elements that came with the statement
    int n_out;  // results that the statement names
    det_tensor *out[CALL_MAX_OUT];
};

// Calls the function; its results are in out. Ends the program with a message if there is no such
// function or an argument cannot be read: then the case is wrong, not the function.
void call_function(struct call *c, const char *function);

// Prints the name of every function that can be called, one to a line.
void call_list(void);

// A type by its name, as det_dtype_name() writes it.
det_dtype call_dtype(const char *name);
// Numbers of "[2,3]" into out, at most max of them; returns how many.
int call_numbers(const char *text, int64_t *out, int max);

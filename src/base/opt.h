// base/opt.h: values that may not be set. Zero is "not set".
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum tri { TRI_UNSET, TRI_FALSE, TRI_TRUE };

struct opt_int {
    bool is_set;
    int64_t value;
};

#!/bin/sh
# Programs that use options compile without a word, however many warnings their authors ask for.
. "$(dirname "$0")/lib.sh"
include=$(realpath "$golden/../../include")

cat >program.c <<'C'
#include <det/det.h>

det_tensor *program(det_tensor *x)
{
    det_tensor *y = det_batch_norm(x, .training = true, .momentum = 0);
    y = det_batch_norm(det_batch_norm(y, .training = true, .eps = 0), .eps = 1e-3,
                       .training = true, .momentum = 0.2);
    return det_max_pool2d(y, .kernel = {3, 2}, .padding = {1, 0});
}

det_tensor *losses(det_tensor *x, det_tensor *y)
{
    det_tensor *loss = det_mse_loss(x, y, .reduction = DET_REDUCTION_SUM);
    return det_add(loss, det_smooth_l1_loss(x, det_mse_loss(x, y), .beta = 0.5));
}

det_module *layers(void)
{
    return det_nn_sequential(det_nn_batch_norm2d(3, .momentum = 0), det_nn_layer_norm(4),
                             det_nn_group_norm(2, 4, .eps = 1e-3, .no_affine = true));
}

C
for compiler in gcc clang; do
    for level in -O0 -O2; do
        run "$compiler" -std=gnu11 -Wall -Wextra -Wshadow -Werror $level -I "$include" -c -o program.o program.c
        expect_status 0
        [ ! -s err ] || fail "$compiler has something to say: $(cat err)"
    done
done

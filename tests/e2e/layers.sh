#!/bin/sh
# Whoever makes the training loop use a tensor is told so: by scripts/check-layers, which reads what is
# included, and by the linker, whatever is included.
. "$(dirname "$0")/lib.sh"
root=$(realpath "$golden/../..")
build=$(dirname "$det")
mkdir tree
cp -r "$root/src" "$root/include" "$root/scripts" "$root/CMakeLists.txt" tree

refuses() { # refuses FILE LINE MESSAGE: the line is put into the file, the script complains
    cp "tree/$1" kept
    sed -i "1a $2" "tree/$1"
    run tree/scripts/check-layers
    cp kept "tree/$1"
    expect_status 1
    expect_out "$3"
}

run tree/scripts/check-layers
expect_status 0
refuses src/train/training.c '#include "tensor/tensor.h"' 'src/train/training.c:2: train may not use tensor'
refuses src/train/metrics.h '#include "det/ops.h"' 'src/train/metrics.h:2: train may not use tensor'
refuses src/train/predict.c '#include "det/nn.h"' 'src/train/predict.c:2: train may not use nn'
refuses src/train/checkpoint.c '#include "format/format.h"' 'train may not use format'
refuses src/train/trial.c '#include "engine/engine.h"' 'train may not use engine'
refuses include/det/trial.h '#include "det/data.h"' 'include/det/trial.h:2: train may not use data'

# A prototype of one's own needs no include; but then the tests of the loop do not link any more.
cat >planted.c <<'C'
typedef struct det_tensor det_tensor;
det_tensor *det_relu(det_tensor *x);
det_tensor *planted(det_tensor *x);
det_tensor *planted(det_tensor *x)
{
    return det_relu(x);
}
C
cc -c planted.c -o planted.o
link=$(ninja -C "$build" -t commands test_train_onevar | tail -n 1)
cd "$build"
run sh -c "$(echo "$link" | sed "s|-o test_train_onevar|-o '$tmp/linked'|")"
expect_status 0
run sh -c "$(echo "$link" | sed "s|-o test_train_onevar|-o '$tmp/linked' '$tmp/planted.o'|")"
expect_status 1
expect_err 'undefined reference to `det_relu'

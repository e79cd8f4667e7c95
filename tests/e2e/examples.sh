#!/bin/sh
# The examples do what their READMEs say, and a training that is continued ends with the same file.
. "$(dirname "$0")/lib.sh"
mnist=$(dirname "$det")/example_mnist
[ -x "$mnist" ] || { echo "no example_mnist next to det: skipped"; exit 0; }

# Digits: 128 black images, all of them zeros.
mkdir digits
for set in train t10k; do
    { printf '\000\000\010\003\000\000\000\200\000\000\000\034\000\000\000\034'; head -c $((128 * 784)) /dev/zero; } \
        >digits/$set-images-idx3-ubyte
    { printf '\000\000\010\001\000\000\000\200'; head -c 128 /dev/zero; } >digits/$set-labels-idx1-ubyte
done

config() { # config TRIAL EPOCHS
    cat <<YAML
name: digits
data: {dir: $tmp/digits}
hyperparameters: {learning_rate: 0.05, dropout: 0.5, global_batch_size: 16, n_filters1: 4, n_filters2: 6}
searcher: {name: single, metric: validation_error, max_length: {epochs: $2}}
reproducibility: {experiment_seed: 11}
entrypoint: $1
YAML
}

for trial in const tutorial; do
    config "$trial" 1 >$trial-1.yaml
    config "$trial" 3 >$trial-3.yaml
    run "$mnist" $trial-3.yaml whole-$trial
    expect_status 0
    expect_out "validation_error 0.0000"
    run "$mnist" $trial-1.yaml part-$trial
    expect_status 0
    run "$mnist" $trial-3.yaml rest-$trial part-$trial/*
    expect_status 0
    run cmp whole-$trial/*/state-dict.pth rest-$trial/*/state-dict.pth
    expect_status 0
done

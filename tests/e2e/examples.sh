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
min_checkpoint_period: {batches: 1}
reproducibility: {experiment_seed: 11}
entrypoint: $1
YAML
}

# The weights that the training with checkpoints in a folder ended with.
newest() {
    grep -l '"batches_trained": 24' "$1"/*/loop.json | head -1 | sed 's/loop.json/state-dict.pth/'
}

# kill_after N CONFIG CHECKPOINTS: kills the program when it has told of N checkpoints.
kill_after() {
    mkfifo pipe
    "$mnist" "$2" "$3" >pipe 2>/dev/null &
    pid=$!
    n=$1
    while read -r line; do
        case $line in
        checkpoint*) n=$((n - 1)) ;;
        esac
        if [ "$n" -eq 0 ]; then kill -9 $pid && break; fi
    done <pipe
    wait $pid && fail "the program should have been killed" || true
    rm pipe
}

for trial in const tutorial; do
    config "$trial" 3 >$trial.yaml
    run "$mnist" $trial.yaml whole
    expect_status 0
    expect_out "validation_error 0.0000"
    for n in 1 3 4 2; do
        kill_after $n $trial.yaml killed
    done
    run "$mnist" $trial.yaml killed
    expect_status 0
    run cmp "$(newest whole)" "$(newest killed)"
    expect_status 0
    rm -r whole killed
done

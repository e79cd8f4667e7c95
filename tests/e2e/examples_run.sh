#!/bin/sh
# The examples that det-run trains: photographs, a text, and predictions from a checkpoint.
. "$(dirname "$0")/lib.sh"
bin=$(dirname "$det")
examples=$(realpath "$golden/../../examples")
export XDG_CACHE_HOME="$tmp/cache"

# --- all configurations are good

for file in "$examples"/*/*.yaml; do
    case $file in */batch_inference.yaml) kind=--job ;; *) kind= ;; esac
    run "$det" config check $kind "$file"
    expect_status 0
done
run "$det" preview-search "$examples/onevar/grid.yaml"
expect_out "grid: 3 trials, 60 epochs in all"

# The configuration of an example, with data of our own.
config() { # config EXAMPLE NAME=VALUE...
    name=$1
    shift
    grep -v -e '^data:' -e '^  file:' "$examples/$name/const.yaml"
    echo "data: {$*}"
}

# --- cifar10: 8 images of noise in each file

mkdir photographs
for file in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    for label in 0 1 2 3 4 5 6 7; do
        printf "\\00$label"
        head -c 3072 /dev/urandom
    done >photographs/$file.bin
done
cp "$examples/cifar10/model_def.c" cifar.c
config cifar10 "dir: $tmp/photographs" >cifar.yaml
cifar() {
    run "$bin/det-run" cifar:CifarTrial --config cifar.yaml -s 3 --hparam width=4 --hparam blocks_per_stage=1 \
        --hparam global_batch_size=16 "$@"
    expect_status 0
}
cifar -b 5 -d whole
expect_out "validation_error_top5"
expect_out "finished after 5 batches (1 epochs)"

# Interrupted inside of an epoch: the same crops, statistics and weights in the end.
cifar -b 2 -d parts
cifar -b 5 -d parts --resume
expect_out "going on from parts/"
run cmp "$(ls -td whole/*/ | head -n 1)state-dict.pth" "$(ls -td parts/*/ | head -n 1)state-dict.pth"
expect_status 0

# --- gan: both models learn, and both are saved

cp "$examples/gan/model_def.c" gan.c
gan() {
    run "$bin/det-run" gan:GanTrial --config "$examples/gan/const.yaml" -s 3 "$@"
    expect_status 0
}
gan -b 500 -d gan-whole --metrics gan.jsonl
expect_out "generator_loss"
python3 -c 'import json, sys
last = [json.loads(line) for line in open("gan.jsonl")][-1]
sys.exit(last["metrics"]["distance"] > 0.3)' || fail "generated points should be near the circle"
gan -b 130 -d gan-parts
gan -b 500 -d gan-parts --resume
run cmp "$(ls -td gan-whole/*/ | head -n 1)state-dict.pth" "$(ls -td gan-parts/*/ | head -n 1)state-dict.pth"
expect_status 0

# --- charlm: learns something, and writes letters of the text

cp "$examples/charlm/model_def.c" charlm.c
config charlm "file: $examples/charlm/text.txt" >charlm.yaml
run "$bin/det-run" charlm:CharLMTrial --config charlm.yaml -s 3 -b 30 --metrics letters.jsonl \
    --hparam width=16 --hparam layers=1 --hparam window=16 --hparam learning_rate=0.02
expect_status 0
expect_out "--- sample"
run python3 -c '
import json
rows = [json.loads(line) for line in open("letters.jsonl")]
loss = [r["metrics"]["validation_loss"] for r in rows if "validation_loss" in r["metrics"]][-1]
assert 1 < loss < 3, loss  # 3.8 is knowing nothing
'
expect_status 0
config charlm "file: $tmp/missing.txt" >charlm.yaml
run "$bin/det-run" charlm:CharLMTrial --config charlm.yaml -b 1
expect_status 1
expect_err "cannot open the text '$tmp/missing.txt'"

# --- batch_inference: 40 images, half of them white; predictions in their order, for any batch size

mkdir digits
for set in train t10k; do
    { printf '\000\000\010\003\000\000\000\050\000\000\000\034\000\000\000\034'
      for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
          head -c 784 /dev/zero
          head -c 784 /dev/zero | tr '\000' '\377'
      done; } >digits/$set-images-idx3-ubyte
    { printf '\000\000\010\001\000\000\000\050'
      for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do printf '\003\010'; done; } \
        >digits/$set-labels-idx1-ubyte
done
cp "$examples/mnist/model_def.c" model_def.c
config mnist "dir: $tmp/digits" >mnist.yaml
run "$bin/det-run" --config mnist.yaml -s 3 -e 20 -d digits-ck --hparam global_batch_size=8 \
    --hparam n_filters1=4 --hparam n_filters2=4 --hparam dropout=0 --hparam learning_rate=0.02
expect_status 0
expect_out "validation_error 0"
{ grep -v '^data:' "$examples/mnist/distributed.yaml"; echo "data: {dir: $tmp/digits}"; } >distributed.yaml
run "$bin/det-run" --config distributed.yaml --slots 2 -s 3 -b 4 -d shared-ck --hparam global_batch_size=8 \
    --hparam n_filters1=4 --hparam n_filters2=4
expect_status 0
expect_no_err
expect_out "finished after 4 batches"
run grep -h '"slots": 2' shared-ck/*/loop.json
expect_status 0
job() { # job BATCH_SIZE [LAUNCHER...]
    sed -e "s|trial_id: .*|checkpoint: $(ls -td "$tmp"/digits-ck/*/ | head -n 1)|" -e "s|images: .*|images: $tmp/digits|" \
        -e "s|batch_size: .*|batch_size: $1|" -e "s|output: .*|output: $1.csv|" \
        "$examples/batch_inference/batch_inference.yaml" >job.yaml
    run "$det" config check --job job.yaml
    expect_status 0
    size=$1
    shift
    run "$@" "$bin/example_predict" job.yaml
    expect_status 0
    expect_out "40 predictions in $size.csv"
}
{ echo index,digit; for i in $(seq 0 2 39); do echo "$i,3"; echo "$((i + 1)),8"; done; } >wanted
for batch_size in 7 40; do
    job $batch_size
    run cut -d , -f 1,2 $batch_size.csv
    expect_out_is wanted
done
cp 7.csv alone.csv
job 7 "$bin/det-launch" --slots 3
run cmp alone.csv 7.csv
expect_status 0

# In a job there is nothing but the environment to say what is to be done.
run env DET_EXPERIMENT_CONFIG="$(python3 -c 'import json; print(json.dumps({"entrypoint": "x", "data": {"checkpoint": "none"}}))')" \
    "$bin/example_predict"
expect_status 1
expect_err "predict: checkpoint 'none':"

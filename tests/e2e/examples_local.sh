#!/bin/sh
# Every example is an experiment: created, trained for a few steps and completed.
. "$(dirname "$0")/lib.sh"
sources=$(realpath "$golden/../..")
build=$(dirname "$det")
export DET_HOME="$tmp/home" HOME="$tmp" MNIST="$tmp/digits" PT_ACC_LIMIT_BATCHES=3
export CPATH="$sources/include" LIBRARY_PATH="$build" LD_LIBRARY_PATH="$build"

run python3 "$sources/tests/support/make-mnist.py" digits 320 100
mkdir photographs
for file in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    { printf '\001'; head -c 3072 /dev/urandom; } >photographs/$file.bin
done

# completes FILE OPTIONS...: the experiment of a configuration, with the folder that it is in
tested=
completes() {
    file=$1
    shift
    cp -r "$sources/examples/$(dirname "$file")" code
    run "$det" experiment create "code/$(basename "$file")" code --local "$@"
    expect_status 0
    expect_out "COMPLETED"
    rm -r code
    tested="$tested $file"
}

few='searcher.max_length=2'
completes mnist/const.yaml --config data.dir="$MNIST" --config $few

# The same model, asked about 100 digits, as a job that knows the number of the trial.
cp -r "$sources/examples" all
run "$det" job run all/batch_inference/batch_inference.yaml all --local --config data.images="$MNIST" \
    --config data.trial_id=1 --config data.output="$tmp/predictions.csv"
expect_status 0
run wc -l predictions.csv
expect_out "101 predictions.csv"

completes onevar/const.yaml
completes onevar/grid.yaml
completes mnist/tutorial.yaml --config data.dir="$MNIST" --config searcher.max_steps=1 --config scheduling_unit=2
completes charlm/const.yaml --config "$few" --config hyperparameters.width=16 --config hyperparameters.window=16
completes cifar10/const.yaml --config data.dir="$tmp/photographs" --config $few --config hyperparameters.width=4 \
    --config hyperparameters.global_batch_size=2
completes gan/const.yaml --config $few
completes generic/c.yaml
completes generic/shell.yaml
completes generic/python.yaml
completes plain/const.yaml
completes accelerated_mnist/const.yaml
completes accelerated_mnist/search.yaml --config searcher.max_trials=3

# Nothing was forgotten: what is not above has a test of its own.
for file in $(cd "$sources/examples" && ls -- */*.yaml); do
    case " $tested batch_inference/batch_inference.yaml mnist/distributed.yaml " in
    *" $file "*) ;;
    *) fail "no test runs examples/$file" ;;
    esac
done
for folder in "$sources"/examples/*/; do
    [ -s "$folder/README.md" ] || fail "$folder has no README.md"
done

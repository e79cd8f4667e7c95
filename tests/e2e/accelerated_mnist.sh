#!/bin/sh
# The example of the accelerated trainer: a few steps, and what it prints and writes.
. "$(dirname "$0")/lib.sh"
example=$(dirname "$det")/example_accelerated_mnist
make_mnist=$(dirname "$golden")/support/make-mnist.py

run python3 "$make_mnist" mnist 640 100
expect_status 0

run env PT_ACC_LIMIT_BATCHES=6 "$example" mnist 2
expect_status 0
expect_no_err
for line in "Starting training run" "Starting epoch 2" "train_loss_epoch: " "eval_loss_epoch: " "accuracy: " \
    "precision: " "recall: " "Loading checkpoint with accuracy: " "Finishing training run"; do
    expect_out "$line"
done
[ -s best_model.pt ] || fail "best_model.pt should be there"

run "$example" nowhere
expect_status 1
expect_err "nowhere"
run "$example"
expect_status 2

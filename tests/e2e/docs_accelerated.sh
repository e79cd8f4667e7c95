#!/bin/sh
# The program of docs/accelerated.md does what the text says.
. "$(dirname "$0")/lib.sh"
program=$(dirname "$det")/docs_accelerated
make_mnist=$(dirname "$golden")/support/make-mnist.py

run python3 "$make_mnist" mnist 320 100
expect_status 0
run "$program" mnist
expect_status 0
expect_no_err
for line in "train_loss_epoch: " "accuracy: " "learning rate: " "20 updates of 32 samples" \
    "30 updates of 32 samples" "Early stopping counter: 0/2" \
    "Loading checkpoint with eval_loss_epoch: " "Saved training state to states/epoch_3.pth" "evaluation_loss: " \
    "Reached the maximum of 5 training steps"; do
    expect_out "$line"
done
[ "$(grep -c "Starting epoch 3" out)" = 1 ] || fail "the resumed run should start with epoch 3"
[ "$(grep -c "Starting epoch 2" out)" = 2 ] || fail "the resumed run should not repeat epoch 2"
[ "$(grep -c eval_loss_epoch metrics.jsonl)" = 2 ] || fail "two evaluations should be in metrics.jsonl"
run "$program" mnist
expect_status 0
[ "$(grep -c eval_loss_epoch metrics.jsonl)" = 2 ] || fail "a run that has ended should have nothing more to do"

# train.py, step 3: fault tolerance; and pause and resume

import random

import torch
from data import build_dataset
from model import build_model, eval_model, train_model

if __name__ == "__main__":
    import determined as det

    context = det.generic.init()

    seed = context.training.trial_seed
    random.seed(seed)
    torch.random.manual_seed(seed)

    hparams = context.training.hparams

    model, loss_fn, opt = build_model(hparams["learning_rate"])
    train_data, eval_data = build_dataset(hparams["batch_size"])

    last_epoch = -1
    batches_trained = 0

    # read state from the last checkpoint
    if context.latest_checkpoint is not None:
        with context.latest_checkpoint as path:
            state = torch.load(f"{path}/my_checkpoint")
        model.load_state_dict(state["model"])  # mended: load_state
        last_epoch = state["epoch"]
        batches_trained = state["batches_trained"]

    searcher_op = context.training.basic_search()

    # Only train for the amount that remains
    for epoch in range(
        last_epoch + 1, searcher_op.epochs
    ):  # mended: range(last_epoch, ...), one epoch too many
        if context.should_preempt():
            break

        # train model
        train_loss = train_model(model, loss_fn, opt, train_data)
        batches_trained += len(train_data)

        # report training metrics to the master
        context.training.report_training_metrics(
            batches_trained=batches_trained, metrics={"loss": train_loss}
        )

        # evaluate model
        eval_loss = eval_model(model, loss_fn, eval_data)

        # report validation metrics to the master
        context.training.report_validation_metrics(
            batches_trained=batches_trained, metrics={"loss": eval_loss}
        )

        # checkpoint every epoch for high fault-tolerance
        # also track how far we have trained
        state = {
            "model": model.state_dict(),
            "epoch": epoch,
            "batches_trained": batches_trained,
        }
        with context.checkpoint.save_path() as path:
            torch.save(state, f"{path}/my_checkpoint")

        # report searcher progress or complete
        # mended: after the checkpoint, so that a trial that is killed in between is not complete without one
        if epoch == searcher_op.epochs - 1:
            searcher_op.complete(eval_loss)
        else:
            searcher_op.report_progress(epoch)

# train.py, step 2: basic hyperparameter search, and best practices

import random  # mended: the original uses it without importing it

import torch
from data import build_dataset
from model import build_model, eval_model, train_model

if __name__ == "__main__":
    # initialize a context object for accessing the Generic API
    import determined as det

    context = det.generic.init()

    # seed RNGs based on context-provided seed
    seed = context.training.trial_seed
    random.seed(seed)
    torch.random.manual_seed(seed)
    # ... also seed any other RNGs you need to

    # read hyperparameters from the context object
    hparams = context.training.hparams

    model, loss_fn, opt = build_model(hparams["learning_rate"])
    train_data, eval_data = build_dataset(hparams["batch_size"])

    # keep track of how many batches we have trained
    batches_trained = 0

    # basic searcher API: just find out how long to train for
    searcher_op = context.training.basic_search()

    for epoch in range(searcher_op.epochs):
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

        if epoch == searcher_op.epochs - 1:
            # on the last epoch, report your final metric
            searcher_op.complete(eval_loss)  # mended: complete(searcher), which is not defined
        else:
            # totally optional: tell the searcher about your intermediate
            # progress so the webui can estimate overall progress
            searcher_op.report_progress(epoch)

    # checkpoint model
    with context.checkpoint.save_path() as path:
        torch.save(model.state_dict(), f"{path}/my_checkpoint")

# train.py, step 1: metrics and checkpoint tracking

import torch
from data import build_dataset
from model import build_model, eval_model, train_model

# some configurations
BATCH_SIZE = 32
LR = 0.00001
EPOCHS = 50

if __name__ == "__main__":
    # initialize a context object for accessing the Generic API
    import determined as det  # mended: import determined, and use of det

    context = det.generic.init()

    model, loss_fn, opt = build_model(LR)
    train_data, eval_data = build_dataset(BATCH_SIZE)

    # keep track of how many batches we have trained
    batches_trained = 0

    for epoch in range(EPOCHS):
        # train model
        train_loss = train_model(model, loss_fn, opt, train_data)
        print(f"after epoch {epoch}, train_loss={train_loss}")

        # report training metrics to the master
        batches_trained += len(train_data)
        context.training.report_training_metrics(
            batches_trained=batches_trained,
            metrics={"loss": train_loss},
        )

        # evaluate model
        eval_loss = eval_model(model, loss_fn, eval_data)
        print(f"after epoch {epoch}, eval_loss={eval_loss}")

        # report validation metrics to the master
        context.training.report_validation_metrics(
            batches_trained=batches_trained,
            metrics={"loss": eval_loss},
        )

    # checkpoint model
    with context.checkpoint.save_path() as path:
        torch.save(model.state_dict(), f"{path}/my_checkpoint")  # mended: {path]

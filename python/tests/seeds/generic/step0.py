# train.py, the starting point: no API at all

import torch
from data import build_dataset
from model import build_model, eval_model, train_model

# some configurations
BATCH_SIZE = 32
LR = 0.00001
EPOCHS = 50

if __name__ == "__main__":
    model, loss_fn, opt = build_model(LR)
    train_data, eval_data = build_dataset(BATCH_SIZE)

    for epoch in range(EPOCHS):  # mended: config.EPOCHS
        # train model
        train_loss = train_model(model, loss_fn, opt, train_data)  # mended: model.train_model
        print(f"after epoch {epoch}, train_loss={train_loss}")

        # evaluate model
        eval_loss = eval_model(model, loss_fn, eval_data)  # mended: model.eval_model, on train_data
        print(f"after epoch {epoch}, eval_loss={eval_loss}")

    # checkpoint model
    path = "checkpoint_dir/my_checkpoint"
    torch.save(model.state_dict(), path)

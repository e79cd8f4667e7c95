# train.py, the advanced form: operations of the searcher, one after the other, without a restart between them

import torch
from data import build_dataset
from model import build_model, eval_model, train_model

if __name__ == "__main__":
    import determined as det

    context = det.generic.init()
    torch.random.manual_seed(context.training.trial_seed)
    hparams = context.training.hparams
    model, loss_fn, opt = build_model(hparams["learning_rate"])
    train_data, eval_data = build_dataset(hparams["batch_size"])

    last_epoch = -1
    if context.latest_checkpoint is not None:
        with context.latest_checkpoint as path:
            state = torch.load(f"{path}/my_checkpoint")
        model.load_state_dict(state["model"])
        last_epoch = state["epoch"]

    for op in context.training.search_ops():
        for epoch in range(last_epoch + 1, op.epochs):
            if context.should_preempt(block=False):
                break
            train_model(model, loss_fn, opt, train_data)
            last_epoch = epoch
        eval_loss = eval_model(model, loss_fn, eval_data)
        batches_trained = (last_epoch + 1) * len(train_data)
        context.training.report_validation_metrics(batches_trained, {"loss": eval_loss})
        with context.checkpoint.save_path() as path:
            torch.save({"model": model.state_dict(), "epoch": last_epoch}, f"{path}/my_checkpoint")
        if last_epoch + 1 < op.epochs:
            break
        op.complete(eval_loss)

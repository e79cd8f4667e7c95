#!/usr/bin/python3
"""train_parity.py PROGRAM: torch opens our checkpoints and goes on from them, and we from torch's.

From every checkpoint of a training, one step of torch must give what the next checkpoint has.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch

BATCH, BATCHES = 4, 6


class Training:
    """The network of train_parity.c, with the state of a checkpoint or a new one."""

    def __init__(self, folder=None):
        self.model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Tanh(), torch.nn.Linear(10, 3))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=0.02, weight_decay=0.01)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.opt, 2, 0.5)
        if folder:
            tree = torch.load(Path(folder) / 'state-dict.pth')
            assert {'models_state_dict', 'optimizers_state_dict', 'lr_schedulers_state_dict', 'callbacks'} <= set(tree)
            self.model.load_state_dict(tree['models_state_dict'][0])
            self.opt.load_state_dict(tree['optimizers_state_dict'][0])
            self.schedule.load_state_dict(tree['lr_schedulers_state_dict'][0])

    def step(self, x, y):
        self.opt.zero_grad()
        torch.nn.functional.cross_entropy(self.model(x), y).backward()
        self.opt.step()
        self.schedule.step()

    def save(self, folder):
        folder.mkdir()
        torch.save({'models_state_dict': [self.model.state_dict()], 'optimizers_state_dict': [self.opt.state_dict()],
                    'lr_schedulers_state_dict': [self.schedule.state_dict()], 'callbacks': {}}, folder / 'state-dict.pth')

    def save_as_of_old(self, folder):
        """Another file name, one object of each kind, and a model that was part of a parallel one."""
        folder.mkdir()
        torch.save({'model_state_dict': {f'module.{k}': v for k, v in self.model.state_dict().items()},
                    'optimizer_state_dict': self.opt.state_dict(), 'lr_scheduler': self.schedule.state_dict()},
                   folder / 'state_dict.pth')


def assert_close(a, b, where):
    assert a.opt.param_groups[0]['lr'] == b.opt.param_groups[0]['lr'], where
    assert a.schedule.last_epoch == b.schedule.last_epoch, where
    for (name, p), q in zip(a.model.state_dict().items(), b.model.state_dict().values()):
        assert torch.allclose(p, q, rtol=1e-5, atol=1e-6), f'{where}: {name}'
    for i, state in a.opt.state_dict()['state'].items():
        for key, value in state.items():
            other = b.opt.state_dict()['state'][i][key]
            assert torch.allclose(torch.as_tensor(value), torch.as_tensor(other), rtol=1e-4, atol=1e-6), f'{where}: {i} {key}'


def train(program, folder, batches, *resume):
    out = subprocess.run([program, folder, str(batches), *resume], check=True, capture_output=True, text=True).stdout
    return {int(n): path for n, path in (line.split(' ', 1) for line in out.splitlines())}


def main():
    program = sys.argv[1]
    torch.manual_seed(5)
    with tempfile.TemporaryDirectory() as tmp:
        x, y = torch.randn(BATCH * BATCHES, 6), torch.randint(3, (BATCH * BATCHES,))
        numpy.save(f'{tmp}/x.npy', x.numpy())
        numpy.save(f'{tmp}/y.npy', y.numpy())
        saved = train(program, tmp, BATCHES)
        assert sorted(saved) == list(range(1, BATCHES + 1)), saved
        for k in range(1, BATCHES):
            training = Training(saved[k])
            training.step(x[k * BATCH:(k + 1) * BATCH], y[k * BATCH:(k + 1) * BATCH])
            assert_close(training, Training(saved[k + 1]), f'batch {k}')

        foreign = Training()  # weights of torch, without our position: training starts at the first batch
        foreign.step(x[-BATCH:], y[-BATCH:])
        foreign.save(Path(tmp) / 'foreign')
        foreign.save_as_of_old(Path(tmp) / 'old')
        foreign.step(x[:BATCH], y[:BATCH])
        for name in 'foreign', 'old':
            ours = train(program, tmp, 1, f'{tmp}/{name}')
            assert_close(foreign, Training(ours[1]), name)
    print(f'train_parity: {BATCHES} checkpoints')


main()

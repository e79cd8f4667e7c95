#!/usr/bin/python3
"""The MNIST example beside torch: same initial weights, same batches of real digits.

mnist_parity.py losses PROGRAM      without dropout: the losses of the first batches must be torch's
mnist_parity.py rounding PROGRAM    the same for more seeds, and beside it torch against torch with otherwise rounded images, and
                                    both sides against torch in 64 bits
mnist_parity.py errors PROGRAM      with dropout: the validation errors after 2000 batches, whose means must be alike

Trainings part by rounding: 'rounding' shows how far torch parts from itself; docs/parity.md has the figures. Dropout draws other
numbers on each side, so errors can only be compared as samples of one distribution.
"""
import copy
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parent.parent.parent
BATCH, LEARNING_RATE, MOMENTUM, DROPOUT = 64, 0.001, 0.9, 0.5
N_LOSSES, CURVE_LIMIT = 200, 1e-3  # relative difference of the curves
WORST_LIMITS = {100: 1e-3, 200: 1e-2}  # by number of batches: relative difference of a single loss
ERROR_GOAL, MEANS_GOAL = 4, 0.5  # percent


def read_digits(folder, name):
    images = numpy.fromfile(folder / f'{name}-images-idx3-ubyte', numpy.uint8, offset=16).reshape(-1, 1, 28, 28)
    labels = numpy.fromfile(folder / f'{name}-labels-idx1-ubyte', numpy.uint8, offset=8)
    normal = (torch.from_numpy(images).float() / 255 - 0.1307) / 0.3081
    return normal, torch.from_numpy(labels.astype(numpy.int64))


def network(dropout):
    return nn.Sequential(nn.Conv2d(1, 40, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(40, 40, 5), nn.MaxPool2d(2), nn.ReLU(),
                         nn.Flatten(), nn.Linear(640, 50), nn.ReLU(), nn.Dropout(dropout), nn.Linear(50, 10), nn.LogSoftmax(1))


def batches(n_samples, seed):
    """Indices of batch after batch, the order of an epoch being shuffled to that of the next."""
    random, order = numpy.random.RandomState(seed), numpy.arange(n_samples)
    while True:
        random.shuffle(order)
        for first in range(0, n_samples, BATCH):
            yield torch.from_numpy(order[first:first + BATCH].copy())


def train_torch(model, training, seed, n_batches):
    opt = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    losses = []
    for _, index in zip(range(n_batches), batches(len(training[0]), seed)):
        opt.zero_grad()
        loss = F.nll_loss(model(training[0][index]), training[1][index])
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def validation_error(model, images, labels):
    """As the trial has it: the average over batches."""
    model.eval()
    with torch.no_grad():
        return statistics.mean((model(x).argmax(1) != y).float().mean().item()
                               for x, y in zip(images.split(BATCH), labels.split(BATCH)))


def train_det(program, folder, model, dropout, seed, n_batches):
    with tempfile.TemporaryDirectory() as tmp:
        config, initial = Path(tmp) / 'config.yaml', Path(tmp) / 'initial'
        config.write_text(json.dumps({
            'hyperparameters': {'learning_rate': LEARNING_RATE, 'dropout': dropout, 'global_batch_size': BATCH,
                                'n_filters1': 40, 'n_filters2': 40},
            'searcher': {'name': 'single', 'metric': 'validation_error', 'max_length': {'batches': n_batches}},
            'entrypoint': 'model_def:MNistTrial'}))
        initial.mkdir()
        opt = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
        torch.save({'models_state_dict': [model.state_dict()], 'optimizers_state_dict': [opt.state_dict()],
                    'lr_schedulers_state_dict': [], 'callbacks': {}}, initial / 'state-dict.pth')
        out = subprocess.run([program, folder, config, initial, str(seed), str(n_batches)], check=True, capture_output=True,
                             text=True).stdout
        *losses, error = map(float, out.split())
        assert len(losses) == n_batches, len(losses)
        return losses, error


def initial_network(dropout, seed):
    torch.manual_seed(seed)
    return network(dropout)


def worst_difference(some, others):
    return max(abs(a - b) / abs(b) for a, b in zip(some, others))


def curve_difference(some, others):
    some, others = numpy.array(some), numpy.array(others)
    return numpy.linalg.norm(some - others) / numpy.linalg.norm(others)


def compare_losses(program, folder, training):
    for seed in 1, 2, 3:
        model = initial_network(0.0, seed)
        ours, _ = train_det(program, folder, model, 0.0, seed, N_LOSSES)
        theirs = train_torch(model, training, seed, N_LOSSES)
        assert theirs[-1] < 0.5 * theirs[0], 'torch has learned nothing'
        curve = curve_difference(ours, theirs)
        print(f'seed {seed}: the curves differ by {curve:.1e}, limit {CURVE_LIMIT:.0e}', flush=True)
        assert curve <= CURVE_LIMIT
        for n, limit in WORST_LIMITS.items():
            worst = worst_difference(ours[:n], theirs[:n])
            print(f'seed {seed}, {n} batches: the worst loss differs by {worst:.1e}, limit {limit:.0e}', flush=True)
            assert worst <= limit


def compare_rounding(program, folder, training, n_batches=N_LOSSES):
    rounded, double = (training[0] * (1 + 2 ** -23), training[1]), (training[0].double(), training[1])
    print('          det, torch          torch, torch              det, f64            torch, f64')
    print('seed   worst     curve      worst     curve      worst     curve      worst     curve')
    for seed in range(1, 6):
        model = initial_network(0.0, seed)
        ours, _ = train_det(program, folder, model, 0.0, seed, n_batches)
        theirs, others = (train_torch(copy.deepcopy(model), data, seed, n_batches) for data in (training, rounded))
        exact = train_torch(copy.deepcopy(model).double(), double, seed, n_batches)
        pairs = (ours, theirs), (others, theirs), (ours, exact), (theirs, exact)
        print(f'{seed:4}', *(f' {worst_difference(*p):8.1e}  {curve_difference(*p):8.1e} ' for p in pairs), flush=True)


def compare_errors(program, folder, training, n_batches=2000):
    test = read_digits(folder, 't10k')
    rows = []
    print('seed   det %  torch %')
    for seed in 1, 2, 3:
        model = initial_network(DROPOUT, seed)
        _, ours = train_det(program, folder, model, DROPOUT, seed, n_batches)
        train_torch(model, training, seed, n_batches)
        rows.append((100 * ours, 100 * validation_error(model, *test)))
        print(f'{seed:4} {rows[-1][0]:7.2f} {rows[-1][1]:8.2f}', flush=True)
    ours, theirs = (statistics.mean(side) for side in zip(*rows))
    print(f'mean {ours:7.2f} {theirs:8.2f}')
    assert ours < ERROR_GOAL and abs(ours - theirs) < MEANS_GOAL


def main():
    what, program = sys.argv[1:]
    folder = Path(subprocess.run([ROOT / 'scripts/fetch-mnist'], check=True, capture_output=True, text=True).stdout.strip())
    training = read_digits(folder, 'train')
    {'losses': compare_losses, 'rounding': compare_rounding, 'errors': compare_errors}[what](program, folder, training)


main()

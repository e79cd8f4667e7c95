#!/usr/bin/python3
"""Records the learning curves of a random search, as `det simulate-search --curves` reads them.

record_curves.py [TRIALS] > bench/data/mlp_curves.jsonl

Each trial trains a network with one hidden layer on points of two dimensions in three spiral arms, for 64 epochs, and
validates after each. A line is {"hparams": {...}, "curve": [[epoch, validation error], ...]}.
"""
import json
import sys

import numpy as np

EPOCHS, CLASSES, POINTS = 64, 3, 600


def spirals(rng, n):
    label = rng.randint(CLASSES, size=n)
    radius = rng.uniform(0.1, 1, n)
    angle = 4 * radius + label * 2 * np.pi / CLASSES + rng.normal(0, 0.15, n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), label


def sample(rng):
    return {'learning_rate': 10 ** rng.uniform(-4, 1), 'momentum': rng.uniform(0, 0.99), 'width': int(rng.randint(4, 129)),
            'weight_decay': 10 ** rng.uniform(-6, -1), 'batch_size': int(2 ** rng.randint(3, 8)), 'init': 10 ** rng.uniform(-2, 1)}


class Network:
    def __init__(self, rng, h):
        self.h = h
        self.w = [rng.normal(0, h['init'], (2, h['width'])), np.zeros(h['width']),
                  rng.normal(0, h['init'] / np.sqrt(h['width']), (h['width'], CLASSES)), np.zeros(CLASSES)]
        self.v = [np.zeros_like(w) for w in self.w]

    def forward(self, x):
        hidden = np.maximum(x @ self.w[0] + self.w[1], 0)
        logits = hidden @ self.w[2] + self.w[3]
        p = np.exp(logits - logits.max(1, keepdims=True))
        return hidden, p / p.sum(1, keepdims=True)

    def step(self, x, label):
        hidden, p = self.forward(x)
        p[np.arange(len(x)), label] -= 1
        p /= len(x)
        back = (p @ self.w[2].T) * (hidden > 0)
        grads = [x.T @ back, back.sum(0), hidden.T @ p, p.sum(0)]
        for w, v, g in zip(self.w, self.v, grads):
            v *= self.h['momentum']
            v += np.clip(g, -10, 10) + self.h['weight_decay'] * w
            w -= self.h['learning_rate'] * v

    def error(self, x, label):
        return float((self.forward(x)[1].argmax(1) != label).mean())


def record(seed, train, valid):
    rng = np.random.RandomState(seed)
    h = sample(rng)
    net, curve = Network(rng, h), []
    for epoch in range(1, EPOCHS + 1):
        order = rng.permutation(POINTS)
        for i in range(0, POINTS, h['batch_size']):
            part = order[i:i + h['batch_size']]
            net.step(train[0][part], train[1][part])
        curve.append([epoch, round(net.error(*valid), 4)])
    return {'hparams': {k: v if isinstance(v, int) else float(f'{v:.4g}') for k, v in h.items()}, 'curve': curve}


def main():
    np.seterr(all='ignore')  # some rates are too large, as in life
    rng = np.random.RandomState(0)
    train, valid = spirals(rng, POINTS), spirals(rng, 2000)
    for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 256):
        print(json.dumps(record(seed, train, valid), separators=(',', ':')))


main()

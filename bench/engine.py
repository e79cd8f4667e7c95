#!/usr/bin/python3
"""The torch side of engine.c: engine.py WORKLOAD THREADS SECONDS [bf16] [channels_last]."""
import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'tests/support'))
import models  # noqa: E402

BATCHES = 4


def sgd(lr, **options):
    return lambda p: torch.optim.SGD(p, lr=lr, **options)


def classes(n):
    return lambda: torch.randint(10, (n,))


def tokens():
    return torch.randint(1000, (8, 128))


def token_loss(y, t):
    return F.cross_entropy(y.view(1024, 1000), t.view(1024))


WORKLOADS = {  # batch, model, optimizer, input, target, loss
    'mnist': (64, lambda: models.mnist(0.5), sgd(0.001, momentum=0.9), lambda: torch.randn(64, 1, 28, 28), classes(64),
              F.nll_loss),
    'onevar': (32, lambda: torch.nn.Linear(1, 1), sgd(0.01), lambda: torch.randn(32, 1), lambda: torch.randn(32, 1),
               F.mse_loss),
    'mlp': (128, models.mlp, lambda p: torch.optim.Adam(p, lr=1e-3), lambda: torch.randn(128, 784), classes(128),
            F.cross_entropy),
    'vgg': (64, models.vgg, sgd(0.01, momentum=0.9, weight_decay=5e-4), lambda: torch.randn(64, 3, 32, 32), classes(64),
            F.cross_entropy),
    'resnet': (64, lambda: models.resnet(32), sgd(0.01, momentum=0.9, weight_decay=5e-4),
               lambda: torch.randn(64, 3, 32, 32), classes(64), F.cross_entropy),
    'gpt': (8, lambda: models.Gpt(1000, 256, 8, 4, 128), lambda p: torch.optim.AdamW(p, lr=3e-4), tokens, tokens,
            token_loss),
    'lstm': (32, lambda: models.LstmClassifier(256, 256, 10), lambda p: torch.optim.Adam(p, lr=1e-3),
             lambda: torch.randn(64, 32, 256), classes(32), F.cross_entropy),
}


def main():
    name, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    bf16, channels_last = 'bf16' in sys.argv[4:], 'channels_last' in sys.argv[4:]
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    batch, make_model, make_optimizer, make_input, make_target, loss_function = WORKLOADS[name]
    model = make_model()
    data = [(make_input(), make_target()) for _ in range(BATCHES)]
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        data = [(x.contiguous(memory_format=torch.channels_last), y) for x, y in data]
    optimizer = make_optimizer(model.parameters())

    def step(i):
        x, y = data[i % BATCHES]
        with torch.autocast('cpu', dtype=torch.bfloat16, enabled=bf16):
            out = model(x)
        loss = loss_function(out.float(), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    step(0)
    start = os.environ.get('BENCH_START')
    first = (time.monotonic_ns() - int(start)) * 1e-6 if start else 0
    i, begin = 0, time.perf_counter()
    while i < 3 or time.perf_counter() - begin < 0.3:
        step(i)
        i += 1
    per = max(1, int(0.1 * i / (time.perf_counter() - begin)))
    chunks, begin = [], time.perf_counter()
    while len(chunks) < 3 or time.perf_counter() - begin < seconds:
        t = time.perf_counter()
        for _ in range(per):
            loss = step(i)
            i += 1
        chunks.append((time.perf_counter() - t) / per)
    s = statistics.median(chunks)
    print(json.dumps({'workload': name, 'bf16': bf16, 'threads': threads, 'step_ms': s * 1e3, 'samples_per_s': batch / s,
                      'rss_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 'first_step_ms': first,
                      'loss': loss.item()}))


main()

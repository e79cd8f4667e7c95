#!/usr/bin/python3
"""Loads the same images with det and with torch, in turn, and prints a table and one line of JSON.

loader.py BUILD [--rounds N] [--seconds S]

60000 images of 28 x 28 bytes in memory, shuffled, normalised, batches of 64; nothing else is done with them. torch is used in
two ways: as people use it (a dataset of samples), and at its best (whole batches indexed by hand). Each run is a process of
its own; medians are compared.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
N, BATCH, GOAL = 60000, 64, 10


def torch_side(way, workers, seconds):
    import torch
    from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler
    torch.set_num_threads(max(workers, 1))
    images = torch.randint(0, 256, (N, 28, 28), dtype=torch.uint8)
    labels = torch.randint(0, 10, (N,))

    class Samples(Dataset):
        def __len__(self):
            return N

        def __getitem__(self, i):
            return images[i].unsqueeze(0).float().div_(255).sub_(0.1307).div_(0.3081), labels[i]

    class Batches(Samples):
        def __getitem__(self, i):
            return images[i].unsqueeze(1).float().div_(255).sub_(0.1307).div_(0.3081), labels[i]

    options = {'num_workers': workers, 'persistent_workers': workers > 0}
    if way == 'samples':
        loader = DataLoader(Samples(), batch_size=BATCH, shuffle=True, **options)
    else:
        loader = DataLoader(Batches(), sampler=BatchSampler(RandomSampler(range(N)), BATCH, False), batch_size=None, **options)
    batches = iter(loader)
    next(batches)
    n, total, begin = 0, 0.0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        try:
            x, _ = next(batches)
        except StopIteration:
            batches = iter(loader)
            continue
        total += x[0, 0, 0, 0].item()
        n += x.shape[0]
    print(json.dumps({'workers': workers, 'samples_per_s': n / (time.perf_counter() - begin), 'sum': total}), flush=True)


def run(command):
    out = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if out.returncode:
        sys.exit(f'{" ".join(command)} failed:\n{out.stdout}{out.stderr}')
    return json.loads(out.stdout)['samples_per_s']


def compare(build, workers, rounds, seconds):
    def torch(way):
        return [sys.executable, __file__, '--torch', way, str(workers), str(seconds)]
    sides = {'det': [f'{build}/bench-loader', str(workers), str(seconds)], 'samples': torch('samples'), 'batches': torch('batches')}
    rates = {name: [] for name in sides}
    for _ in range(rounds):
        for name, command in sides.items():
            rates[name].append(run(command))
    return {'workers': workers, **{name: statistics.median(r) for name, r in rates.items()}}


def main():
    if sys.argv[1:2] == ['--torch']:
        return torch_side(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('build')
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--seconds', type=float, default=1)
    a = p.parse_args()
    results = []
    print(f'{"workers":>7s} {"det/s":>12s} {"torch/s":>12s} {"ratio":>8s} {"by hand/s":>12s} {"ratio":>8s} {"goal":>6s}')
    for workers in (0, 1, 2):
        r = compare(a.build, workers, a.rounds, a.seconds)
        results.append(r)
        print(f'{workers:7d} {r["det"]:12.0f} {r["samples"]:12.0f} {r["det"] / r["samples"]:7.1f}x {r["batches"]:12.0f} '
              f'{r["det"] / r["batches"]:7.1f}x {GOAL:5d}x', flush=True)
    commit = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True, cwd=HERE).stdout.strip()
    print(json.dumps({'bench': 'loader', 'commit': commit, 'results': results}))


main()

#!/usr/bin/env python3
"""Trains the same networks with det and with torch, in turn, and prints a table and one line of JSON.

compare.py BUILD [--rounds N] [--seconds S] [--threads T] [--record] [WORKLOAD ...]

torch runs at its best: several settings (allocator, BLAS kernels, memory format) are tried first and the fastest of those
with which it runs is kept for the comparison. Both sides then run alternately in processes of their own. The ratio is the
median of the rounds' ratios, because a machine's speed changes from minute to minute for both; their lowest and highest are
shown behind it. "start" is what the first step of a process takes longer than the others, from before the program is
loaded. Where torch needs half a minute or more (bf16 on processors without instructions for it), it runs once, at its
first setting.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import history

HERE = Path(__file__).resolve().parent
# name, bf16, ratio to reach
ROWS = [('mnist', False, 3.5), ('onevar', False, 200), ('mlp', False, 2), ('vgg', False, 2.5), ('gpt', False, 1.5),
        ('lstm', False, 2), ('mlp', True, 1.3), ('gpt', True, 1.3), ('lstm', True, 1.3)]
IMAGES = ('mnist', 'vgg', 'resnet')
PATIENCE_S = 30


def try_to_run(command, env):
    """One process; its line of JSON, or None and why not."""
    full = {**os.environ, **env, 'BENCH_START': str(time.monotonic_ns())}
    out = subprocess.run(command, env=full, capture_output=True, text=True, timeout=600)
    if out.returncode:
        return None, f'{" ".join(command)} failed with {out.returncode}:\n{out.stdout}{out.stderr}'
    return json.loads(out.stdout.strip().splitlines()[-1]), ''


def run(command, env):
    result, failure = try_to_run(command, env)
    return result or sys.exit(failure)


def torch_settings(workload, threads, bf16):
    """Environments and options under which torch might be fastest, or run at all."""
    base = {'OMP_NUM_THREADS': str(threads), 'OPENBLAS_NUM_THREADS': str(threads)}
    jemalloc = {'LD_PRELOAD': p for p in glob.glob('/usr/lib/*/libjemalloc.so.2')}
    settings = {'stock': ({}, []), 'threads': (base, []), 'jemalloc': ({**base, **jemalloc}, [])}
    if 'avx512f' in Path('/proc/cpuinfo').read_text():
        # OpenBLAS does not know processors newer than itself and falls back to its oldest kernels.
        settings['skylakex'] = ({**base, **jemalloc, 'OPENBLAS_CORETYPE': 'SkylakeX'}, [])
        settings['skylakex avx512'] = ({**base, **jemalloc, 'OPENBLAS_CORETYPE': 'SkylakeX', 'ATEN_CPU_CAPABILITY': 'avx512'}, [])
    if bf16 and 'amx_bf16' in Path('/proc/cpuinfo').read_text():
        # The oneDNN of torch 1.13 crashes where it uses AMX (tiles that are not set up).
        for name, (env, options) in list(settings.items()):
            settings[name + ' no amx'] = ({**env, 'ONEDNN_MAX_CPU_ISA': 'AVX512_CORE_BF16'}, options)
    if workload in IMAGES:
        for name, (env, _) in list(settings.items()):
            settings[name + ' channels_last'] = (env, ['channels_last'])
    return settings


def torch_command(workload, threads, seconds, bf16, options):
    return ['/usr/bin/python3', str(HERE / 'engine.py'), workload, str(threads), str(seconds), *(['bf16'] if bf16 else []), *options]


def best_setting(workload, threads, bf16):
    """The fastest setting, and what it measured if that took so long that it shall not be repeated."""
    settings, best, failures = torch_settings(workload, threads, bf16), None, []
    for name, (env, options) in settings.items():
        start = time.monotonic()
        r, failure = try_to_run(torch_command(workload, threads, 0.6, bf16, options), env)
        if not r:
            failures.append(failure)
            continue
        if best is None or r['samples_per_s'] > best[0]:
            best = (r['samples_per_s'], name)
        if time.monotonic() - start > PATIENCE_S:
            return name, settings[name], [r]
    if best is None:
        sys.exit('\n'.join(failures))
    return best[1], settings[best[1]], []


def compare(build, workload, bf16, threads, rounds, seconds):
    name, (env, options), once = best_setting(workload, threads, bf16)
    ours, theirs = [], once

    def det(for_seconds):
        return run([f'{build}/bench-engine', workload, str(threads), str(for_seconds), *(['bf16'] if bf16 else [])], {})
    for _ in range(rounds):
        if not once:
            theirs.append(run(torch_command(workload, threads, seconds, bf16, options), env))
        ours.append(det(seconds))
    first = [det(0)['first_step_ms'] for _ in range(rounds)]

    def median(side, key):
        return statistics.median(r[key] for r in side)
    ratios = [a['samples_per_s'] / b['samples_per_s'] for a, b in zip(ours, theirs * rounds if once else theirs)]
    return {'workload': workload, 'bf16': bf16, 'torch_setting': name,
            'det': median(ours, 'samples_per_s'), 'torch': median(theirs, 'samples_per_s'),
            'ratio': statistics.median(ratios), 'lowest': min(ratios), 'highest': max(ratios),
            'det_mb': median(ours, 'rss_mb'), 'torch_mb': median(theirs, 'rss_mb'),
            'first_step_ms': statistics.median(first),
            'start_ms': max(0, statistics.median(first) - median(ours, 'step_ms'))}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('build')
    p.add_argument('workloads', nargs='*')
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--seconds', type=float, default=1.5)
    p.add_argument('--threads', type=int, default=2)
    p.add_argument('--record', action='store_true', help='append the ratios to history.csv')
    a = p.parse_intermixed_args()
    results = []
    print(f'{"workload":14s} {"det/s":>12s} {"torch/s":>12s} {"ratio":>8s} {"rounds":>13s} {"goal":>6s} {"det MB":>7s} {"torch MB":>8s} '
          f'{"start":>9s} {"1st step":>9s}  torch at its best')
    for workload, bf16, goal in ROWS + [('resnet', False, 2)]:
        row = workload + ('-bf16' if bf16 else '')
        if a.workloads and row not in a.workloads or not a.workloads and workload == 'resnet':
            continue
        r = compare(a.build, workload, bf16, a.threads, a.rounds, a.seconds)
        results.append(r)
        spread = f'{r["lowest"]:.2f} .. {r["highest"]:.2f}'
        print(f'{row:14s} {r["det"]:12.1f} {r["torch"]:12.1f} {r["ratio"]:7.2f}x {spread:>13s} '
              f'{goal:5g}x {r["det_mb"]:7.0f} {r["torch_mb"]:8.0f} {r["start_ms"]:6.1f} ms {r["first_step_ms"]:6.1f} ms  {r["torch_setting"]}', flush=True)
    if a.record:
        history.record({f'ratio {r["workload"]}{"-bf16" * r["bf16"]}': r['ratio'] for r in results})
    print(json.dumps({'bench': 'engine', 'commit': history.commit(), 'cpu': history.processor(), 'threads': a.threads, 'results': results}))


main()

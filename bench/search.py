#!/usr/bin/python3
"""Searches: how they scale, and how good and how cheap they are beside Optuna's (python3-optuna).

search.py BUILD [--trials N]

quality   medians of the best value found in N trials over 20 seeds, on ten test functions, one trial at a time
overhead  processor time per trial, without the trial: ours with a snapshot after every event, Optuna's with SQLite
scale     processor time per event of simulated adaptive_asha searches
curves    units that adaptive_asha needs to reach the best of a random search of 64 trials, on recorded curves
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from math import cos, exp, pi, sin, sqrt
from pathlib import Path

for variable in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS'):  # before NumPy is loaded
    os.environ[variable] = '1'
import optuna  # noqa: E402

HERE = Path(__file__).resolve().parent
SEEDS = 20


def shifted(x):
    return [v - 0.37 - 0.11 * (i % 3) for i, v in enumerate(x)]


def sphere(x):
    return sum(v * v for v in shifted(x))


def rosenbrock(x):
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:]))


def rastrigin(x):
    return sum(10 + v * v - 10 * cos(2 * pi * v) for v in shifted(x))


def ackley(x):
    y, n = shifted(x), len(x)
    return 20 + exp(1) - 20 * exp(-0.2 * sqrt(sum(v * v for v in y) / n)) - exp(sum(cos(2 * pi * v) for v in y) / n)


def griewank(x):
    y = [60 * v for v in shifted(x)]
    return 1 + sum(v * v for v in y) / 4000 - math.prod(cos(v / sqrt(i + 1)) for i, v in enumerate(y))


def levy(x):
    w = [1 + (v - 1) / 4 for v in x]
    middle = sum((v - 1) ** 2 * (1 + 10 * sin(pi * v + 1) ** 2) for v in w[:-1])
    return sin(pi * w[0]) ** 2 + middle + (w[-1] - 1) ** 2 * (1 + sin(2 * pi * w[-1]) ** 2)


def styblinski(x):
    return sum(39.16616570377142 + (v ** 4 - 16 * v * v + 5 * v) / 2 for v in x)


def branin(x):
    a, b = x[0] * 15 - 5, x[1] * 15
    return (b - 5.1 / (4 * pi * pi) * a * a + 5 / pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * pi)) * cos(a) + 10 - 0.39788735772973816


def hartmann(x):
    scale = [[10, 3, 17, 3.5, 1.7, 8], [.05, 10, 17, .1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, .05, 10, .1, 14]]
    place = [[.1312, .1696, .5569, .0124, .8283, .5886], [.2329, .4135, .8307, .3736, .1004, .9991],
             [.2348, .1451, .3522, .2883, .3047, .6650], [.4047, .8828, .8732, .5743, .1091, .0381]]
    return 3.32236801141551 - sum(c * exp(-sum(a * (v - p) ** 2 for a, v, p in zip(row, x, spot)))
                                  for c, row, spot in zip([1, 1.2, 3, 3.2], scale, place))


def camel(x):
    a, b = x
    return (4 - 2.1 * a * a + a ** 4 / 3) * a * a + a * b + (-4 + 4 * b * b) * b * b + 1.0316284534898774


SAMPLERS = {'tpe': optuna.samplers.TPESampler, 'cmaes': optuna.samplers.CmaEsSampler}


def ours(program, *arguments):
    out = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    return [json.loads(line) for line in out.stdout.splitlines()]


def objective(f):
    value = globals()[f['function']]
    return lambda trial: value([trial.suggest_float(f'x{i}', f['low'], f['high']) for i in range(f['n'])])


def check(functions):
    for f in functions:
        value = globals()[f['function']]([0.1, 0.7, 0.3, 0.9, 0.4, 0.6][:f['n']])
        assert math.isclose(value, f['value'], rel_tol=1e-9, abs_tol=1e-9), f


def optuna_best(f, sampler, seed, trials):
    study = optuna.create_study(sampler=SAMPLERS[sampler](seed=seed))
    study.optimize(objective(f), n_trials=trials)
    return study.best_value


def quality(program, functions, sampler, trials):
    print(f'\nquality, {sampler}: median of the best after {trials} trials, {SEEDS} seeds')
    print(f'{"":12}{"random":>12}{"det":>12}{"optuna":>12}')
    wins = 0
    random = {r['function']: r for r in ours(program, 'quality', 'random', trials)}
    for f, r in zip(functions, ours(program, 'quality', sampler, trials)):
        theirs = statistics.median(optuna_best(f, sampler, seed, trials) for seed in range(SEEDS))
        mine, chance = statistics.median(r['best']), statistics.median(random[f['function']]['best'])
        wins += mine <= theirs
        print(f'{f["function"]:12}{chance:12.4g}{mine:12.4g}{theirs:12.4g}', flush=True)
    print(f'det is at least as good on {wins} of {len(functions)}')
    return wins


def overhead(program, functions, sampler, trials):
    mine = ours(program, 'overhead', sampler, trials)[0]['us_per_trial']
    with tempfile.TemporaryDirectory() as folder:
        study = optuna.create_study(storage=f'sqlite:///{folder}/study.db', sampler=SAMPLERS[sampler](seed=1))
        start = time.process_time()
        study.optimize(objective(functions[0]), n_trials=trials)
        theirs = (time.process_time() - start) * 1e6 / trials
    print(f'overhead, {sampler}, {trials} trials: det {mine:.0f} us, optuna {theirs:.0f} us per trial, {theirs / mine:.0f} times')
    return theirs / mine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build')
    parser.add_argument('--trials', type=int, default=100)
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    program = Path(args.build) / 'bench-search'
    functions = ours(program, 'functions')
    check(functions)
    result = {'bench': 'search', 'trials': args.trials, 'scale': ours(program, 'scale')}
    for row in result['scale']:
        print(f'scale: {row["trials"]:7} trials, {row["events"]:7} events, {row["seconds"]:7.3f} s, {row["us_per_event"]:6.3f} us per event')
    result['curves'] = ours(program, 'curves', HERE / 'data/mlp_curves.jsonl')[0]
    print(f'curves: adaptive_asha reaches the best of random search with {result["curves"]["median_part"]:.3f} of its units (median)')
    for sampler in SAMPLERS:
        result[f'{sampler}_overhead_ratio'] = round(overhead(program, functions, sampler, args.trials), 1)
    for sampler in SAMPLERS:
        result[f'{sampler}_wins'] = quality(program, functions, sampler, args.trials)
    print(json.dumps(result))


main()

#!/usr/bin/env python3
"""Counts the instructions of a training step by callgrind. Machine load does not matter. Needs valgrind.

instructions.py [--record | --check] BUILD... [--only MEASURE...]

Two lengths give the cost of a step without start and end. Several builds are compared with the first one. --record appends the counts
to history.csv; --check compares with the newest ones there, and fails if a step costs more than 1 % more.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import history

MAKE_MNIST = Path(__file__).resolve().parent.parent / 'tests/support/make-mnist.py'
ALLOWED = 1.01
# measure: program, its arguments for a number of steps, two numbers of steps. The first two go through the training loop.
ROWS = {
    'loop onevar': ('bench-loop', lambda n, config: ['onevar', n, config], (200, 1200)),
    'loop mnist': ('bench-loop', lambda n, config: ['mnist', n, config], (10, 40)),
    'mlp': ('bench-engine', lambda n, _: ['mlp', '1', f'{n}steps'], (2, 6)),
    'lstm': ('bench-engine', lambda n, _: ['lstm', '1', f'{n}steps'], (1, 2)),
    'vgg': ('bench-engine', lambda n, _: ['vgg', '1', f'{n}steps'], (1, 2)),
    'gpt': ('bench-engine', lambda n, _: ['gpt', '1', f'{n}steps'], (1, 2)),
}


def count(build, row, steps, config):
    program, arguments, _ = ROWS[row]
    command = ['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', f'{build}/{program}', *map(str, arguments(steps, config))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f'{" ".join(command)}: {done.stderr.strip()}')
    return int(re.search(r'Collected : (\d+)', done.stderr).group(1))


def step_cost(build, row, config):
    short, long = ROWS[row][2]
    return (count(build, row, long, config) - count(build, row, short, config)) / (long - short)


def is_fine(row, cost):
    """Prints how it compares with the last one."""
    before = history.last(f'instructions {row}')
    if not before:
        print(f'{row:12} nothing to compare with: history.csv has no row of this compiler')
        return True
    ratio = cost / float(before['value'])
    print(f'{row:12} {100 * (ratio - 1):+.2f} % since {before["date"]} ({before["commit"]})', flush=True)
    return ratio <= ALLOWED


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('build', nargs='+')
    p.add_argument('--record', action='store_true')
    p.add_argument('--check', action='store_true')
    p.add_argument('--only', nargs='+', choices=ROWS, default=list(ROWS))
    a = p.parse_args()
    costs, fine = {}, True
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, MAKE_MNIST, f'{folder}/mnist', '2560', '64'], check=True)
        config = f'{folder}/job.yaml'
        Path(config).write_text(f'entrypoint: none\ndata:\n  dir: {folder}/mnist\n')
        for row in a.only:
            for build in a.build:
                cost = step_cost(build, row, config)
                costs.setdefault(row, cost)
                print(f'{row:12} {cost:14,.0f} instructions per step  {100 * (cost / costs[row] - 1):+.2f} %  {build}', flush=True)
            fine = (not a.check or is_fine(row, costs[row])) and fine
    if a.record:
        history.record({f'instructions {row}': cost for row, cost in costs.items()})
    sys.exit(not fine)


main()

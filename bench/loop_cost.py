#!/usr/bin/env python3
"""loop_cost.py BENCH_LOOP...: instructions of a training step, by callgrind; several programs are compared with the first.

Two lengths give the cost of a batch without start and end. Needs valgrind; machine load does not matter.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MAKE_MNIST = Path(__file__).resolve().parent.parent / 'tests/support/make-mnist.py'
LENGTHS = {'onevar': (200, 1200), 'mnist': (10, 40)}


def instructions(program, workload, batches, config):
    command = ['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', program, workload, str(batches), config]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f'{program}: {done.stderr.strip()}')
    return int(re.search(r'Collected : (\d+)', done.stderr).group(1))


def step_cost(program, workload, config):
    short, long = LENGTHS[workload]
    spent = instructions(program, workload, long, config) - instructions(program, workload, short, config)
    return spent / (long - short)


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, MAKE_MNIST, f'{folder}/mnist', '2560', '64'], check=True)
    config = f'{folder}/job.yaml'
    Path(config).write_text(f'entrypoint: none\ndata:\n  dir: {folder}/mnist\n')
    for workload in LENGTHS:
        base = None
        for program in sys.argv[1:]:
            cost = step_cost(program, workload, config)
            base = base or cost
            print(f'{workload:8} {cost:14,.0f} instructions per batch  {100 * (cost / base - 1):+.2f} %  {program}', flush=True)

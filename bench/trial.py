#!/usr/bin/env python3
"""What a trial costs: its loop against one written by hand, and the peak memory of the MNIST example under det-run.

trial.py BUILD [--rounds N] [--batches N]     prints a table and one line of JSON; scripts/fetch-mnist gets the data
"""
import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RATIO_GOAL, MEMORY_GOAL_MB = 1.03, 120


def overhead(build, digits, rounds, batches):
    out = subprocess.run([build / 'bench-trial', digits, str(rounds), str(batches)], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def peak_mb(build, digits, batches):
    with tempfile.TemporaryDirectory() as tmp:
        config = Path(tmp) / 'const.yaml'
        config.write_text((ROOT / 'examples/mnist/const.yaml').read_text() + f'\ndata: {{dir: {digits}}}\n')
        command = [build / 'det-run', ROOT / 'examples/mnist/model_def:MNistTrial', '--config', config, '-d', f'{tmp}/checkpoints']
        env = {**os.environ, 'XDG_CACHE_HOME': tmp}
        subprocess.run([*command, '--test-mode'], env=env, check=True, capture_output=True)  # compiles: not what is measured
        measure = 'import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); ' \
                  'print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)'
        out = subprocess.run(['python3', '-c', measure, *command, '-b', str(batches)], env=env, check=True,
                             capture_output=True, text=True)
        return int(out.stdout) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('build', type=Path)
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--batches', type=int, default=200)
    args = parser.parse_args()
    digits = subprocess.run([ROOT / 'scripts/fetch-mnist'], check=True, capture_output=True, text=True).stdout.strip()
    row = overhead(args.build.resolve(), digits, args.rounds, args.batches)
    row['peak_mb'] = round(peak_mb(args.build.resolve(), digits, args.batches), 1)
    print(f'by hand   {row["bare_us"]:9.1f} us/batch')
    print(f'as trial  {row["trial_us"]:9.1f} us/batch   ratio {row["ratio"]:.4f}, goal {RATIO_GOAL}')
    print(f'memory    {row["peak_mb"]:9.1f} MB under det-run, goal {MEMORY_GOAL_MB}')
    print(json.dumps(row))


if __name__ == '__main__':
    main()

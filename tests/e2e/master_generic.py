#!/usr/bin/env python3
"""The examples of the Generic API, in C, shell and plain Python, as experiments of a real master."""
import os
import sys

HERE = os.path.realpath(os.path.dirname(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'support'))
from master import Failure, Master, expect, run_tests  # noqa: E402

ROOT = os.path.realpath(os.path.join(HERE, '..', '..'))


def example(name):
    with open(os.path.join(ROOT, 'examples', 'generic', name)) as f:
        return f.read()


def test_examples_run_as_experiments(det):
    build = os.path.dirname(det)
    with Master(det, '--slots', '2') as m:
        for language, file in (('c', 'train.c'), ('shell', 'train.sh'), ('python', 'train.py')):
            config = example(language + '.yaml').replace(
                '-ldet', f'-I{ROOT}/include {build}/libdet.so -Wl,-rpath,{build}')
            e = m.create(config, {file: example(file)})
            row = m.wait_experiment(e, 'STATE_COMPLETED')
            expect('trials', row['numTrials'], 4)
            for t in m.trials(e):
                expect('state', t['state'], 'STATE_COMPLETED')
                summary = m.get(f'trials/{t["id"]}')['summaryMetrics']
                expect('reports', summary['training']['loss']['count'] >= 5, True)
                expect('it learns', summary['validation']['loss']['last'] < summary['validation']['loss']['max'], True)
                found = m.get(f'trials/{t["id"]}/checkpoints?states=STATE_COMPLETED')['checkpoints']
                expect('checkpoints', len(found) >= 1, True)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')

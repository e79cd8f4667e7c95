"""history.csv: what was measured, a row each: date, commit, compiler, processor, measure, value. Ratios are det / its peer: larger is
better. Instructions are those of one step with the kernels for AVX2: smaller is better, and the load of the machine does not matter."""
import csv
import datetime
import platform
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILE = HERE / 'history.csv'
COLUMNS = ['date', 'commit', 'compiler', 'processor', 'measure', 'value']


def said_by(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=HERE).stdout.strip()


def processor():
    lines = Path('/proc/cpuinfo').read_text().splitlines()
    return next((line.split(':')[1].strip() for line in lines if line.startswith('model name')), platform.machine())


def compiler():
    return said_by('cc', '--version').split('\n')[0]


def commit():
    changed = said_by('git', 'status', '--porcelain', '--untracked-files=no', '--', '../src', '../include', '../cmake')
    return said_by('git', 'rev-parse', '--short', 'HEAD') + ('+' if changed else '')  # +: and what is not committed


def read():
    with open(FILE, newline='') as f:
        return list(csv.DictReader(f))


def record(measures):
    """measures: {name: value}."""
    rows = [{'date': datetime.date.today().isoformat(), 'commit': commit(), 'compiler': compiler(), 'processor': processor(),
             'measure': name, 'value': f'{value:.6g}' if value < 1000 else f'{value:.0f}'} for name, value in measures.items()]
    with open(FILE, 'a', newline='') as f:
        csv.DictWriter(f, COLUMNS, lineterminator='\n').writerows(rows)


def last(measure):
    """The newest row of a measure that can be compared with one of today: the same compiler. None if there is none."""
    same = [row for row in read() if row['measure'] == measure and row['compiler'] == compiler()]
    return same[-1] if same else None

#!/usr/bin/env python3
"""kill.py DET_RUN KILLS [all | SLOTS]: a run that is killed at any instant and resumed ends with the same weights.

For each of several trials (all: every net, optimizer, precision and aggregation) one run is left alone. Another one
is killed (SIGKILL) at random instants and resumed, now and then after its newest checkpoint was damaged as well.
On several slots one of the ranks is killed, or the process that has started them.
Both must end with the same state-dict.pth, byte by byte, and the same last validation.
"""
import contextlib
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = Path(__file__).resolve().parent.parent / 'models' / 'small'
BATCHES = 120
CONFIG = '''
hyperparameters: {{global_batch_size: 16, net: {net}, optimizer: {optimizer}, lr: 0.003}}
searcher: {{name: single, metric: loss, max_length: {{batches: {batches}}}}}
min_checkpoint_period: {{batches: 7}}
min_validation_period: {{batches: 25}}
scheduling_unit: 20
optimizations: {{mixed_precision: {precision}, aggregation_frequency: {aggregation}}}
'''


class Run:
    """Runs of one trial in one folder."""

    def __init__(self, program, folder, config, slots):
        self.program, self.folder, self.slots = program, folder, slots
        folder.mkdir()
        (folder / 'config.yaml').write_text(config)

    def start(self):
        command = [self.program, f'{MODEL}:Small', '--config', 'config.yaml', '--seed', '7', '--resume',
                   '--checkpoint-dir', 'checkpoints', '--metrics', 'metrics.jsonl', '--slots', str(self.slots)]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self):
        child = self.start()
        output, _ = child.communicate(timeout=120)
        if child.returncode:
            sys.exit(f'det-run failed with {child.returncode} in {self.folder}:\n{output}')
        return output

    def checkpoints(self):
        """Whole or not, oldest first."""
        found = [p.parent for p in self.folder.glob('checkpoints/*/manifest.json') if not p.parent.is_symlink()]
        return sorted(found, key=lambda p: json.loads((p / 'manifest.json').read_text())['saved_us'])

    def unfinished(self):
        return list(self.folder.glob('checkpoints/.tmp-*'))

    def damage_newest(self, rng):
        """Flips one bit of the newest checkpoint."""
        path = self.checkpoints()[-1] / 'state-dict.pth'
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)

    def result(self):
        newest = self.checkpoints()[-1]
        steps = json.loads((newest / 'metadata.json').read_text())['steps_completed']
        weights = hashlib.sha256((newest / 'state-dict.pth').read_bytes()).hexdigest()
        lines = [json.loads(line) for line in (self.folder / 'metrics.jsonl').read_text().splitlines()]
        validations = [line['metrics'] for line in lines if line['kind'] == 'validation']
        return steps, weights, validations[-1]


def processes_of(child):
    """The process itself and its ranks; the compiler is none of them."""
    started = Path(f'/proc/{child.pid}/task/{child.pid}/children').read_text().split()
    return [child.pid] + [int(pid) for pid in started if Path(f'/proc/{pid}/comm').read_text() == 'det-run\n']


def signal_all(child, which):
    with contextlib.suppress(OSError):  # it has ended
        for pid in processes_of(child):
            os.kill(pid, which)


def has_stopped(pid):
    return Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] in 'TZ'


def stopped_in_write(run, child):
    """Stops all of it, so that what is seen is what it dies with; lets it go on unless a checkpoint is being written."""
    if not run.unfinished():
        return False
    signal_all(child, signal.SIGSTOP)
    with contextlib.suppress(OSError):
        while not all(map(has_stopped, processes_of(child))):
            time.sleep(0.0005)
    if run.unfinished():
        return True
    signal_all(child, signal.SIGCONT)
    return False


def kill_one(child, victim):
    """The process itself (0) or one of its ranks; the others see what they make of that."""
    with contextlib.suppress(OSError):
        processes = processes_of(child)
        os.kill(processes[victim % len(processes)], signal.SIGKILL)
        for pid in processes:
            os.kill(pid, signal.SIGCONT)


def kill_at(run, instant, in_write, victim):
    """Starts, waits and kills, perhaps in the middle of the next write. False if it finished before."""
    child = run.start()
    end = time.monotonic() + instant
    while child.poll() is None and (time.monotonic() < end or in_write and not stopped_in_write(run, child)):
        time.sleep(0.0005)
    kill_one(child, victim)
    output, _ = child.communicate()
    # The compiler is called det-run, too, at the very beginning.
    if child.returncode > 0 and child.returncode != 128 + signal.SIGKILL and 'the compiler was killed by signal 9' not in output:
        sys.exit(f'det-run failed with {child.returncode} in {run.folder}:\n{output}')
    return child.returncode != 0


class Count:
    kills = in_writes = damages = finished = 0


def torture(alone, killed, seconds, kills, rng, count):
    """Kills one trial so many times, whenever it finishes from the beginning again, and compares."""
    while kills:
        victim = rng.randrange(killed.slots + 1) if killed.slots > 1 else 0
        if not kill_at(killed, rng.uniform(0, 0.8 * seconds), rng.random() < 0.5, victim):
            compare(alone, killed, count)
            shutil.rmtree(killed.folder / 'checkpoints')
            continue
        kills -= 1
        count.kills += 1
        count.in_writes += bool(killed.unfinished())
        if len(killed.checkpoints()) > 1 and rng.random() < 0.2:
            killed.damage_newest(rng)
            count.damages += 1
    killed.finish()
    compare(alone, killed, count)


def compare(alone, killed, count):
    wanted, got = alone.result(), killed.result()
    if wanted != got:
        sys.exit(f'{killed.folder}: {got} instead of {wanted}')
    if killed.unfinished():
        sys.exit(f'{killed.folder}: unfinished checkpoints were left')
    count.finished += 1


def main():
    program, kills = os.path.realpath(sys.argv[1]), int(sys.argv[2])
    cases = list(itertools.product(['mlp', 'cnn', 'rnn', 'transformer'], ['sgd', 'adam'], ['O0', 'O1'], [1, 3]))
    slots = 1 if sys.argv[3:] in ([], ['all']) else int(sys.argv[3])
    if sys.argv[3:] != ['all']:
        cases = [('cnn', 'adam', 'O0', 3), ('transformer', 'sgd', 'O1', 1)]
    rng, count = random.Random(1), Count()
    top = Path(tempfile.mkdtemp(prefix='det-kill-'))
    for i, (net, optimizer, precision, aggregation) in enumerate(cases):
        name = f'{net}-{optimizer}-{precision}-{aggregation}'
        config = CONFIG.format(net=net, optimizer=optimizer, precision=precision, aggregation=aggregation,
                               batches=BATCHES)
        alone = Run(program, top / f'{name}-alone', config, slots)
        killed = Run(program, top / name, config, slots)
        alone.finish()  # compiles, too
        shutil.rmtree(alone.folder / 'checkpoints')
        start = time.monotonic()
        alone.finish()
        torture(alone, killed, time.monotonic() - start, (kills + i) // len(cases), rng, count)
    shutil.rmtree(top)
    print(f'kill: {len(cases)} trials, {count.kills} kills ({count.in_writes} of them while a checkpoint was being '
          f'written), {count.damages} damaged checkpoints, {count.finished} identical results')
    if not count.in_writes:
        sys.exit('kill: no kill was inside the writing of a checkpoint')


main()

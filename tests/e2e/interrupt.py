#!/usr/bin/env python3
"""interrupt.py DET_RUN: signals and terminals, in a folder with model_def.c and const.yaml."""
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

det_run = sys.argv[1]


def command(folder):
    return [det_run, 'model_def', '--config', 'const.yaml', '--batches', '100000000', '--checkpoint-dir', folder]


def wait_for(stream, text):
    seen = ''
    while text not in seen:
        piece = stream.readline()
        assert piece, f'ended before {text!r}: {seen}'
        seen += piece


def checkpoints(folder):
    return list(Path(folder).glob('*/manifest.json'))


def test_once():
    for number in (signal.SIGINT, signal.SIGTERM):
        folder = f'once-{number.value}'
        child = subprocess.Popen(command(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for(child.stdout, 'batch ')
        before = len(checkpoints(folder))
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
        assert child.returncode == 128 + number.value, child.returncode
        assert 'stopping after this batch, with a checkpoint' in err, err
        assert 'stopped after ' in out, out
        assert len(checkpoints(folder)) > before


def test_twice():
    # The trial is asleep in its batch, so that only the second signal can end it.
    env = dict(os.environ, SMALL_SLEEP='1')
    child = subprocess.Popen(command('twice'), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    wait_for(child.stderr, 'asleep')
    child.send_signal(signal.SIGINT)
    wait_for(child.stderr, 'once more to stop at once')
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == -signal.SIGINT, child.returncode
    assert not checkpoints('twice')


def test_bar():
    master, slave = pty.openpty()
    child = subprocess.Popen([det_run, 'model_def', '--config', 'const.yaml', '-d', 'bar'], stdout=slave)
    os.close(slave)
    seen = b''
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        seen += piece
    assert child.wait(timeout=60) == 0
    lines = seen.decode().split('\r')
    bars = [line for line in lines if line.startswith('[')]
    assert bars and all(']' in bar and '%' in bar for bar in bars), seen
    assert all(len(bar.replace('\x1b[K', '')) < 80 for bar in bars), bars
    assert b'finished after 40 batches' in seen, seen


test_once()
test_twice()
test_bar()

#!/usr/bin/env python3
"""The same training in Python, with nothing but its standard library. See docs/protocol.md.

    det experiment create python.yaml .
"""
import json
import os
import ssl
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

TRIAL, RUN = os.environ['DET_TRIAL_ID'], int(os.environ['DET_TRIAL_RUN_ID'])
ALLOCATION = os.environ['DET_ALLOCATION_ID']
STORAGE = Path(os.environ['DET_CHECKPOINT_STORAGE'])
HPARAMS = json.loads(os.environ['DET_HPARAMS'])
TLS = ssl.create_default_context(cafile=os.environ.get('DET_MASTER_CERT_FILE'))  # if the master has https
TLS.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the file is the master's certificate, whoever signed it


def call(method, path, body=None):
    """Calls the master, again and again while it is away; the key makes that count once."""
    request = urllib.request.Request(
        f"{os.environ['DET_MASTER']}/api/v1/{path}", method=method, data=body and json.dumps(body).encode(),
        headers={'Authorization': f"Bearer {os.environ['DET_SESSION_TOKEN']}", 'Content-Type': 'application/json',
                 'Idempotency-Key': str(uuid.uuid4())})
    for delay in (0.1, 0.5, 1, 5, 10, 30, None):
        try:
            with urllib.request.urlopen(request, timeout=90, context=TLS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            if e.code < 500 and e.code != 429 or delay is None:
                raise SystemExit(f'{method} {path}: {e.code} {e.read().decode()}')
        except OSError:
            if delay is None:
                raise
        time.sleep(delay)


def report(group, batches, loss):
    call('POST', f'trials/{TRIAL}/metrics', {'trialRunId': RUN, 'reports': [
        {'group': group, 'stepsCompleted': batches, 'metrics': {'loss': loss}}]})


def save(state):
    """A checkpoint is a folder that appears under its name when it is complete."""
    name, text = str(uuid.uuid4()), json.dumps(state)
    temp = STORAGE / f'.tmp-{name}'
    temp.mkdir(parents=True)
    with open(temp / 'state.json', 'w') as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    temp.rename(STORAGE / name)
    call('POST', 'checkpoints', {'uuid': name, 'trialRunId': RUN, 'stepsCompleted': state['batches'],
                                 'resources': {'state.json': len(text)}, 'metadata': {}})


def train_epoch(state):
    losses = []
    for _ in range(64):
        losses.append((state['weight'] - 1) ** 2)
        state['weight'] -= HPARAMS.get('learning_rate', 0.001) * 2 * (state['weight'] - 1)
    state['epoch'] += 1
    state['batches'] += len(losses)
    return sum(losses) / len(losses)


def should_stop():
    return call('GET', f'allocations/{ALLOCATION}/signals/preemption?timeout_seconds=0')['preempt']


def main():
    state = {'weight': 0.0, 'epoch': 0, 'batches': 0}
    latest = os.environ.get('DET_LATEST_CHECKPOINT')
    if latest:
        state = json.loads((STORAGE / latest / 'state.json').read_text())
    call('POST', f'allocations/{ALLOCATION}/ready', {})
    while not (operation := call('GET', f'trials/{TRIAL}/searcher/operation'))['completed']:
        length = operation['op']['validateAfter']['length']
        while state['epoch'] < length:
            if should_stop():
                return
            loss = train_epoch(state)
            report('training', state['batches'], loss)
            report('validation', state['batches'], (state['weight'] - 1) ** 2)
            call('POST', f'trials/{TRIAL}/progress', {'progress': state['epoch']})
            save(state)
            print(f"epoch {state['epoch']}: loss {loss:g}", flush=True)
        call('POST', f'trials/{TRIAL}/searcher/completed_operation',
             {'op': {'length': length}, 'searcherMetric': (state['weight'] - 1) ** 2})


main()
call('POST', f'allocations/{ALLOCATION}/signals/ack_preemption', {})  # there may be more to do later

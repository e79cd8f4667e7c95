// Programs and configurations that tests train with.

// Trains at its own pace: a report a batch, a validation every tenth, a checkpoint at the end and when it is asked to stop.
// A file "go" beside the checkpoints lets it go on when pace is 'stepwise': as many batches as the file says.
export const TRAIN = `
from task import *
import math, os, random, time
ready()
random.seed(int(trial))
lr, drop = hparams.get('learning_rate', 0.01), hparams.get('dropout', 0.3)
base = 0.02 + 0.05 * abs(math.log10(lr) + 2) + 0.05 * abs(drop - 0.4)
pace, gate = hparams.get('pace', 0.0), os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], 'go')
def allowed():
    try: return int(open(gate).read() or 0)
    except OSError: return 0
print('\\x1b[1mtraining\\x1b[0m with', sorted(hparams), flush=True)
while True:
    op = operation()
    if op['completed']: ack(); break
    n = op['op']['validateAfter']['length']
    for i in range(steps + 1, n + 1):
        while hparams.get('stepwise') and allowed() < i:
            if preempted(): checkpoint(i - 1); ack(); raise SystemExit(0)
            time.sleep(0.02)
        loss = base + 2 * math.exp(-i / 40) + random.gauss(0, 0.02)
        report('training', i, loss=loss)
        if i % 10 == 0:
            call('POST', '/trials/%s/progress' % trial, {'progress': i})
            error = base + 0.8 * math.exp(-i / 60)
            report('validation', i, error=error)
            print('batch %d: loss %.4f \\x1b[32merror %.4f\\x1b[0m' % (i, loss, error), flush=True)
        if pace:
            time.sleep(pace)
            if preempted(): checkpoint(i); ack(); raise SystemExit(0)
    if n % 10: report('validation', n, error=base + 0.8 * math.exp(-n / 60))
    checkpoint(n)
    complete(n, base + 0.8 * math.exp(-n / 60))
    steps = n
print('done', flush=True)
`;

export const files = (more = {}) => ({ 'train.py': TRAIN, 'README.txt': 'what is trained here\n', ...more });

export const single = (name, batches = 40, hparams = '') => `
name: ${name}
description: one trial of the tests
labels: [alone]
entrypoint: python3 train.py
max_restarts: 0
searcher: {name: single, metric: error, max_length: {batches: ${batches}}}
hyperparameters: {learning_rate: 0.01, dropout: 0.4${hparams}}
`;

export const random = (name, trials = 8, batches = 20) => `
name: ${name}
description: a search of the tests
labels: [search, random]
entrypoint: python3 train.py
max_restarts: 0
searcher: {name: random, metric: error, max_trials: ${trials}, max_length: {batches: ${batches}}, max_concurrent_trials: 4}
hyperparameters:
  learning_rate: {type: log, base: 10, minval: -4, maxval: -1}
  dropout: {type: double, minval: 0.1, maxval: 0.8}
  optimizer: {type: categorical, vals: [adam, sgd]}
`;

export const asha = (name, trials = 8, pace = 0) => `
name: ${name}
labels: [search]
entrypoint: python3 train.py
max_restarts: 0
searcher: {name: adaptive_asha, metric: error, max_trials: ${trials}, max_length: {batches: 64}, divisor: 4, max_rungs: 3, mode: aggressive, max_concurrent_trials: 4}
hyperparameters:
  learning_rate: {type: log, base: 10, minval: -4, maxval: -1}
  dropout: {type: double, minval: 0.1, maxval: 0.8}
  pace: ${pace}
`;

export const failing = (name) => `
name: ${name}
labels: [broken]
entrypoint: "echo loading data; echo 'ValueError: expected (64,1), found (64,)' >&2; exit 1"
max_restarts: 0
searcher: {name: single}
`;

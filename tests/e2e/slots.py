#!/usr/bin/env python3
"""slots.py DET: det-run --slots: several ranks train one trial, fail together, stop together and go on."""
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
DET_RUN = Path(sys.argv[1]).resolve().parent / 'det-run'
SMALL = (HERE / 'models' / 'small.c').read_text()
# Says who it is, and obeys ODD_RANK, ODD_BATCH and ODD (what to do there).
ODD = SMALL.replace('    sleep_if_asked();', '''    sleep_if_asked();
    const char *what = getenv("ODD");
    if (what && det_context_rank(s->ctx) == atoi(getenv("ODD_RANK")) && step->batch_idx == atoi(getenv("ODD_BATCH"))) {
        if (*what == 'k') kill(getpid(), 9);
        if (*what == 's') puts("rank asleep"), fflush(stdout), sleep(1000);
        return det_fail(err, DET_EINVAL, "out of luck");
    }''', 1).replace('#include <unistd.h>', '#include <signal.h>\n#include <unistd.h>')
CONFIG = '''
entrypoint: model_def:Small
hyperparameters: {{global_batch_size: 16, net: {net}, optimizer: sgd, lr: 0.003}}
searcher: {{name: single, metric: loss, max_length: {{batches: {batches}}}}}
min_checkpoint_period: {{batches: 7}}
min_validation_period: {{batches: 25}}
scheduling_unit: 20
'''


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f'FAILED: {what}: expected {wanted!r}, found {found!r}')


class Folder:
    """A folder with a trial in it."""

    def __init__(self, net='mlp', batches=60, source=ODD):
        self.path = Path(tempfile.mkdtemp(dir=TMP))
        (self.path / 'model_def.c').write_text(source)
        (self.path / 'const.yaml').write_text(CONFIG.format(net=net, batches=batches))

    def start(self, *args, odd=None):
        env = dict(os.environ, XDG_CACHE_HOME=str(TMP / 'cache'))
        if odd:
            env.update(ODD=odd[0], ODD_RANK=str(odd[1]), ODD_BATCH=str(odd[2]))
        command = [DET_RUN, '-c', 'const.yaml', '--seed', '7', '--resume', '-d', 'ck', '-m', 'm.jsonl', *args]
        return subprocess.Popen(command, cwd=self.path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)

    def run(self, *args, status=0, odd=None):
        child = self.start(*args, odd=odd)
        out, err = child.communicate(timeout=120)
        if child.returncode != status:
            sys.exit(f'FAILED: {args}: status {child.returncode}, expected {status}\n{out}\n{err}')
        return out, err

    def weights(self):
        """Of the newest checkpoint: batches, and a hash of everything."""
        found = [json.loads(p.read_text()) | {'dir': p.parent} for p in self.path.glob('ck/*/loop.json')
                 if not p.parent.is_symlink()]
        newest = max(found, key=lambda c: c['batches_trained'])
        return newest['batches_trained'], hashlib.sha256((newest['dir'] / 'state-dict.pth').read_bytes()).hexdigest()

    def metrics(self):
        return [json.loads(line) for line in (self.path / 'm.jsonl').read_text().splitlines()]


def test_metrics_of_one_and_of_several():
    # No dropout and no batch norm here, so that the number of slots makes no difference but in rounding.
    plain = SMALL.replace('det_nn_batch_norm1d(32), ', '').replace('det_nn_dropout(0.2), ', '')
    runs = []
    for slots in (1, 2, 4):
        folder = Folder(source=plain)
        folder.run('--slots', str(slots))
        runs.append(folder.metrics())
    for other in runs[1:]:
        expect('reports', [(m['kind'], m['batches']) for m in other], [(m['kind'], m['batches']) for m in runs[0]])
        for a, b in zip(runs[0], other):
            off = {k: (v, b['metrics'][k]) for k, v in a['metrics'].items() if abs(v - b['metrics'][k]) > 1e-5}
            # Validation batches are those of a slot, so that errors are averaged over other groups.
            expect(f'metrics of {a["kind"]} at {a["batches"]}', off, {})


def test_output_says_which_rank():
    source = SMALL.replace('s->ctx = ctx;', 's->ctx = ctx; fprintf(stderr, "here is %d", det_context_rank(ctx));')
    out, err = Folder(source=source).run('--slots', '3', '--batches', '2')
    expect('lines of ranks', sorted(re.findall(r'\[rank=\d\] here is \d\n', err)),
           ['[rank=1] here is 1\n', '[rank=2] here is 2\n'])
    expect('the end', len(re.findall(r'finished after 2 batches', out)), 1)


def test_failure_names_the_rank():
    folder = Folder()
    _, err = folder.run('--slots', '3', status=1, odd=('fail', 1, 5))
    expect('culprit', 'det-run: rank 1 has failed' in err, True)
    expect('reason', '[rank=1] det-run: trial Small, train_batch, batch 5: out of luck' in err, True)
    expect('rank 0 knows', 'det-run: rank 1: trial Small, train_batch, batch 5: out of luck' in err, True)
    _, err = folder.run('--slots', '2', status=137, odd=('kill', 1, 30))
    expect('killed', 'det-run: rank 1 was killed by signal 9' in err, True)
    expect('rank 0 has noticed', re.search(r'det-run: rank 1 \(process \d+\) has died', err) is not None, True)


def test_the_culprit_need_not_end_first():
    source = ODD.replace('DET_TRIAL(', '''
// Until nobody has to wait for rank 0 any more.
__attribute__((destructor)) static void end_after_rank_0(void)
{
    const char *rank = getenv("RANK");
    FILE *f = rank && *rank == '1' ? fopen("rank0", "r") : NULL;
    int pid = 0;
    if (!f || fscanf(f, "%d", &pid) != 1) return;
    while (!kill(pid, 0))
        usleep(1000);
}

DET_TRIAL(''').replace('s->ctx = ctx;', '''s->ctx = ctx;
    if (!det_context_rank(ctx)) {
        FILE *f = fopen("rank0", "w");
        fprintf(f, "%d", getpid());
        fclose(f);
    }''')
    _, err = Folder(source=source).run('--slots', '2', status=1, odd=('fail', 1, 5))
    expect('culprit', 'det-run: rank 1 has failed' in err, True)


def test_killed_ranks_go_on_exactly():
    for net in ('mlp', 'cnn'):
        whole, part = Folder(net), Folder(net)
        whole.run('--slots', '2')
        for rank, batch in ((1, 10), (0, 26), (1, 51)):
            part.run('--slots', '2', status=137, odd=('kill', rank, batch))
        part.run('--slots', '2')
        expect('weights', part.weights(), whole.weights())


def children(pid):
    return [int(p) for p in Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]


def test_nothing_is_left_when_all_is_killed():
    folder = Folder(batches=100000000)
    child = folder.start('--slots', '2')
    child.stdout.readline()
    ranks = children(child.pid)
    expect('ranks', len(ranks), 2)
    maps = Path(f'/proc/{ranks[0]}/maps').read_text().splitlines()
    shared = [Path(line.split(maxsplit=5)[5]) for line in maps if ' rw-s ' in line and '/' in line]
    expect('has shared memory', len(shared) > 0, True)
    child.kill()
    child.communicate(timeout=60)
    for rank in ranks:
        while Path(f'/proc/{rank}').exists():
            time.sleep(0.01)
    expect('shared memory', [path for path in shared if path.exists()], [])


def test_interrupt_saves_and_stops():
    folder = Folder(batches=100000000)
    child = folder.start('--slots', '2')
    while 'batch' not in child.stdout.readline():
        pass
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    expect('status', child.returncode, 130)
    expect('said once', err.count('stopping after this batch, with a checkpoint'), 1)
    expect('stopped', 'stopped after ' in out, True)
    steps = int(re.search(r'stopped after (\d+) batches', out)[1])
    expect('checkpoint', folder.weights()[0], steps)


def test_second_interrupt_stops_at_once():
    folder = Folder()
    child = folder.start('--slots', '2', odd=('sleep', 1, 3))
    while 'asleep' not in child.stdout.readline():
        pass
    child.send_signal(signal.SIGINT)
    while 'once more to stop at once' not in child.stderr.readline():
        pass
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    expect('status', child.returncode, -signal.SIGINT)


def test_another_number_of_slots_goes_on():
    folder = Folder()
    folder.run('--slots', '2', '--batches', '20')
    folder.run('--slots', '4', '--batches', '40')
    folder.run('--batches', '60')
    expect('batches', folder.weights()[0], 60)


def launch(*args, status=0, **env):
    done = subprocess.run([DET_RUN.parent / 'det-launch', *args], env=dict(os.environ, **env), capture_output=True,
                          text=True, timeout=60)
    expect(f'status of {args}', done.returncode, status)
    return done.stdout, done.stderr


def test_launch_of_any_program():
    show = ('sh', '-c', 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR" -n')
    out, _ = launch('--slots', '3', *show)
    expect('variables', sorted(out.splitlines()),
           ['0 0 3 3 0 127.0.0.1 -n', '[rank=1] 1 1 3 3 0 127.0.0.1 -n', '[rank=2] 2 2 3 3 0 127.0.0.1 -n'])
    out, _ = launch(*show, DET_SLOT_IDS='[4, 7]')
    expect('slots of a task', len(out.splitlines()), 2)
    info = '{"container_addrs": ["10.0.0.1", "10.0.0.2"], "container_rank": 1, "container_slot_counts": [4, %d]}'
    out, _ = launch(*show, DET_SLOT_IDS='[4, 7]', DET_RENDEZVOUS_INFO=info % 2)
    expect('the second of two machines', sorted(out.splitlines()),
           ['4 0 6 2 1 10.0.0.1 -n', '[rank=1] 5 1 6 2 1 10.0.0.1 -n'])
    out, _ = launch(*show, DET_SLOT_IDS='[4]', DET_RENDEZVOUS_INFO=info % 1)
    expect('a machine with one slot', out, '4 0 5 1 1 10.0.0.1 -n\n')
    _, err = launch('-n', '3', *show, DET_RENDEZVOUS_INFO=info % 2, status=1)
    expect('as the others think', 'this machine has 2 slots of the task, not 3' in err, True)
    _, err = launch('-n', '3', *show, DET_RENDEZVOUS_INFO='{}', status=2)
    expect('nonsense', 'DET_RENDEZVOUS_INFO must be' in err, True)
    _, err = launch('-n', '2', 'sh', '-c', 'test $RANK = 0 && sleep 100; exit 7', status=7)
    expect('culprit', 'det-launch: rank 1 has failed' in err, True)
    _, err = launch('-n', '2', './no-such-program', status=127)
    expect('not found', "cannot run './no-such-program'" in err, True)
    _, err = launch('true', status=2)
    expect('how many', 'how many slots? Give --slots N' in err, True)


# Writes its lines in two pieces, and more at a time than a pipe takes as a whole.
TALKER = '''
import os, sys
rank = os.environ['RANK']
for i in range(300):
    line = '%s:%d:%s;' % (rank, i, rank * 5000)
    os.write(1, line[:3000].encode())
    os.write(1, (line[3000:] + '\\n').encode())
os.write(1, b'no end')
'''


def test_lines_are_whole():
    out, _ = launch('--slots', '3', 'python3', '-c', TALKER)
    found = {}
    for line in out.splitlines():
        match = re.fullmatch(r'(?:\[rank=(\d)\] )?(?:(\d):(\d+):(\d+);|no end)', line)
        if not match:
            sys.exit(f'FAILED: a line that nobody has written: {line[:60]}...{line[-60:]} ({len(line)} bytes)')
        rank = match[1] or '0'
        if match[2]:
            expect('whole', (match[2], match[4]), (rank, rank * 5000))
            found.setdefault(rank, []).append(int(match[3]))
    expect('all of them, in order', found, {r: list(range(300)) for r in '012'})
    expect('ends without a newline', out.count('no end'), 3)


def test_usage():
    _, err = Folder().run('--slots', '0', status=2)
    expect('message', "--slots must be a number from 1 on, found '0'" in err, True)
    _, err = Folder().run('--slots', '17', '--batches', '1', status=1)
    expect('too many', "'global_batch_size' is 16, but there are 17 slots" in err, True)


with tempfile.TemporaryDirectory() as tmp:
    TMP = Path(tmp)
    for name, test in list(globals().items()):
        if name.startswith('test_'):
            test()
            print(name)

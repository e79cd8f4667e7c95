#!/usr/bin/python3
"""make-data.py BUILD FOLDER: writes data.tar.gz and metrics.journal to FOLDER with the programs in BUILD, a release build. v2/ was made
by the last version that kept a row for each line of a log and knew nothing of private experiments, v3/ by the one that knew of them.
The data directory is that of a master that was killed: an experiment that has ended, one whose task ended while no master was there
(its output is in the spool), one that was paused and is private, if that version knows the word; expected.json is what that master
answered. The journal is that of a program that ran alone; those of v3 are like those of v2."""
import glob
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

here = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(here, '..', 'support'))
from master import Master, wait_for  # noqa: E402

PRINTER = '''
from task import *
ready()
for i in range(150):
    print('line %d of trial %s:' % (i, trial), 'ERROR: a long one ' * (i % 7 == 3), 'é€ 中文', flush=i % 20 == 0)
print('', file=sys.stderr)
print('ERROR: to stderr', file=sys.stderr)
for i in range(1, 6): report('training', i, loss=1.0 / i)
report('validation', 5, err=0.25)
checkpoint(5)
complete(operation()['op']['validateAfter']['length'], 0.25)
'''
SEARCH = ('entrypoint: python3 train.py\nname: golden\nlabels: [a, b]\nreproducibility: {experiment_seed: 7}\n'
          'searcher: {name: random, metric: err, max_trials: 2, max_length: {batches: 5}}\n'
          'hyperparameters: {x: {type: double, minval: 0, maxval: 1}}')


def plain(info):
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ''
    return None if info.name.endswith(('stderr.txt', '-shm')) else info


def journal(build, folder):
    """Of examples/generic/train.c, with the library of that version."""
    source, program = os.path.join(here, '..', '..', 'examples', 'generic', 'train.c'), folder + '/train'
    include = os.path.join(build, '..', 'include')
    subprocess.run(['cc', '-D_GNU_SOURCE', '-I', include, source, '-o', program, '-L', build, '-ldet', '-lm'], check=True)
    subprocess.run([program], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env={**os.environ, 'LD_LIBRARY_PATH': build, 'XDG_DATA_HOME': folder})
    return glob.glob(folder + '/**/*.journal', recursive=True)[0]


def create_paused(m, build):
    text = 'entrypoint: "echo never"\nsearcher: {name: single}'
    known = b'ADD COLUMN private' in open(os.path.join(build, 'det'), 'rb').read()
    return m.create(text + '\nprivate: true' * known, activate=False)


def main(build, out):
    det = os.path.join(build, 'det')
    folder = tempfile.mkdtemp(prefix='det-golden-')
    m = Master(det, '--slots', '2', data=folder)
    m.start()
    e = m.create(SEARCH, {'train.py': PRINTER})
    m.wait_experiment(e, 'STATE_COMPLETED')
    flag = os.path.join(folder, 'flag')
    ended = m.create(f'entrypoint: "echo up; while [ ! -e {flag} ]; do sleep 0.05; done; seq 1 500; exit 0"\n'
                     'searcher: {name: single}\nmax_restarts: 0')
    t = m.trials(ended)[0]['id']
    m.wait_line(t, 'up')
    paused = create_paused(m, build)
    m.post(f'experiments/{paused}/pause')
    expected = {
        'experiments': m.get('experiments?sortBy=id')['experiments'],
        'trials': {x['id']: m.get(f'trials/{x["id"]}') for i in (e, ended, paused) for x in m.trials(i)},
        'metrics': {x['id']: m.get(f'trials/{x["id"]}/metrics')['metrics'] for x in m.trials(e)},
        'logs': {x['id']: m.get(f'trials/{x["id"]}/logs?limit=10000')['logs'] for i in (e, ended) for x in m.trials(i)},
        'ended': ended, 'paused': paused, 'ended_trial': t,
    }
    m.kill()
    open(flag, 'w').close()
    wait_for(lambda: os.path.exists(os.path.join(folder, 'run', '3', 'exit.json')), 'the task to end')
    os.unlink(flag)
    text = json.dumps(expected, ensure_ascii=False).encode()
    with tarfile.open(os.path.join(out, 'data.tar.gz'), 'w:gz', compresslevel=9) as tar:
        tar.add(folder, 'data', filter=plain)
        info = tarfile.TarInfo('expected.json')
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    with tempfile.TemporaryDirectory() as alone:
        shutil.copy(journal(build, alone), os.path.join(out, 'metrics.journal'))


if __name__ == '__main__':
    main(*map(os.path.realpath, sys.argv[1:3]))

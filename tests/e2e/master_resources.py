#!/usr/bin/env python3
"""What a trial uses of its machine: processors, memory, GPUs."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Master, expect, run_tests, wait_for  # noqa: E402

BUSY = '''
import os, time
block = bytearray(150 << 20)
for i in range(0, len(block), 512): block[i] = 1
if not os.fork():
    while True: pass
while True: time.sleep(0.01)
'''
CONFIG = 'entrypoint: python3 busy.py\nmax_restarts: 0\nsearcher: {name: single}'
# Two GPUs: one works at 30 %, one at 50 %, with 1 and 2 GB.
NVML = '''
#include <string.h>
struct device { unsigned use; unsigned long long used; };
static struct device devices[] = {{30, 1000000000}, {50, 2000000000}};
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **out) { *out = &devices[!strcmp(uuid, "GPU-b")]; return 0; }
int nvmlDeviceGetUtilizationRates(struct device *d, unsigned *out) { out[0] = d->use; return 0; }
int nvmlDeviceGetMemoryInfo(struct device *d, unsigned long long *out) { out[2] = d->used; return 0; }
'''


def samples(m, t, n):
    return wait_for(lambda: (lambda s: len(s['t']) >= n and s)(m.get(f'trials/{t}/resources')), 'samples')


def test_processors_and_memory_are_sampled(det):
    with Master(det) as m:
        e = m.create(CONFIG, {'busy.py': BUSY})
        t = wait_for(lambda: m.trials(e), 'its trial')[0]['id']
        expect('none yet, or some', sorted(m.get(f'trials/{t}/resources'))[-1], 't')
        c = m.connect()
        c.request('GET', f'/api/v1/stream?topics=trial:{t}', headers={'Authorization': 'Bearer ' + m.token})
        stream = c.getresponse()
        while stream.readline() != b'event: resources\n':
            pass
        expect('an event', stream.readline(), b'data: {"experimentId":%d,"trialId":%d}\n' % (e, t))
        c.close()
        s = samples(m, t, 3)
        expect('columns', sorted(s), ['cpu', 'memory', 't'])
        expect('memory', max(s['memory']) > 150e6, True)
        expect('a processor', max(s['cpu']) > 0.1, True)
        expect('in order', s['t'], sorted(s['t']))
        expect('thinned out', len(m.get(f'trials/{t}/resources?maxDatapoints=2')['t']), 2)
        expect('no output', [x for x in m.get(f'trials/{t}/logs?limit=-1')['logs'] if x['log'].strip().replace(' ', '').isdigit()], [])
        expect('no such trial', m.call('GET', 'trials/99/resources')[0], 404)
        m.stop()
        m.start()
        samples(m, t, len(s['t']) + 1)
        m.post(f'experiments/{e}/kill')
        m.wait_experiment(e, 'STATE_CANCELED')


def test_gpus_are_sampled(det):
    with tempfile.TemporaryDirectory() as folder:
        with open(f'{folder}/nvml.c', 'w') as f:
            f.write(NVML)
        subprocess.run(['cc', '-shared', '-fPIC', '-o', f'{folder}/libnvidia-ml.so.1', f'{folder}/nvml.c'], check=True)
        with open(f'{folder}/nvidia-smi', 'w') as f:
            f.write('#!/bin/sh\necho GPU-a, Test GPU\necho GPU-b, Test GPU\n')
        os.chmod(f'{folder}/nvidia-smi', 0o755)
        env = {**os.environ, 'PATH': f'{folder}:{os.environ["PATH"]}', 'LD_LIBRARY_PATH': folder}
        with Master(det, env=env) as m:
            e = m.create(CONFIG + '\nresources: {slots_per_trial: 2}', {'busy.py': BUSY})
            t = wait_for(lambda: m.trials(e), 'its trial')[0]['id']
            s = wait_for(lambda: (lambda x: 'gpu' in x and x)(m.get(f'trials/{t}/resources')), 'samples')
            expect('use', [v for v in s['gpu'] if v is not None][-1], 0.4)
            expect('memory', [v for v in s['gpuMemory'] if v is not None][-1], 3000000000)
            m.post(f'experiments/{e}/kill')
            m.wait_experiment(e, 'STATE_CANCELED')


run_tests(sys.modules[__name__])

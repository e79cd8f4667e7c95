#!/usr/bin/env python3
"""Where the processes of a task meet: addresses, slots and ports, under one master and under two on the same machine."""
import os
import sys

HERE = os.path.realpath(os.path.dirname(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

ROOT = os.path.realpath(os.path.join(HERE, '..', '..'))
PORTS = ('C10D_PORT', 'DTRAIN_SSH_PORT', 'INTER_TRAIN_PROCESS_COMM_PORT_1', 'INTER_TRAIN_PROCESS_COMM_PORT_2')
CONFIG = '''
entrypoint: %s
max_restarts: 0
resources: {slots_per_trial: %d}
searcher: {name: single, metric: loss, max_length: {batches: 1}}
'''
# Listens on all of its ports, as if others were to come, and stays until it is killed.
LISTENER = f'''
import os, socket, time
found = []
for name in {PORTS!r}:
    s = socket.create_server(('127.0.0.1', int(os.environ[name])))
    found.append(s)
print('ports', *[s.getsockname()[1] for s in found], flush=True)
time.sleep(1000)
'''
# What a launch layer in C reads.
LAYER = '''
#include "det/client.h"
#include <stdio.h>
int main(void)
{
    det_err err;
    det_core *core = det_core_init(&err);
    const det_rendezvous *r;
    if (!core || det_core_rendezvous(core, &r, &err)) return fprintf(stderr, "%s\\n", err.msg), 1;
    printf("machine %d of %d at %s with %d slots\\n", r->rank, r->size, r->addresses[0], r->slots[0]);
    return det_core_close(core, &err) ? 1 : 0;
}
'''


def ports_of(m, experiment):
    def look():
        trials = m.trials(experiment)
        lines = [x for t in trials for x in m.lines(t['id']) if x.startswith('ports ')]
        ended = [t for t in trials if t['state'] in ('STATE_ERROR', 'STATE_COMPLETED')]
        if ended:
            raise Failure(f'experiment {experiment} ended: {m.lines(ended[0]["id"])}')
        return lines and lines[0].split()[1:]
    return wait_for(look, f'the ports of experiment {experiment}')


def test_two_masters_give_their_tasks_different_ports(det):
    with Master(det, '--slots', '2') as a, Master(det, '--slots', '2') as b:
        started = [(m, m.create(CONFIG % ('python3 listen.py', 1), {'listen.py': LISTENER})) for m in (a, b, a, b)]
        ports = [p for m, e in started for p in ports_of(m, e)]
        expect('ports that are given twice', len(ports) - len(set(ports)), 0)
        expect('ports', len(ports), len(started) * len(PORTS))
        for m, e in started:
            m.post(f'experiments/{e}/kill')
            m.wait_experiment(e, 'STATE_CANCELED')


def test_programs_learn_where_they_run(det):
    build = os.path.dirname(det)
    compiled = f'"cc -I{ROOT}/include layer.c {build}/libdet.so -Wl,-rpath,{build} -o layer && ./layer"'
    with Master(det, '--slots', '2') as m:
        e = m.create(CONFIG % (compiled, 2), {'layer.c': LAYER})
        m.wait_experiment(e, 'STATE_COMPLETED')
        m.wait_line(m.trials(e)[0]['id'], 'machine 0 of 1 at 127.0.0.1 with 2 slots')


def test_launched_ranks_use_the_port_of_the_task(det):
    launch = os.path.join(os.path.dirname(det), 'det-launch')
    with Master(det, '--slots', '2') as m:
        e = m.create(CONFIG % ('echo rank $RANK of $WORLD_SIZE $MASTER_PORT $C10D_PORT', 2) +
                     f'launch_layer: {launch}\n', {'none': ''})
        m.wait_experiment(e, 'STATE_COMPLETED')
        lines = sorted(x.split(' ', 1)[1].split() for x in m.lines(m.trials(e)[0]['id']) if 'rank' in x and ' of ' in x)
        expect('ranks', [x[-5:-2] for x in lines], [['0', 'of', '2'], ['1', 'of', '2']])
        expect('one port', len({p for x in lines for p in x[-2:]}), 1)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')

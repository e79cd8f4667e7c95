#!/usr/bin/env python3
"""One stream of changes: topics, numbers, coming back, and being told to read everything again."""
import contextlib
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

TRAIN = '''
from task import *
ready()
print('hello')
for i in range(1, 4): report('training', i, loss=1.0 / i)
checkpoint(3)
report('validation', 3, error=0.5)
complete(operation()['op']['validateAfter']['length'], 0.5)
'''
CONFIG = 'entrypoint: python3 train.py\nsearcher: {name: single, metric: error, max_length: {batches: 3}}'


class Stream:
    def __init__(self, m, topics, last_id=None, token=None, path='/api/v1/stream'):
        self.c = m.connect()
        headers = {'Authorization': 'Bearer ' + (token or m.token)}
        if last_id is not None:
            headers['Last-Event-ID'] = last_id
        self.c.request('GET', f'{path}?topics={topics}' if topics else path, headers=headers)
        self.r = self.c.getresponse()
        expect('status', self.r.status, 200)
        self.last_id = None

    def event(self):
        """The next one: name and data."""
        name, data = 'message', ''
        for line in iter(lambda: self.r.readline().decode().rstrip('\n'), None):
            key, _, value = line.partition(': ')
            if key == 'id':
                self.last_id = value
            elif key == 'event':
                name = value
            elif key == 'data':
                data += value
            elif not line and data:
                return name, json.loads(data)
            elif not line:
                name = 'message'
        raise Failure('the stream has ended')

    def started(self):
        """The number it begins with is there: it hears of everything from now on."""
        line = self.r.readline().decode()
        expect('a number first', line.startswith('id: '), True)
        self.last_id = line[4:].strip()
        return self

    def until(self, wanted):
        seen = []
        while not seen or not wanted(*seen[-1]):
            seen.append(self.event())
        return seen

    def close(self):
        self.c.close()


def has_ended(name, data):
    return name == 'experiment' and data['state'] == 'STATE_COMPLETED'


def test_topics_say_what_is_sent(det):
    with Master(det) as m:
        everything = Stream(m, 'experiments,trials,queue,experiment:1,metrics:1,logs:1,trial:1').started()
        others = Stream(m, 'experiment:99,metrics:99,logs:99,trial:99,experiments').started()
        metrics = Stream(m, 'metrics:1,experiments').started()
        queue = Stream(m, 'queue,experiments').started()
        e = m.create(CONFIG, {'train.py': TRAIN})
        seen = everything.until(has_ended)
        names = {name for name, _ in seen}
        expect('kinds', names, {'experiment', 'trial', 'metrics', 'checkpoint', 'logs', 'queue'})
        reports = [d for name, d in seen if name == 'metrics']
        expect('the last report', [d for d in reports if d['group'] == 'training'][-1],
               {'experimentId': e, 'trialId': 1, 'group': 'training', 'steps': 3})
        uuid = m.get('trials/1/checkpoints')['checkpoints'][0]['uuid']
        expect('checkpoint', [d for name, d in seen if name == 'checkpoint'], [{'experimentId': e, 'trialId': 1, 'uuid': uuid}])
        expect('of others', {name for name, _ in others.until(has_ended)}, {'experiment'})
        expect('metrics only', {name for name, _ in metrics.until(has_ended)}, {'experiment', 'metrics'})
        expect('the queue', {name for name, _ in queue.until(has_ended)}, {'experiment', 'queue'})
        m.good('DELETE', f'experiments/{e}')
        expect('deleted', everything.until(lambda name, data: name == 'deleted')[-1][1], {'experimentId': e})
        for topic in ('nothing', 'experiment', 'experiment:x', 'experiments:1', '', ',', 'trial:'):
            status, answer = m.call('GET', f'stream?topics={topic}')
            expect(f'topic {topic!r}', (status, 'topics' in answer['detail']), (400, True))
        expect('too many', m.call('GET', 'stream?topics=' + ','.join(['queue'] * 101))[0], 413)


def rename(m, e, name):
    m.good('PATCH', f'experiments/{e}', {'name': name})


def test_a_client_that_comes_back_gets_what_it_has_missed(det):
    with Master(det) as m:
        e = m.create('entrypoint: "true"\nsearcher: {name: single}', activate=False)
        s = Stream(m, 'experiments').started()
        rename(m, e, 'one')
        expect('one', s.event()[1]['name'], 'one')
        last = s.last_id
        s.close()
        rename(m, e, 'two')
        with contextlib.closing(Stream(m, 'experiments', last)) as back:
            expect('two', back.event()[1]['name'], 'two')
            rename(m, e, 'three')
            expect('three', back.event()[1]['name'], 'three')
        with contextlib.closing(Stream(m, f'experiments&lastEventId={last}')) as again:
            expect('all of it', [again.event()[1]['name'] for _ in range(2)], ['two', 'three'])
            last = again.last_id
        s = Stream(m, 'experiments', last)
        rename(m, e, 'four')
        expect('nothing twice', s.event()[1]['name'], 'four')
        for odd in ('x', '1-1', 'ffffffff-1', last.split('-')[0] + '-999999', ''):
            with contextlib.closing(Stream(m, 'experiments', odd or '-')) as s:
                expect(f'resync after {odd}', s.event(), ('resync', {}))


def test_a_client_that_was_away_too_long_is_told(det):
    with Master(det) as m:
        e = m.create('entrypoint: "true"\nsearcher: {name: single}', activate=False)
        s = Stream(m, 'experiments').started()
        rename(m, e, 'one')
        s.event()
        last = s.last_id
        m.kill()
        m.start()
        back = Stream(m, 'experiments', last)
        expect('another master', back.event(), ('resync', {}))
        rename(m, e, 'two')
        expect('and goes on', back.event()[1]['name'], 'two')
        last = back.last_id
        notes = 'x' * 100000
        for i in range(60):  # more than is kept
            m.good('PATCH', f'experiments/{e}', {'notes': f'{i}{notes}'})
            wait_for(lambda: back.event()[1]['notes'].startswith(f'{i}x'), 'the change')
        with contextlib.closing(Stream(m, 'experiments', last)) as late:
            expect('too much', late.event(), ('resync', {}))


def test_private_records_are_hidden_from_others(det):
    with Master(det) as m:
        m.post('users', {'username': 'ann', 'password': 'correct horse'})
        ann = m.post('auth/login', {'username': 'ann', 'password': 'correct horse'}, token='')['token']
        own, other = Stream(m, 'experiments').started(), Stream(m, 'experiments', token=ann).started()
        e = m.create('entrypoint: "true"\nprivate: true\nsearcher: {name: single}', {'x': 'y'}, activate=False)
        expect('its owner', own.event()[1]['modelDefinition'] is not None, True)
        expect('somebody else', other.event()[1]['modelDefinition'], None)
        last = other.last_id
        other.close()
        rename(m, e, 'two')
        with contextlib.closing(Stream(m, 'experiments', last, token=ann)) as back:
            expect('also what was missed', (back.event()[1]['modelDefinition'], own.event()[1]['modelDefinition'] is not None), (None, True))


def test_events_are_the_same_without_topics(det):
    with Master(det) as m:
        s = Stream(m, '', path='/api/v1/events').started()
        m.create(CONFIG, {'train.py': TRAIN})
        expect('kinds', {name for name, _ in s.until(has_ended)}, {'experiment', 'trial'})


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')

#!/usr/bin/env python3
"""What det prints of what others have written: nothing that a terminal or a spreadsheet would obey. Times are those of the user. Which
master is asked."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests  # noqa: E402

EVIL = 'a\x1b]0;owned\x07b\x9b2Jc\u202ed\u2066e'
CONTROLS = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]')
COLOUR = re.compile('\x1b\\[[0-9;:]*m')
TASK = r"printf 'before \033[32mgreen\033[0m \033]0;owned\007 \033[2J\n\302\2332Jthe end\n'; exit 3"
FORMATS = ([], ['--json'], ['--yaml'], ['--csv'])


def run(det, m, *args, status=0, **env):
    """What it prints, on both streams."""
    env = {**os.environ, 'DET_HOME': m.data, 'XDG_CONFIG_HOME': m.data, 'TZ': 'UTC', **env}
    done = subprocess.run([det, *map(str, args)], env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    text = done.stdout.decode() + done.stderr.decode()
    if done.returncode != status:
        raise Failure(f'det {args} ended with {done.returncode}: {text}')
    return text


def must_be_harmless(what, text, colours=False):
    rest = COLOUR.sub('', text) if colours else text
    found = CONTROLS.search(rest.replace('\r\n', '\n'))
    if found:
        raise Failure(f'{what}: {found.group()!r} at {found.start()} in {text!r}')


def hostile(m):
    """An experiment of somebody who has put controls wherever text can be."""
    config = json.dumps({'name': EVIL, 'description': EVIL, 'labels': [EVIL], 'entrypoint': ['sh', '-c', TASK], 'max_restarts': 0,
                         'hyperparameters': {EVIL: EVIL}, 'searcher': {'name': 'single', 'metric': EVIL}})
    e = m.create(config)
    m.wait_experiment(e, 'STATE_ERROR')
    m.good('PUT', 'templates/evil', {'config': f'description: "{EVIL}"'.replace('\x1b', '\\e').replace('\x07', '\\a')})
    return e, m.trials(e)[0]['id']


def test_lists_and_records_show_controls_harmlessly(det):
    with Master(det) as m:
        e, t = hostile(m)
        for command in (['experiment', 'list'], ['experiment', 'describe', e], ['experiment', 'list-trials', e],
                        ['trial', 'describe', t], ['trial', 'metrics', t], ['job', 'list'], ['user', 'list'],
                        ['template', 'describe', 'evil']):
            for form in FORMATS:
                must_be_harmless([*command, *form], run(det, m, *command, *form))
        must_be_harmless('config', run(det, m, 'experiment', 'config', e))
        shown = run(det, m, 'experiment', 'describe', e)
        expect('shown', 'a\\x1b]0;owned\\x07b\\u009b2Jc\\u202ed\\u2066e' in shown, True)
        expect('exact in JSON', json.loads(run(det, m, 'experiment', 'describe', e, '--json'))['name'], EVIL)
        must_be_harmless('an error', run(det, m, 'template', 'describe', EVIL, status=1))


def test_logs_keep_colours_only(det):
    with Master(det) as m:
        e, t = hostile(m)
        for command in (['trial', 'logs', t], ['trial', 'logs', t, '-f'], ['trial', 'logs', t, '--tail', 5], ['experiment', 'logs', e],
                        ['why', e]):
            text = run(det, m, *command)
            must_be_harmless(command, text, colours=True)
            expect('the colours', ('\x1b[32mgreen\x1b[0m' in text, '\\x1b[2J' in text, '\\u009b2Jthe end' in text), (True,) * 3)
        must_be_harmless('wait', run(det, m, 'experiment', 'wait', e, status=1), colours=True)


def test_what_anonymous_callers_say_is_logged_harmlessly(det):
    with Master(det) as m:
        expect('login', m.call('POST', 'auth/login', {'username': EVIL, 'password': 'x'}, token='')[0], 401)
        with open(m.log.name, encoding='utf-8') as f:
            text = f.read()
        expect('logged', 'a login as' in text, True)
        must_be_harmless('the log', text)


def test_cells_of_csv_are_not_formulas(det):
    with Master(det) as m:
        names = ['=cmd|x', '+1+1', '-2+3', '@SUM(A1)', '=1,2', '-5', '+1.5e3', '-Infinity', 'plain', '1-2']
        for name in names:
            m.create(json.dumps({'name': name, 'entrypoint': 'true', 'searcher': {'name': 'single'}}), activate=False)
        lines = run(det, m, 'experiment', 'list', '--csv').splitlines()
        cells = [re.match(r'\d+,("(?:[^"]|"")*"|[^,]*),', line)[1] for line in lines[1:]]
        expect('names', cells[::-1], ["'=cmd|x", "'+1+1", "'-2+3", "'@SUM(A1)", '"\'=1,2"', '-5', '+1.5e3', '-Infinity', 'plain', '1-2'])


def test_times_are_those_of_the_user(det):
    with Master(det) as m:
        e = m.create('entrypoint: "echo hello"\nsearcher: {name: single}')
        t = m.trials(e)[0]['id']
        m.wait_experiment(e, 'STATE_COMPLETED')
        start = m.experiment(e)['startTime']
        day, clock = start[:10], start[11:19]
        half = f'{int(clock[:2]):02d}'
        for zone, name in (('UTC', 'UTC'), ('XYZ0', 'XYZ')):
            text = run(det, m, 'experiment', 'describe', e, TZ=zone)
            expect('started', re.search(r'Started +(.*)', text)[1], f'{day} {clock} {name}')
        text = run(det, m, 'experiment', 'describe', e, TZ='ABC-5:30')  # 5:30 east of Greenwich
        shown = re.search(r'Started +\S+ (\S+) (\S+)', text)
        minutes = (int(half) * 60 + int(clock[3:5]) + 330) % 1440
        expect('started there', (shown[1], shown[2]), (f'{minutes // 60:02d}:{minutes % 60:02d}{clock[5:]}', 'ABC'))
        expect('list', ' ABC' in run(det, m, 'experiment', 'list', TZ='ABC-5:30'), True)
        expect('logs', re.search(r'^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ABC\] .*hello', run(det, m, 'trial', 'logs', t, TZ='ABC-5:30'),
                                 re.M) is not None, True)
        for form in ('--json', '--csv'):
            expect(form, start in run(det, m, 'experiment', 'list', form, TZ='ABC-5:30'), True)


def test_the_environment_names_the_master(det):
    with Master(det) as m, Master(det) as other:
        m.post('users', {'username': 'first'})
        other.post('users', {'username': 'second'})
        mine, its, nobody = 'http://' + m.host, 'http://' + other.host, 'http://127.0.0.1:9'
        away = {'DET_HOME': m.data, 'XDG_CONFIG_HOME': m.data}
        expect('DETERMINED_MASTER', 'first' in run(det, m, 'user', 'list', DETERMINED_MASTER=mine), True)
        run(det, m, 'user', 'list', DETERMINED_MASTER=nobody, status=1)
        expect('DET_MASTER wins', 'first' in run(det, m, 'user', 'list', DET_MASTER=mine, DETERMINED_MASTER=nobody), True)
        expect('an empty one does not', 'first' in run(det, m, 'user', 'list', DET_MASTER='', DETERMINED_MASTER=mine), True)
        for command in (['user', 'list', '-m', its], ['-m', its, 'user', 'list']):
            text = run(det, other, *command, DET_MASTER=nobody, DETERMINED_MASTER=nobody)
            expect('-m wins', 'second' in text, True)
        expect('nothing', 'first' in run(det, m, 'user', 'list', **away), True)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')

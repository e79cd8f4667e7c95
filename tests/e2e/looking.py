#!/usr/bin/env python3
"""How people get to see results: det open, with a browser and without one; curves in the terminal and as SVG."""
import html
import os
import re
import stat
import subprocess
import sys
import xml.etree.ElementTree as xml

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

TRAIN = '''
from task import *
import math
ready()
n = operation()['op']['validateAfter']['length']
for i in range(1, n + 1):
    report('training', i, loss=hparams['a'] + 10 * math.exp(-i / 10), **{'<b>,&"': float(i)})
report('validation', n, error=hparams['a'])
complete(n, hparams['a'])
'''
GRID = '''
name: curves
entrypoint: python3 train.py
searcher: {name: grid, metric: error, max_length: {batches: 40}}
hyperparameters: {a: {type: categorical, vals: [1, 2, 3]}}
'''


def command(det, m, *args, **env):
    """Exit status, stdout, stderr."""
    home = os.path.join(m.data, 'home')
    plain = {k: v for k, v in os.environ.items() if k not in ('DISPLAY', 'WAYLAND_DISPLAY', 'BROWSER', 'SSH_CONNECTION', 'COLUMNS')}
    done = subprocess.run([det, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          env={**plain, 'DET_HOME': m.data, 'XDG_CONFIG_HOME': home, 'HOME': home, 'LC_ALL': 'C.UTF-8', **env})
    return done.returncode, done.stdout, done.stderr


def good(det, m, *args, **env):
    status, out, err = command(det, m, *args, **env)
    expect(f'{args}: {err}', status, 0)
    return out


def redeem(m, address):
    """Whether the code in an address that was printed lets a browser in; and where it would go."""
    code, page = re.search(r'/login#code=(\w+)&next=(\S+)', address).groups()
    url = f'http://{m.host}'
    status, _ = m.call('POST', 'auth/redeem', {'code': code}, token='', headers={'Origin': url, 'X-Det-Request': '1'})
    return status, page


def test_open_prints_an_address_that_is_good_once(det):
    with Master(det) as m:
        e = m.create('entrypoint: "true"\nsearcher: {name: single}', activate=False)
        address = good(det, m, 'open', e, '--print').strip()
        expect('the master', address.startswith(f'http://{m.host}/login#code='), True)
        expect('first', redeem(m, address), (200, f'%2Fexperiments%2F{e}'))
        expect('again', redeem(m, address)[0], 401)
        expect('without an experiment', redeem(m, good(det, m, 'open', '--print')), (200, '%2F'))


def test_open_says_what_is_wrong(det):
    with Master(det) as m:
        for args, status, words in ((('open', 'mnist'), 2, "'mnist' is not the number of an experiment"), (('open', '99'), 1, '99'),
                                    (('open', '1', '2'), 2, 'too many')):
            got, _, err = command(det, m, *args)
            expect(f'{args}', (got, words in err), (status, True))
        m.stop()
        got, _, err = command(det, m, 'open')
        expect('no master', (got, 'does not answer' in err or 'refused' in err or 'cannot' in err), (1, True))


def test_open_starts_a_browser_without_showing_the_code_to_others(det):
    with Master(det) as m:
        said = os.path.join(m.data, 'browser-said')
        browser = os.path.join(m.data, 'browser')
        with open(browser, 'w', encoding='utf-8') as f:
            f.write(f'#!/bin/sh\necho "$@" > {said}.new && mv {said}.new {said}\n')
        os.chmod(browser, 0o755)
        out = good(det, m, 'open', BROWSER=browser, DISPLAY=':7')
        expect('output', out.startswith(f'A browser opens http://{m.host}.') and 'code=' not in out, True)
        wait_for(lambda: os.path.exists(said), 'the browser')
        with open(said, encoding='utf-8') as f:
            shown = f.read().strip()
        expect('a file', shown.startswith('file:///') and 'code' not in shown, True)
        path = shown[len('file://'):]
        expect('its mode', stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, encoding='utf-8') as f:
            page = f.read()
        expect('what is in it', redeem(m, html.unescape(re.search(r'url=([^"]*)"', page).group(1)))[0], 200)
        out = good(det, m, 'open', BROWSER='/no/such/browser', DISPLAY=':7')
        expect('without one', 'Open this in a browser' in out and redeem(m, out)[0] == 200, True)


def test_open_says_how_to_forward_the_port_over_ssh(det):
    with Master(det) as m:
        port = m.host.split(':')[1]
        out = good(det, m, 'open', SSH_CONNECTION='192.0.2.7 51111 198.51.100.3 22')
        expect('forward', f'ssh -N -L {port}:127.0.0.1:{port} ' in out and '@198.51.100.3\n' in out, True)
        expect('address', redeem(m, out)[0], 200)
        out = good(det, m, 'open', SSH_CONNECTION='192.0.2.7 51111 198.51.100.3 2222')
        expect('port of ssh', ' -p 2222 ' in out, True)
        out = good(det, m, 'open', SSH_CONNECTION='nonsense')
        expect('no idea', 'ssh' not in out and redeem(m, out)[0] == 200, True)


def test_plots(det):
    with Master(det, '--slots', '3') as m:
        e = m.create(GRID, {'train.py': TRAIN})
        m.wait_experiment(e, 'STATE_COMPLETED')
        trials = sorted(t['id'] for t in m.trials(e))
        check_text(det, m, e, trials)
        check_svg(det, m, e, trials)
        check_mistakes(det, m, e)


def check_text(det, m, e, trials):
    out = good(det, m, 'experiment', 'plot', e, '--width', 70)
    expect('titles', re.findall(r'^(\S+)  \(over (.*)\)$', out, re.M), [('validation.error', 'batches'), ('training.loss', 'batches')])
    expect('letters without colours', all(f'trial {t}: ' in out for t in trials) and 'a: trial' in out and '⠤' not in out, True)
    expect('width', max(map(len, out.split('\n'))) <= 70, True)
    out = good(det, m, 'experiment', 'plot', e, FORCE_COLOR='1')
    expect('braille', '\x1b[38;5;33m' in out and re.search('[⠁-⣿]', out) is not None, True)
    out = good(det, m, 'trial', 'plot', trials[0], '--metric', 'training.loss', '--log', '--height', 6)
    expect('one trial', re.search('[⠁-⣿]', out) is not None and 'logarithmic' in out and 'error' not in out, True)
    expect('marks', '10 ┤' in out, True)
    out = good(det, m, 'trial', 'plot', trials[0], '--time', '--style', 'blocks')
    expect('time', 'over wall time' in out and re.search(r' m?s', out) is not None and '<b>,&"' in out, True)
    out = good(det, m, 'experiment', 'plot', e, '--trials', trials[1], '--metric', 'loss', LC_ALL='C')
    expect('ASCII', out.isascii() and f'trial {trials[1]}' in out and f'trial {trials[0]}' not in out, True)
    ends = [float(x) for x in re.findall(r': ([\d.]+)', good(det, m, 'experiment', 'plot', e, '--metric', 'loss', '--smooth', '0.9'))]
    expect('smoothed', all(x > 1.5 for x in ends), True)


def check_svg(det, m, e, trials):
    file = os.path.join(m.data, 'curves.svg')
    expect('nothing is printed', good(det, m, 'trial', 'plot', trials[0], '--svg', file), '')
    ns = '{http://www.w3.org/2000/svg}'
    root = xml.parse(file).getroot()
    titles = [t.text for t in root.iter(f'{ns}text') if t.get('class') == 'title']
    expect('titles', titles, ['validation.error', 'training.loss', 'training.<b>,&"'])
    expect('no scripts', [x.tag for x in root.iter() if x.tag in (f'{ns}b', f'{ns}script')], [])
    loss = [p for p in root.iter(f'{ns}path') if p.get('class') == 'line' and p.find(f'{ns}title') is not None][1]
    points = re.findall(r'[ML]([\d.]+) ([\d.]+)', loss.get('d'))
    expect('points', len(points), 40)
    expect('it falls', float(points[0][1]) < float(points[-1][1]), True)
    out = good(det, m, 'experiment', 'plot', e, '--svg', '-')
    expect('to stdout', xml.fromstring(out).tag, f'{ns}svg')


def check_mistakes(det, m, e):
    none = m.create('entrypoint: "true"\nsearcher: {name: single}', activate=False)
    for args, status, words in (((e, '--metric', 'nonsense'), 1, "no metric 'nonsense' was reported; there is validation.error, training.loss"),
                                ((e, '--smooth', '2'), 2, '--smooth must be a number from 0 to 0.99'), ((e, '--width', '5'), 2, '--width must be'),
                                ((e, '--style', 'oil'), 2, '--style must be braille, blocks or letters'), (('99',), 1, '99'), (('x',), 2, 'not the number'),
                                ((none,), 1, 'nothing was reported yet'), ((e, '--trials', 'worst'), 1, 'best:N or all'),
                                ((e, '--svg', '/no/such/folder/x.svg'), 1, '/no/such/folder')):
        got, _, err = command(det, m, 'experiment', 'plot', *args)
        expect(f'{args}: {err}', (got, words in err), (status, True))


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')

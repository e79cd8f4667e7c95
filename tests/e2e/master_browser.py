#!/usr/bin/env python3
"""Browsers: sessions in cookies, codes that open them, requests that other sites forge, and the web page with its headers."""
import contextlib
import gzip
import json
import os
import sqlite3
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests  # noqa: E402
from master_auth import Callers, filled, routes  # noqa: E402

POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; "
          "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


class Browser:
    """One tab: it keeps cookies, and its requests are those of the page unless they are told to be somebody else's."""

    def __init__(self, m):
        self.m, self.cookies, self.scheme = m, {}, 'https' if m.tls else 'http'

    def page_headers(self):
        return {'X-Det-Request': '1', 'Origin': f'{self.scheme}://{self.m.host}', 'Sec-Fetch-Site': 'same-origin'}

    def call(self, method, path, body=None, headers=None):
        """Status, headers and the body of the answer."""
        with contextlib.closing(self.m.connect()) as c:
            h = dict(self.page_headers() if headers is None else headers)
            if self.cookies:
                h['Cookie'] = 'theme=dark; ' + '; '.join(f'{k}={v}' for k, v in self.cookies.items())
            if body is not None:
                h['Content-Type'] = 'application/json'
            c.request(method, path if path.startswith('/') else '/api/v1/' + path, None if body is None else json.dumps(body), h)
            r = c.getresponse()
            for name, value in r.getheaders():
                if name == 'Set-Cookie':
                    self.keep(value)
            return r.status, dict(r.getheaders()), b'' if 'event-stream' in r.getheader('Content-Type') else r.read()

    def keep(self, text):
        self.set_cookie = text
        name, value = text.split(';')[0].split('=')
        self.cookies.pop(name, None)
        if 'Max-Age=0' not in text:
            self.cookies[name] = value

    def status(self, *args, **more):
        return self.call(*args, **more)[0]

    def login(self, name, password):
        return self.status('POST', 'auth/login', {'username': name, 'password': password, 'cookie': True})

    def redeem(self, code):
        return self.status('POST', 'auth/redeem', {'code': code})


def browser_of(m, token=None):
    b = Browser(m)
    expect('redeemed', b.redeem(m.post('auth/codes', token=token)['code']), 200)
    return b


def test_a_login_may_be_a_cookie(det):
    with Master(det) as m:
        m.post('users', {'username': 'ann', 'password': 'correct horse'})
        b = Browser(m)
        expect('nobody yet', b.status('GET', 'me'), 401)
        expect('wrong', (b.login('ann', 'wrong'), b.cookies), (401, {}))
        status, _, text = b.call('POST', 'auth/login', {'username': 'ann', 'password': 'correct horse', 'cookie': True})
        expect('login', (status, sorted(json.loads(text))), (200, ['user']))
        for word in ('HttpOnly', 'SameSite=Strict', 'Path=/', 'Max-Age='):
            expect(word, word in b.set_cookie, True)
        expect('no TLS', 'Secure' in b.set_cookie, False)
        expect('me', json.loads(b.call('GET', 'me')[2])['user']['username'], 'ann')
        m.kill()
        m.start()
        expect('after a restart', b.status('GET', 'me'), 200)
        cookies = dict(b.cookies)
        expect('logout', (b.status('POST', 'auth/logout'), b.cookies), (200, {}))
        b.cookies = cookies
        expect('one that was kept', b.status('GET', 'me'), 401)


def test_a_cookie_under_tls_is_secure(det):
    with Master(det, '--tls') as m:
        b = browser_of(m)
        expect('Secure', ('Secure' in b.set_cookie, b.set_cookie.startswith('__Host-')), (True, True))
        expect('me', b.status('GET', 'me'), 200)
        b.scheme = 'http'
        expect('a page that came without TLS', b.status('POST', 'auth/logout'), 403)


def test_a_code_opens_one_session(det):
    with Master(det) as m:
        answer = m.post('auth/codes')
        expect('answer', sorted(answer), ['code', 'expiresAt'])
        b = Browser(m)
        expect('another code', b.redeem('f' * 64), 401)
        expect('by another site', b.status('POST', 'auth/redeem', {'code': answer['code']}, headers={'Origin': 'http://evil.example'}), 403)
        expect('the code', b.redeem(answer['code']), 200)
        expect('me', json.loads(b.call('GET', 'me')[2])['user']['username'], 'admin')
        expect('a second time', Browser(m).redeem(answer['code']), 401)
        many = [m.post('auth/codes')['code'] for _ in range(9)]
        expect('many: the oldest is gone', [Browser(m).redeem(code) for code in many], [401] + [200] * 8)


def test_a_code_ends_with_the_password_and_the_account(det):
    with Master(det) as m:
        ann = m.post('users', {'username': 'ann', 'password': 'correct horse'})['user']['id']
        token = m.post('auth/login', {'username': 'ann', 'password': 'correct horse'}, token='')['token']
        code, session = m.post('auth/codes', token=token)['code'], browser_of(m, token)
        m.good('PATCH', f'users/{ann}', {'password': 'another one'})
        expect('another password', (Browser(m).redeem(code), session.status('GET', 'me')), (401, 401))
        token = m.post('auth/login', {'username': 'ann', 'password': 'another one'}, token='')['token']
        code, session = m.post('auth/codes', token=token)['code'], browser_of(m, token)
        m.good('PATCH', f'users/{ann}', {'active': False})
        expect('a closed account', (Browser(m).redeem(code), session.status('GET', 'me')), (401, 401))


def test_a_cookie_is_no_token_and_a_token_no_cookie(det):
    with Master(det) as m:
        b = browser_of(m)
        (name, value), = b.cookies.items()
        expect('as a token', m.call('GET', 'me', token=value)[0], 401)
        b.cookies = {name: m.token}
        expect('as a cookie', b.status('GET', 'me'), 401)
        with Master(det) as other:
            b.m, b.cookies = other, {name.replace(m.host.split(':')[1], other.host.split(':')[1]): value}
            expect('at another master', b.status('GET', 'me'), 401)


def test_an_expired_cookie_is_refused(det):
    with Master(det) as m:
        b = browser_of(m)
        m.stop()
        with contextlib.closing(sqlite3.connect(os.path.join(m.data, 'det.db'))) as db, db:
            db.execute('UPDATE sessions SET expiresAt = 1000000 WHERE expiresAt > 0')
        m.start()
        expect('expired', b.status('GET', 'me'), 401)


FORGED = {
    'nothing': {},
    'no header of ours': {'Origin': 'http://{host}'},
    'no origin': {'X-Det-Request': '1'},
    'another site': {'X-Det-Request': '1', 'Origin': 'http://evil.example'},
    'another port': {'X-Det-Request': '1', 'Origin': 'http://127.0.0.1:1'},
    'a longer name': {'X-Det-Request': '1', 'Origin': 'http://{host}.evil.example'},
    'an opaque origin': {'X-Det-Request': '1', 'Origin': 'null'},
    'another scheme': {'X-Det-Request': '1', 'Origin': 'file://{host}'},
}


def test_no_route_does_what_another_site_forges(det):
    """Every route of the table that changes something, by the cookie of an administrator."""
    with Master(det, '--slots', '5') as m:
        callers, b = Callers(m), browser_of(m)
        table = sorted(routes(m))
        n_changing = 0
        for method, path in table:
            at = filled(path, callers.values)
            if method == 'GET':
                for site in ('cross-site', 'same-site'):
                    if b.status('GET', at, headers={'Sec-Fetch-Site': site}) not in (403, *((200,) if is_for_all(m, method, path) else ())):
                        raise Failure(f'{method} {path}: read by a page that is {site}')
                continue
            if path == '/api/v1/auth/login':
                continue
            n_changing += 1
            for how, headers in FORGED.items():
                headers = {k: v.format(host=m.host) for k, v in headers.items()}
                status, _, text = b.call(method, at, {}, headers=headers)
                if status not in (403, 400 if path.endswith('redeem') else 403):
                    raise Failure(f'{method} {path} forged with {how}: {status} {text[:300]}')
        expect('routes that change something', n_changing > 30, True)
        expect('still there', m.experiment(callers.experiment)['state'], 'STATE_ACTIVE')
        expect('by the page itself', b.status('POST', f'experiments/{callers.experiment}/kill'), 200)


def is_for_all(m, method, path):
    return m.call(method, path, token='')[0] == 200


def test_a_forged_login_makes_no_session(det):
    with Master(det) as m:
        m.post('users', {'username': 'ann', 'password': 'correct horse'})
        for how, headers in FORGED.items():
            b = Browser(m)
            headers = {k: v.format(host=m.host) for k, v in headers.items()}
            body = {'username': 'ann', 'password': 'correct horse', 'cookie': True}
            expect(how, (b.status('POST', 'auth/login', body, headers=headers), b.cookies), (403, {}))


def test_every_answer_forbids_frames(det):
    with Master(det) as m:
        b = browser_of(m)
        paths = [p for method, p in routes(m) if method == 'GET' and '{' not in p] + ['/', '/experiments/1', '/api/v1/nothing', '/login']
        for path in paths:
            _, headers, _ = b.call('GET', path)
            for name, word in (('X-Frame-Options', 'DENY'), ('Content-Security-Policy', "frame-ancestors 'none'"),
                               ('X-Content-Type-Options', 'nosniff'), ('Referrer-Policy', 'no-referrer')):
                if word not in headers.get(name, ''):
                    raise Failure(f'GET {path}: {name} is {headers.get(name)}')


def files_of(folder, **files):
    for name, text in files.items():
        path = os.path.join(folder, name.replace('__', '/').replace('_', '.'))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as f:
            f.write(text)


def test_the_page_can_be_read_from_a_directory(det):
    with tempfile.TemporaryDirectory() as folder:
        files_of(folder, index_html='<title>page</title>', assets__app_js='let x = 1', favicon_svg='<svg/>')
        os.symlink('/etc/passwd', os.path.join(folder, 'assets', 'link.js'))
        with Master(det, '--ui-dir', folder) as m:
            b = Browser(m)
            for path in ('/', '/experiments/41?tab=curves', '/login', '/anything/at.all', '/index.html'):
                status, headers, text = b.call('GET', path)
                expect(path, (status, headers['Content-Type'], text), (200, 'text/html; charset=utf-8', b'<title>page</title>'))
                expect('policy', headers['Content-Security-Policy'], POLICY)
            for path, kind in (('/assets/app.js', 'text/javascript; charset=utf-8'), ('/favicon.svg', 'image/svg+xml')):
                status, headers, _ = b.call('GET', path)
                expect(path, (status, headers['Content-Type']), (200, kind))
            for path in ('/assets/none.js', '/assets/link.js', '/assets/../../etc/passwd', '/api/v1/nothing', '/api', '/api/'):
                expect(path, b.status('GET', path), 404)
            expect('not read', b.status('POST', '/experiments/41'), 404)
            expect('outside', b'root:' in b.call('GET', '/..%2f..%2fetc%2fpasswd')[2], False)


def test_the_page_is_in_the_program_or_says_that_it_is_not(det):
    with Master(det) as m:
        b = Browser(m)
        status, headers, text = b.call('GET', '/')
        expect('status', status, 200)
        if headers['Content-Type'].startswith('text/plain'):
            expect('one sentence', (text.count(b'.'), b'without its web page' in text), (2, True))  # one is in a path
            expect('no other page', b.status('GET', '/experiments/1'), 404)
            return
        expect('policy', headers['Content-Security-Policy'], POLICY)
        expect('asked again', (headers['Cache-Control'], b.status('GET', '/', headers={'If-None-Match': headers['ETag']})), ('no-cache', 304))
        _, packed, zipped = b.call('GET', '/', headers={'Accept-Encoding': 'br, gzip'})
        expect('packed', (packed.get('Content-Encoding'), gzip.decompress(zipped)), ('gzip', text))
        name = next(part for part in text.decode().split('"') if part.startswith('/assets/'))
        _, asset, _ = b.call('GET', name)
        expect('for ever', asset['Cache-Control'], 'public, max-age=31536000, immutable')
        expect('any address', b.call('GET', '/experiments/41')[2], text)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')

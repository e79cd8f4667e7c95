#!/usr/bin/env python3
"""A master with TLS: everything that people and tasks do over https, and whom nobody should trust."""
import json
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

EXAMPLES = os.path.join(os.path.dirname(__file__), '..', '..', 'examples')
NAMED = 'det.example.org'


def run(det, *args, home, **env):
    """What a person types, with nothing but a home directory and the given variables."""
    known = {k: v for k, v in os.environ.items() if not k.startswith('DET_')}
    known.update(DET_HOME=home, HOME=home, **env)
    return subprocess.run([det, *args], capture_output=True, text=True, env=known, timeout=120)


def good(det, *args, **more):
    r = run(det, *args, **more)
    if r.returncode:
        raise Failure(f'det {" ".join(args)}: {r.returncode} {r.stderr}')
    return r.stdout


def fails(det, text, *args, status=1, **more):
    r = run(det, *args, **more)
    if r.returncode != status or text not in r.stderr:
        raise Failure(f'det {" ".join(args)}: expected status {status} and "{text}", got {r.returncode} "{r.stderr}"')


def make_certificates(folder):
    """An authority, and a certificate for another name than that of this machine that it has signed."""
    def openssl(*args):
        subprocess.run(['openssl', *args], cwd=folder, check=True, capture_output=True)
    new = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
    openssl('req', '-x509', *new, '-days', '30', '-subj', '/CN=an authority', '-keyout', 'ca-key.pem', '-out', 'ca.pem')
    openssl('req', *new, '-subj', f'/CN={NAMED}', '-keyout', 'key.pem', '-out', 'request.pem')
    with open(os.path.join(folder, 'names'), 'w') as f:
        f.write(f'subjectAltName=DNS:{NAMED}\n')
    openssl('x509', '-req', '-in', 'request.pem', '-CA', 'ca.pem', '-CAkey', 'ca-key.pem', '-CAcreateserial',
            '-days', '30', '-extfile', 'names', '-out', 'cert.pem')
    return [os.path.join(folder, name) for name in ('ca.pem', 'cert.pem', 'key.pem')]


def test_a_whole_experiment(det):
    with Master(det, '--tls', '--slots', '2') as m, tempfile.TemporaryDirectory() as to:
        onevar, others = os.path.join(EXAMPLES, 'onevar'), os.path.join(EXAMPLES, 'generic')
        out = good(det, 'experiment', 'create', os.path.join(onevar, 'const.yaml'), onevar, '-f', home=m.data)
        expect('its end', 'Experiment 1: COMPLETED' in out, True)
        logs = good(det, 'trial', 'logs', '1', '-f', home=m.data)
        expect('the log is not empty', bool(logs), True)
        metrics = good(det, 'trial', 'metrics', '1', '--csv', home=m.data)
        expect('metrics', metrics.count('validation'), 10)
        uuid = json.loads(good(det, 'trial', 'describe', '1', '--json', home=m.data))['latestCheckpoint']
        good(det, 'checkpoint', 'download', uuid, os.path.join(to, 'ckpt'), home=m.data)
        expect('downloaded', os.path.isfile(os.path.join(to, 'ckpt', 'state-dict.pth')), True)
        for name in ('shell.yaml', 'python.yaml'):
            good(det, 'experiment', 'create', os.path.join(others, name), others, '-f', home=m.data)
        expect('states', [m.experiment(e)['state'] for e in (1, 2, 3)], ['STATE_COMPLETED'] * 3)
        status, text = m.call('GET', '/metrics')
        expect('/metrics', (status, b'det_http_requests_total' in text), (200, True))
        expect('reference', '/api/v1/experiments' in m.get('/api/openapi.json')['paths'], True)


def generic(det, epochs):
    """The configuration of a program that uses the library."""
    command = os.path.join(os.path.dirname(os.path.abspath(det)), 'example_generic')
    return f'entrypoint: {command}\nsearcher: {{name: single, metric: loss, max_length: {{epochs: {epochs}}}}}'


def test_a_task_hears_at_once_that_it_is_paused(det):
    with Master(det, '--tls') as m:
        e = m.create(generic(det, 1000000))
        wait_for(lambda: m.trial(1)['totalBatchesProcessed'] > 0, 'some reports')
        m.post(f'experiments/{e}/pause')  # by a request that waits
        wait_for(lambda: m.allocations(1)[0]['state'] == 'STATE_TERMINATED', 'the pause')
        expect('exit', m.allocations(1)[0]['exit'], 'PREEMPTED')


def test_a_task_goes_on_with_the_next_master(det):
    with Master(det, '--tls') as m:
        e = m.create(generic(det, 100))

        def n_reports():
            return len(m.get('trials/1/series?group=validation&name=loss&maxDatapoints=100000')['data'])
        wait_for(lambda: n_reports() > 2, 'some reports')
        with open(os.path.join(m.data, 'master.pem')) as f:
            before = f.read()
        m.kill()
        m.start()
        with open(os.path.join(m.data, 'master.pem')) as f:
            expect('the certificate', f.read() == before, True)
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('reports', n_reports(), 100)
        expect('runs', len(m.allocations(1)), 1)


def test_what_a_task_gets(det):
    with Master(det, '--tls') as m:
        e = m.create('entrypoint: "env; cat $DET_MASTER_CERT_FILE"\nsearcher: {name: single}')
        m.wait_experiment(e, 'STATE_COMPLETED')
        lines = m.lines(1)
        for line in ('DET_MASTER=https://' + m.host, 'DET_USE_TLS=true', 'DET_MASTER_CERT_NAME=127.0.0.1',
                     f'DET_MASTER_CERT_FILE={m.data}/public/master.pem', '-----BEGIN CERTIFICATE-----'):
            expect(line, line in lines, True)
        expect('no key', [x for x in lines if 'PRIVATE' in x or 'tls-key' in x], [])
        mode = os.stat(os.path.join(m.data, 'tls-key.pem')).st_mode
        expect('mode of the key', stat.S_IMODE(mode), 0o600)


def test_whom_clients_trust(det):
    with tempfile.TemporaryDirectory() as away:
        ca, cert, key = make_certificates(away)
        with Master(det, '--tls-cert', cert, '--tls-key', key) as m:
            url = m.announced()['url']
            expect('scheme', url[:8], 'https://')
            good(det, 'slot', 'list', home=m.data)
            there = ['slot', 'list', '-m', url]
            token = {'XDG_CONFIG_HOME': os.path.join(away, 'config')}
            os.makedirs(os.path.join(token['XDG_CONFIG_HOME'], 'det'))
            with open(os.path.join(token['XDG_CONFIG_HOME'], 'det', 'login.json'), 'w') as f:
                json.dump({url: m.token}, f)
            fails(det, f'the certificate of {url} is not to be trusted', *there, home=away)
            fails(det, 'set DET_MASTER_CERT_NAME', *there, home=away, DET_MASTER_CERT_FILE=ca)
            fails(det, 'is for somebody else', *there, home=away, DET_MASTER_CERT_FILE=ca, DET_MASTER_CERT_NAME='x.org')
            for trusted in (ca, cert):
                good(det, *there, home=away, DET_MASTER_CERT_FILE=trusted, DET_MASTER_CERT_NAME=NAMED, **token)
            fails(det, 'begins with https://', 'slot', 'list', '-m', m.host, home=away)
            with Master(det, '--tls') as other:
                fails(det, 'is not to be trusted', *there, home=away, DET_MASTER_CERT_NAME=NAMED,
                      DET_MASTER_CERT_FILE=os.path.join(other.data, 'master.pem'))
            with Master(det) as plain:
                fails(det, 'begins with http://', 'slot', 'list', '-m', 'https://' + plain.host, home=away)
            config = os.path.join(away, 'config.yaml')
            with open(config, 'w') as f:
                f.write(generic(det, 2))
            good(det, 'experiment', 'create', config, '-f', home=m.data)


def test_up_hands_on_all_options(det):
    with tempfile.TemporaryDirectory() as home:
        ca, cert, key = make_certificates(home)
        data = os.path.join(home, 'data')
        try:
            out = good(det, 'up', '--tls-cert', cert, '--tls-key', key, '--listen', '0.0.0.0', '--port', '0', home=data)
            expect('address', out.startswith('The master is at https://127.0.0.1:'), True)
            good(det, 'slot', 'list', home=data)
            good(det, 'down', home=data)
            out = good(det, 'up', '--tls', '--port', '0', home=data)
            expect('address', out.startswith('The master is at https://127.0.0.1:'), True)
        finally:
            good(det, 'down', home=data)
        good(det, 'up', '--port', '0', home=data)
        expect('no certificate is left', os.path.exists(os.path.join(data, 'master.pem')), False)
        good(det, 'down', home=data)


def test_what_is_refused_at_the_start(det):
    with tempfile.TemporaryDirectory() as home:
        _, cert, key = make_certificates(home)
        base = ['master', '--data', os.path.join(home, 'data'), '--port', '0']
        fails(det, 'cert and key go together: key is missing', *base, '--tls-cert', cert, home=home, status=2)
        fails(det, 'cert and key go together: cert is missing', *base, '--tls-key', key, home=home, status=2)
        fails(det, "'/nowhere.pem'", *base, '--tls-cert', '/nowhere.pem', '--tls-key', key, home=home)
        fails(det, 'does not belong to the certificate', *base, '--tls-cert', cert,
              '--tls-key', os.path.join(home, 'ca-key.pem'), home=home)
        os.chmod(key, 0o644)
        fails(det, f"chmod 600 '{key}'", *base, '--tls-cert', cert, '--tls-key', key, home=home)
        for address in ('0.0.0.0', '::', '192.0.2.1'):
            fails(det, 'use --tls (or --tls-cert and --tls-key), or --insecure', *base, '--listen', address, home=home)
        fails(det, "cannot listen on 'no address'", *base, '--tls', '--listen', 'no address', home=home)


def shown(m):
    """The certificate that the server shows, as bytes."""
    host, port = m.host.split(':')
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port))))


def read_der(path):
    with open(path) as f:
        return ssl.PEM_cert_to_DER_cert(f.read())


def hang_up(m, text):
    """Asks it to read its certificate again; text is what it says then."""
    def said():
        with open(m.log.name) as f:
            return f.read().count(text)
    before = said()
    m.process.send_signal(signal.SIGHUP)
    wait_for(lambda: said() > before, f'{text!r} in the log of the master')


def test_a_renewed_certificate_is_read_after_a_signal(det):
    with tempfile.TemporaryDirectory() as at, tempfile.TemporaryDirectory() as new:
        _, cert, key = make_certificates(at)
        _, new_cert, new_key = make_certificates(new)
        with Master(det, '--tls-cert', cert, '--tls-key', key) as m:
            m.tls.check_hostname, m.tls.verify_mode = False, ssl.CERT_NONE  # det and the task are those that check
            e = m.create(generic(det, 1000000))
            wait_for(lambda: m.trial(1)['totalBatchesProcessed'] > 0, 'some reports')
            first = read_der(cert)
            expect('certificate at first', shown(m), first)
            shutil.copy(new_cert, cert)
            hang_up(m, 'stays as it was: the key')  # which is the old one
            with open(cert, 'w') as f:
                f.write('neither a configuration nor a certificate')
            hang_up(m, f"stays as it was: '{cert}' should have a certificate")
            expect('certificate after two bad ones', (shown(m), read_der(m.announced()['cert'])), (first, first))
            good(det, 'slot', 'list', home=m.data)
            shutil.copy(new_cert, cert)
            shutil.copy(new_key, key)
            hang_up(m, 'was read again')
            expect('certificate then', shown(m), read_der(new_cert))
            wait_for(lambda: read_der(m.announced()['cert']) == read_der(new_cert), 'the copy for programs of this machine')
            good(det, 'slot', 'list', home=m.data)
            batches = m.trial(1)['totalBatchesProcessed']
            wait_for(lambda: m.trial(1)['totalBatchesProcessed'] > batches, 'the task to go on')
            m.post(f'experiments/{e}/kill')
            m.wait_experiment(e, 'STATE_CANCELED')
    with Master(det) as plain:
        hang_up(plain, 'neither a configuration nor a certificate')
        expect('answers', plain.call('GET', '/healthz')[0], 200)


def test_plain_beyond_this_machine_must_be_wished_for(det):
    with Master(det, '--listen', '0.0.0.0', '--insecure') as m:
        expect('address', m.host.startswith('127.0.0.1:'), True)
        expect('answers', m.call('GET', '/healthz')[0], 200)


def test_who_does_not_finish_a_handshake_is_dropped(det):
    with Master(det, '--tls') as m:
        host, port = m.host.split(':')
        with socket.create_connection((host, int(port)), timeout=60) as silent:
            silent.sendall(b'\x16\x03\x01')
            expect('end', silent.recv(100), b'')
        expect('answers', m.call('GET', '/healthz')[0], 200)


def test_a_bad_length_is_answered_once(det):
    with Master(det, '--tls') as m:
        host, port = m.host.split(':')
        for length in ('abc', '-1', '', '9' * 30):
            with socket.create_connection((host, int(port)), timeout=30) as plain, m.tls.wrap_socket(plain, server_hostname=host) as s:
                s.sendall(f'POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\nbody'.encode())
                answer = b''
                try:
                    while piece := s.recv(65536):
                        answer += piece
                except ssl.SSLEOFError:
                    pass
            expect(f'answers to {length!r}', (answer[:12], answer.count(b'HTTP/1.1'), b'problem+json' in answer), (b'HTTP/1.1 400', 1, True))


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')

#!/usr/bin/env python3
"""Requests that are made to do harm: each is refused, and the master neither grows nor stops to answer others."""
import json
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests  # noqa: E402

DEEP = 100_000
MAX_GROWTH_KB = 16 << 10
HEAD = 'POST /api/v1/experiments HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n'
CONFIG = 'entrypoint: x\nhyperparameters: {a: {type: int, minval: 0, maxval: 1000000000%s}}\nsearcher: {name: %s, metric: m, max_length: {batches: 1}%s}\n'


def laughs(n, width):
    """A list of lists of lists, each of which names the one before width times."""
    lines = ['a0: &a0 [x]']
    lines += [f'a{i}: &a{i} [' + ', '.join([f'*a{i - 1}'] * width) + ']' for i in range(1, n)]
    return 'entrypoint: x\ndata: {' + ', '.join(lines) + '}\n'


# What stands in the head after the host and the token, what follows, and the answers that will do; None: none at all.
HEADS = {
    'two lengths': ('Content-Length: 2\r\nContent-Length: 3\r\n', '{}', {400, None}),
    'a length and chunks': ('Content-Length: 2\r\nTransfer-Encoding: chunked\r\n', '2\r\n{}\r\n0\r\n\r\n', {400, None}),
    'ten thousand headers': (''.join(f'h{i}: v\r\n' for i in range(10000)), '', {431, None}),
    'one header without an end': ('X: ' + 'x' * (4 << 20), '', {431, None}),
    'a gigabyte that is announced': ('Content-Length: 1073741824\r\n', '', {413}),
    'more bytes than there are': ('Content-Length: 18446744073709551616\r\n', '', {400, 413, None}),
}
BODIES = {
    'deep lists': '[' * DEEP,
    'deep lists that end': '[' * DEEP + ']' * DEEP,
    'deep maps': '{"a":' * DEEP + '1' + '}' * DEEP,
    'deep inside of a field': '{"config": "x", "more": ' + '[' * DEEP + ']' * DEEP + '}',
    'a number without an end': '{"parentId": ' + '9' * DEEP + '}',
    'half of a pair': r'{"config": "\ud800"}',
    'a NUL': r'{"config": "entrypoint: x\u0000"}',
    'one key twice': '{"config": "x", "config": "y"}',
    'no text': b'{"config": "\xff\xfe"}',
}
CONFIGS = {
    'deep lists': 'a: ' + '[' * DEEP,
    'deep lists that end': 'entrypoint: x\ndata: ' + '[' * DEEP + ']' * DEEP,
    'deep maps': 'entrypoint: x\ndata: ' + '{a: ' * DEEP + '}' * DEEP,
    'deep by lines': '\n'.join(' ' * i + 'a:' for i in range(1000)),
    'deep by dashes': '- ' * DEEP + 'x',
    'a billion laughs': laughs(10, 10),
    'many laughs': laughs(100, 2),
    'an alias of itself': 'entrypoint: x\ndata: &a [*a]',
    'an alias of nothing': 'entrypoint: *x',
    'a merge of itself': 'a: &a {<<: *a}\nentrypoint: x',
    'a hundred documents': 'entrypoint: x\n---\n' * 100,
    'a tag that makes objects': 'entrypoint: !!python/object/apply:os.system ["touch /tmp/det-hostile"]',
    'a grid of a billion': CONFIG % (', count: 1000000000', 'grid', ''),
    'a billion trials': CONFIG % ('', 'random', ', max_trials: 1000000000'),
    'a rung for each': CONFIG % ('', 'adaptive_asha', ', max_trials: 10, max_rungs: 1000000000'),
    'a population of a billion': CONFIG % ('', 'pbt', ', population_size: 1000000000, num_rounds: 3, length_per_round: {batches: 1}'),
}


def exchange(m, head, body):
    """The status of what is answered, if anything is. The server may close before everything was sent."""
    host, port = m.host.split(':')
    with socket.create_connection((host, int(port)), timeout=30) as s:
        try:
            s.sendall((head + '\r\n').encode() + (body if isinstance(body, bytes) else body.encode()))
            answer = s.recv(4096)
        except (ConnectionResetError, BrokenPipeError):
            return None
    return int(answer.split()[1]) if answer else None


def memory_kb(m):
    with open(f'/proc/{m.process.pid}/status') as f:
        return int([line.split()[1] for line in f if line.startswith('VmRSS')][0])


def is_sanitized(m):
    with open(f'/proc/{m.process.pid}/maps') as f:
        return 'san.so' in f.read()


def check(m, what, status, wanted):
    if status not in wanted:
        raise Failure(f'{what}: {status}, expected one of {wanted}')
    expect(f'alive after {what}', m.call('GET', '/healthz')[0], 200)


def test_abuse_is_refused(det):
    with Master(det) as m:
        head = HEAD % m.token
        for body in ('{', '{"config": "["}'):  # what memory the first requests take is not of interest
            exchange(m, head + f'Content-Length: {len(body)}\r\n', body)
        before = memory_kb(m)
        for what, (more, body, wanted) in HEADS.items():
            check(m, what, exchange(m, head + more, body), wanted)
        for what, body in BODIES.items():
            check(m, f'JSON: {what}', exchange(m, head + f'Content-Length: {len(body)}\r\n', body), {400})
        for what, config in CONFIGS.items():
            body = json.dumps({'config': config})
            check(m, f'YAML: {what}', exchange(m, head + f'Content-Length: {len(body)}\r\n', body), {400})
        growth = memory_kb(m) - before
        if growth > MAX_GROWTH_KB and not is_sanitized(m):
            raise Failure(f'the master has grown by {growth} KB, more than {MAX_GROWTH_KB}')
        expect('experiments', m.get('experiments')['experiments'], [])
        expect('programs that ran', os.path.exists('/tmp/det-hostile'), False)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')

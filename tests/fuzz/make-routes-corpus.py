#!/usr/bin/python3
"""make-routes-corpus.py DET: writes the first inputs of the fuzz target routes and its dictionary, from the description of the API
that a master gives: for each row a request that is in order, and some stories of several requests."""
import json
import sys
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / 'support'))
from master import Master  # noqa: E402

CONFIG = """{name: n, entrypoint: x, description: d, labels: [a], hyperparameters: {x: {type: log, minval: -3, maxval: 1, base: 10},
i: {type: int, minval: 1, maxval: 9, count: 3}, c: {type: categorical, vals: [1, two, null]}, k: 5}, searcher: {name: %s, metric: loss,
smaller_is_better: false, max_length: {batches: 9}, max_trials: 3%s}, max_restarts: 1, resources: {slots_per_trial: %d, priority: 42},
checkpoint_policy: best, min_validation_period: {batches: 3}, log_policies: [{pattern: a.c, action: {type: cancel_retries}}]}"""
# What fields must be for a request to get far; others are made up by their type.
KNOWN = {'config': CONFIG % ('random', '', 1), 'uuid': '11111111-2222-4333-8444-555555555555', 'trialRunId': 1, 'stepsCompleted': 3,
         'group': 'validation', 'metrics': {'loss': 0.5, 'nan': 'NaN', 'deep': {'a': [1, None, 'x']}}, 'length': 9, 'searcherMetric': 0.5,
         'code': None, 'template': None, 'parentId': None, 'overrideConfig': '{searcher: {max_length: {batches: 18}}}',
         'resources': {'state': 1}, 'username': 'bob', 'password': 'password', 'active': None, 'timestamp': '2026-01-31T10:20:30Z',
         'reportTime': '2026-01-31T10:20:30.5Z', 'timestampAfter': '2026-01-31T10:20:30Z', 'timestampBefore': '2027-01-31T10:20:30Z',
         'follow': None, 'timeout_seconds': None, 'id': 1, 'after': None, 'sortBy': None, 'validateOnly': None, 'activate': None}


def write(name, data):
    (HERE / 'corpus/routes').mkdir(exist_ok=True)
    (HERE / f'corpus/routes/seed-{name}').write_bytes(data)


def example(name, schema):
    for part in schema.get('allOf', ()):
        schema = {**schema, **part}
    if name in KNOWN:
        return KNOWN[name]
    if 'enum' in schema:
        return schema['enum'][0]
    kind = schema.get('type')
    if kind == 'object':
        values = {k: example(k, v) for k, v in schema.get('properties', {}).items()}
        return {k: v for k, v in values.items() if v is not None}
    if kind == 'array':
        return [example('', schema['items'])]
    return {'integer': int(schema.get('minimum', 1)), 'number': 0.5, 'boolean': True}.get(kind, 'x')


def names_of(schema):
    """Of all fields, and of the values that a field is one of."""
    for name, field in schema.get('properties', {}).items():
        yield name
        yield from names_of(field)
    for part in [*schema.get('allOf', ()), *([schema['items']] if 'items' in schema else ())]:
        yield from names_of(part)
    yield from filter(None, schema.get('enum', ()))


def route_seeds():
    def request(row, how='a', body=None):
        return f'{row}\n{how}\n{body if isinstance(body, str) else json.dumps(body) if body is not None else ""}'
    with Master(sys.argv[1]) as m:
        paths = json.load(urllib.request.urlopen(f'http://{m.host}/api/openapi.json'))['paths']
    words = {'\x1e', 'exit 0', 'exit 1'}
    bodies = {}
    for path, methods in paths.items():
        for method, about in methods.items():
            row = f'{method.upper()} {path}'
            schema = about.get('requestBody', {}).get('content', {}).get('application/json', {}).get('schema', {})
            query = {p['name']: example(p['name'], p['schema']) for p in about.get('parameters', ()) if p['in'] == 'query'}
            query = '&'.join(f'{k}={json.dumps(v[0] if isinstance(v, list) else v)}'.replace('"', '') for k, v in query.items() if v is not None)
            words.update([row, *names_of(schema), *(p['name'] for p in about.get('parameters', ()))])
            body = bodies[row] = example('', schema) if schema else None
            name = row.strip('/').replace('/api/v1/', '').translate(str.maketrans('/ ', '--', '{}'))
            for who in 'aut':
                write(f'{name}-{who}', request(row, who + (f'?{query}' if query else ''), body).encode())
    trial, alloc, one = '/api/v1/trials/{trial}', '/api/v1/allocations/{alloc}', '/api/v1/experiments/{experiment}'
    flows = {
        'training': [request(f'POST {alloc}/ready', 't'), request(f'POST {trial}/metrics', 't#k', bodies[f'POST {trial}/metrics']),
                     request(f'POST {trial}/metrics', 't#k', bodies[f'POST {trial}/metrics']),
                     request('POST /api/v1/checkpoints', 't', bodies['POST /api/v1/checkpoints']),
                     request(f'POST {trial}/searcher/completed_operation', 't', bodies[f'POST {trial}/searcher/completed_operation']),
                     'exit 0', request(f'GET {one}', 'u'), request(f'GET {one}/checkpoints', 'u')],
        'batches': [request(f'POST {trial}/metrics', f't#{KNOWN["uuid"]}:{key}', {'trialRunId': 1, 'reports': [
                    {'group': 'g', 'stepsCompleted': i, 'metrics': {'a': i}} for i in range(1, n + 1)]}) for key, n in (('1-2', 2), ('1-3', 3), ('1', 1))],
        'stopping': [request(f'GET {alloc}/signals/preemption', 't?timeout_seconds=60'), request(f'POST {one}/pause', 'u'),
                     request(f'POST {alloc}/signals/ack_preemption', 't'), 'exit 0', request(f'POST {one}/activate', 'u'),
                     request(f'POST {one}/kill', 'u'), request(f'DELETE {one}', 'u/1')],
        'watching': [request('GET /api/v1/events'), request(f'GET {trial}/logs', 'a?follow=true'), request('POST /api/v1/task/logs', 't',
                     bodies['POST /api/v1/task/logs']), 'exit 1', 'exit 1', request('GET /api/v1/jobs')],
        'continuing': [request(f'POST {one}/cancel', 'u/1'), 'exit 0', 'exit 0', request('POST /api/v1/experiments/continue', 'u',
                       bodies['POST /api/v1/experiments/continue'])],
        'logging-in': [request('POST /api/v1/auth/login', 'n', {'username': 'ann', 'password': 'password'}), request('POST /api/v1/auth/logout', 'u')],
        'template': [request('PUT /api/v1/templates/{name}', 'a/t', bodies['PUT /api/v1/templates/{name}']),
                     request('POST /api/v1/experiments', 'u', {'config': 'entrypoint: x', 'template': 't', 'validateOnly': True})],
    }
    for method, more in (('single', ''), ('grid', ''), ('adaptive_asha', ''), ('asha', ', num_rungs: 2, divisor: 3'), ('tpe', ''), ('cmaes', ''),
                         ('pbt', ', population_size: 2, num_rounds: 2, length_per_round: {batches: 4}'), ('custom', ', command: [x]')):
        flows[f'search-{method}'] = [request('POST /api/v1/experiments', 'u', {'config': CONFIG % (method, more, 0)})]
    flows['generic'] = [request('POST /api/v1/experiments', 'u', {'config': '{entrypoint: x}', 'type': 'TYPE_GENERIC'})]
    for name, requests in flows.items():
        write(f'flow-{name}', '\x1e'.join(requests).encode())
    words.update(w for w in CONFIG.replace('{', ' ').replace('}', ' ').replace(':', ' ').replace(',', ' ').split() if w.isidentifier())
    lines = sorted('"' + w.replace('\\', '\\\\').replace('"', '\\"').replace('\x1e', '\\x1e') + '"' for w in words)
    (HERE / 'routes.dict').write_text('# Written by make-routes-corpus.py: rows, names and values of all routes.\n' + '\n'.join(lines) + '\n')


route_seeds()

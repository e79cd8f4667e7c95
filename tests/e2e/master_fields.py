#!/usr/bin/env python3
"""Nothing that is asked for is passed over: fields of bodies that no route knows are refused by name, keys of configurations that have no
effect are named when the experiment is created and when it is described."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, run_tests  # noqa: E402
from master_auth import Callers, filled, routes, rules  # noqa: E402

def expect(fact, what):
    if not fact:
        raise Failure(what)


FIELD = 'nobodyKnowsThis'
RUNS = {'entrypoint': 'true', 'searcher': {'name': 'single'}, 'max_restarts': 0}


def one_who_may(who):
    return next(name for name in ('root', 'own', 'everybody') if name in who)


def test_every_route_refuses_a_field_that_it_does_not_know_by_its_name(det):
    with Master(det, '--slots', '6') as m:
        callers, allowed, tried = Callers(m), rules(), 0
        for method, path in routes(m):
            if method == 'GET':
                continue
            token = callers.tokens.get(one_who_may(allowed[method, path]), '')
            status, answer = m.call(method, filled(path, callers.values), {FIELD: 1}, token=token)
            expect(status == 400 and FIELD in str(answer), f'{method} {path}: {status} {answer}')
            tried += 1
        expect(tried > 25, tried)
        m.get(f'experiments/{callers.experiment}')  # nothing of all that was done


def test_a_field_inside_of_another_is_named_with_its_path(det):
    with Master(det, '--slots', '6') as m:
        callers = Callers(m)
        report = {'group': 'training', 'stepsCompleted': 1, 'metrics': {'loss': 1}, FIELD: 1}
        status, answer = m.call('POST', f'/api/v1/trials/{callers.trial}/metrics', {'trialRunId': 1, 'reports': [report]},
                                token=callers.tokens['own'])
        expect(status == 400 and f'reports[0].{FIELD}' in str(answer), answer)


def test_an_experiment_with_a_misnamed_model_is_not_created(det):
    with Master(det) as m:
        status, answer = m.call('POST', '/api/v1/experiments', {'config': json.dumps(RUNS), 'modelDefinition': 'abc'})
        expect(status == 400 and 'modelDefinition' in str(answer), answer)
        expect(m.get('experiments')['experiments'] == [], 'an experiment was created')


def test_keys_without_effect_are_named_by_create_and_describe(det):
    with Master(det) as m:
        config = {**RUNS, 'profiling': {'enabled': True}, 'slurm': {'gpu_type': 'a'}, 'environment': {'image': 'x'}, 'data_layer': {}}
        answer = m.post('experiments', {'config': json.dumps(config)})
        described = m.get(f'experiments/{answer["experiment"]["id"]}')
        for warnings in (answer['warnings'], described['warnings']):
            keys = sorted(w.split(': ')[0] for w in warnings)
            expect(keys == ['data_layer', 'environment.image', 'profiling', 'slurm'], warnings)
        plain = m.post('experiments', {'config': json.dumps(described['config'])})['warnings']  # a fork says it again
        expect(sorted(w.split(': ')[0] for w in plain) == ['environment.image', 'profiling', 'slurm'], plain)


def test_storage_that_is_not_written_to_is_refused(det):
    with Master(det) as m:
        kinds = ({'type': 'gcs', 'bucket': 'b'}, {'type': 's3', 'bucket': 'b'},
                 {'type': 'azure', 'container': 'c', 'account_url': 'u'})
        for storage in kinds:
            status, answer = m.call('POST', '/api/v1/experiments', {'config': json.dumps({**RUNS, 'checkpoint_storage': storage})})
            expect(status >= 400 and f'checkpoint_storage.type: {storage["type"]} is refused' in str(answer), answer)


def test_a_job_runs_in_its_work_dir(det):
    with Master(det) as m:
        os.makedirs(m.shared('elsewhere'))
        for work_dir, wanted in ((m.shared('elsewhere'), '/elsewhere'), ('below', '/below')):
            config = {'entrypoint': 'pwd', 'work_dir': work_dir}
            e = m.create(json.dumps(config), {'below/file': 'x'}, type='TYPE_GENERIC')
            m.wait_experiment(e, 'STATE_COMPLETED')
            lines = m.lines(m.trials(e)[0]['id'])
            expect(any(line.endswith(wanted) for line in lines), lines)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')

#!/bin/sh
# det simulate-search: whole searches, without any training.
. "$(dirname "$0")/lib.sh"

# The samples are those of Determined for the same seed.
run "$det" simulate-search "$golden/config/seed-002-random.yaml" --seed 0 --json
expect_status 0
expect_no_err
expect_out '{"event":"create","trial":1,"request_id":"c0cc21d8-43b3-4e9a-bb52-a2dbc3767d8b","trial_seed":1491434855,"hparams":{"batch_size":45,"learning_rate":0.00015335192657991558}}'
expect_out '{"event":"create","trial":3,"request_id":"c142487a-e67d-4eca-a74a-eacf57a86587","trial_seed":2061486254,"hparams":{"batch_size":25,"learning_rate":3.5100442309980525e-05}}'
cp out first
run "$det" simulate-search "$golden/config/seed-002-random.yaml" --seed 0 --json
expect_out_is first
run "$det" simulate-search "$golden/config/seed-000-grid.yaml" --seed 0 --json
expect_status 0
expect_out '"trial":1,"request_id":"ac0a7f8c-2faa-4497-b5a6-16b7c0cc21d8","trial_seed":441365315,"hparams":{"global_batch_size":64}}'

cat >asha.yaml <<'END_OF'
searcher: {name: async_halving, num_rungs: 3, max_length: {batches: 64}, max_trials: 16}
hyperparameters: {lr: {type: log, base: 10, minval: -4, maxval: -1}}
END_OF
cat >check.py <<'END_OF'
# check.py FILE TRIALS "LENGTH:TRIALS ...": the events of a simulation fit together.
import json, sys
from collections import Counter
last, closed = {}, set()
events = [json.loads(line) for line in open(sys.argv[1])]
for e in events[:-1]:
    kind, trial = e['event'], e['trial']
    if kind == 'create':
        assert trial == len(last) + 1
        last[trial] = 0
    elif kind == 'validate':
        assert trial not in closed and e['length'] >= last[trial]
        last[trial] = e['length']
    elif kind == 'close':
        assert trial not in closed
        closed.add(trial)
end = events[-1]
assert end['event'] == 'shutdown' and end['trials'] == len(last) == len(closed) == int(sys.argv[2]), end
assert end['units'] == sum(last.values()), end
got = ' '.join(f'{length}:{n}' for length, n in sorted(Counter(last.values()).items()))
assert len(sys.argv) < 4 or got == sys.argv[3], got
END_OF
check() {
    cp out events
    run python3 check.py events "$@"
    expect_status 0
}
run "$det" simulate-search asha.yaml --seed 1 --order worse --json
check 16 "4:12 16:3 64:1"
run grep -c '"metric":0.16' events
expect_out 1
run "$det" simulate-search asha.yaml --seed 1 --order better --json
check 16 "4:3 16:3 64:10"
run "$det" simulate-search asha.yaml --seed 1 --order equal --json
check 16 "4:12 16:3 64:1"
sed 's/max_trials: 16/max_trials: 16, stop_once: true/' asha.yaml >stop.yaml
run "$det" simulate-search stop.yaml --seed 1 --order worse --json
check 16 "4:15 64:1"
run "$det" simulate-search stop.yaml --seed 1 --order better --json
check 16 "64:16"
# Worse is worse, whatever is better.
sed 's/max_trials: 16/max_trials: 16, smaller_is_better: false/' asha.yaml >large.yaml
run "$det" simulate-search large.yaml --order worse --json
check 16 "4:12 16:3 64:1"

# Failures.
run "$det" simulate-search asha.yaml --seed 1 --fail-rate 0.3 --json
expect_out '"event":"exit"'
check 16
run "$det" simulate-search asha.yaml --seed 1 --fail-rate 1 --json
expect_out '"outcome":"failed"'
check 16 "0:16"

# For people.
run "$det" simulate-search asha.yaml --seed 1 --order worse
expect_status 0
expect_out "async_halving, completed: 16 trials, 160 batches in all"
expect_out "        12  trained for 4 batches"
expect_out "best: trial 1, 0.01"

# Recorded curves: trial 2 is bad at first and best in the end.
cat >curves.jsonl <<'END_OF'
{"hparams": {"lr": 0.1}, "curve": [[4, 0.5], [64, 0.4]]}
{"hparams": {"lr": 0.2}, "curve": [[4, 0.6], [16, 0.2], [64, 0.1]]}

{"curve": [[10, 0.9]]}
END_OF
give 'searcher: {name: random, max_trials: 4, max_length: 34}\n'
run "$det" simulate-search - --seed 1 --curves curves.jsonl --json
expect_status 0
expect_out '{"event":"validate","trial":1,"length":34,"metric":0.45}'
expect_out '{"event":"validate","trial":2,"length":34,"metric":0.1625}'
expect_out '{"event":"validate","trial":3,"length":34,"metric":0.9}'
expect_out '{"event":"validate","trial":4,"length":34,"metric":0.45}'
for line in '{"curve": []}' '{"curve": [[1]]}' '{"curve": [[2, 1], [1, 1]]}' '[' '{}'; do
    echo "$line" >bad.jsonl
    run "$det" simulate-search asha.yaml --curves bad.jsonl
    expect_status 2
    expect_err "det: bad.jsonl:1: "
done
run "$det" simulate-search asha.yaml --curves /dev/null
expect_status 2
expect_err "det: /dev/null: must have 1 to 1000000 lines, found 0"

# Every searcher runs to its end.
for name in era-a-adaptive era-a-pbt era-a-simple era-b-asha era-b-bare-number era-c-time searcher-bohb searcher-cmaes \
            searcher-sync-halving searcher-tpe; do
    run "$det" simulate-search "$golden/config/$name.yaml" --seed 3 --fail-rate 0.1
    expect_status 0
    expect_out ", completed: "
done

# A program decides: one trial after the other, as long as they get better.
cat >program.py <<'END_OF'
import json, sys
def answer(*operations):
    print(json.dumps({'operations': operations}), flush=True)
n, best = 0, 1e9
for line in sys.stdin:
    e = json.loads(line)
    if e['event'] == 'validated':
        best, worse = min(best, e['metric']), e['metric'] > best
        answer({'op': 'close', 'trial': n})
    elif e['event'] == 'start' or e['event'] == 'closed' and not worse:
        n += 1
        answer({'op': 'create', 'hparams': {'x': n}}, {'op': 'validate_after', 'trial': n, 'length': 10 * n})
    else:
        answer()
END_OF
give 'searcher: {name: custom, command: [python3, program.py], unit: epochs}\n'
run "$det" simulate-search - --seed 3 --order worse --json
expect_status 0
expect_out '"trial":2'
check 2 "10:1 20:1"
give 'searcher: {name: custom, command: "echo nonsense"}\n'
run "$det" simulate-search -
expect_status 2
expect_err "det: the answer of the search program: "
give 'searcher: {name: custom, command: "exit 3"}\n'
run "$det" simulate-search -
expect_status 1
expect_err "det: the program "
give 'searcher: {name: custom, command: [./missing]}\n'
run "$det" simulate-search -
expect_status 1
expect_err "det: cannot start './missing': No such file or directory"
give 'searcher: {name: custom}\n'
run "$det" simulate-search -
expect_status 2
expect_err "det: searcher.command is not set: there is nobody to ask"

# Wrong calls.
run "$det" simulate-search asha.yaml --seed x
expect_status 2
expect_err "det: --seed must be a number from 0 to 2147483647, found 'x'"
run "$det" simulate-search asha.yaml --order best
expect_status 2
expect_err "det: --order must be one of worse, better, equal, random, found 'best'"
run "$det" simulate-search asha.yaml --fail-rate 2
expect_status 2
expect_err "det: --fail-rate must be a number from 0 to 1, found '2'"
run "$det" simulate-search asha.yaml --order worse --curves curves.jsonl
expect_status 2
expect_err "det: give --order or --curves, not both"

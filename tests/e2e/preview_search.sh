#!/bin/sh
# det preview-search: what the real program says about searches.
. "$(dirname "$0")/lib.sh"

# The seeds' own configurations, as they are written.
run "$det" preview-search "$golden/config/seed-000-grid.yaml"
expect_status 0
expect_no_err
expect_out "grid: 3 trials, 60 epochs in all"
run "$det" preview-search "$golden/config/seed-002-single.yaml"
expect_out "single: 1 trial, 1 epoch in all"
run "$det" preview-search "$golden/config/seed-002-random.yaml"
expect_out "random: 10 trials, 500 epochs in all"
run "$det" preview-search "$golden/config/seed-003-const.yaml"
expect_out "single: 1 trial, 2000 batches in all"

# No entrypoint is needed to think about a search.
cat >asha.yaml <<'END_OF'
searcher: {name: adaptive_asha, max_length: {batches: 64}, max_trials: 16, mode: conservative}
END_OF
run "$det" preview-search asha.yaml
expect_status 0
cat >expected <<'END_OF'
adaptive_asha: 16 trials, 292 batches in all
         9  trained for 4 batches
         4  trained for 16 batches
         3  trained for 64 batches
bracket 1: 12 trials in 3 rungs, 6 at a time
         9  trained for 4 batches
         2  trained for 16 batches
         1  trained for 64 batches
bracket 2: 3 trials in 2 rungs, 5 at a time
         2  trained for 16 batches
         1  trained for 64 batches
bracket 3: 1 trial in 1 rung, 5 at a time
         1  trained for 64 batches
END_OF
expect_out_is expected

run "$det" preview-search asha.yaml --json
expect_status 0
cp out plan.json
run python3 -c "
import json
p = json.load(open('plan.json'))
assert (p['trials'], p['units'], p['unit']) == (16, 292, 'batches'), p
assert p['lengths'] == [{'length': 4, 'trials': 9}, {'length': 16, 'trials': 4}, {'length': 64, 'trials': 3}], p
assert [b['trials'] for b in p['brackets']] == [12, 3, 1], p
assert [b['concurrent'] for b in p['brackets']] == [6, 5, 5], p
assert [b['rungs'] for b in p['brackets']] == [3, 2, 1], p
"
expect_status 0

# Every searcher has a plan, except those that only a program knows.
for name in era-a-adaptive era-a-pbt era-a-simple era-b-asha era-b-bare-number era-c-time searcher-bohb searcher-cmaes \
            searcher-sync-halving searcher-tpe; do
    run "$det" preview-search "$golden/config/$name.yaml" --json
    expect_status 0
done
run "$det" preview-search "$golden/config/searcher-custom.yaml"
expect_status 1
expect_err "det: what a custom search does is known only to its program"

# The training code decides how long it takes.
give 'searcher: {name: single}\n'
run "$det" preview-search -
expect_out "trained as long as the code decides"
give 'searcher: {name: single}\n'
run "$det" preview-search - --json
expect_out '"units": null'

give 'searcher: {name: random}\n'
run "$det" preview-search -
expect_status 2
expect_no_out
expect_err "stdin:1:11: searcher.max_trials: required, but missing"
run "$det" preview-search missing.yaml
expect_status 1
expect_err "det: cannot open 'missing.yaml'"

#!/bin/sh
# det config check: output, errors and exit statuses of the real program.
. "$(dirname "$0")/lib.sh"

# The seeds' own configurations are accepted as they are written.
for name in seed-000-grid seed-002-single seed-002-checkpoints seed-002-random seed-003-const; do
    run "$det" config check "$golden/config/$name.yaml"
    expect_status 0
    expect_no_err
    expect_out "experiment_seed:"
done
run "$det" config check --job "$golden/config/job-seed-000.yaml"
expect_status 0
expect_out "  slots: 8"

# Complete output, as YAML and as JSON, which say the same.
cat >a.yaml <<'END'
name: a
entrypoint: python3 train.py
searcher: {name: single, max_length: {epochs: 3}}
reproducibility: {experiment_seed: 7}
END
run "$det" config check a.yaml
expect_status 0
cp out complete.yaml
run "$det" config check complete.yaml
expect_status 0
expect_out_is complete.yaml
run "$det" config check a.yaml --json
expect_status 0
cp out complete.json
run python3 -c "import json; c = json.load(open('complete.json')); assert c['searcher']['max_length'] == {'epochs': 3}, c"
expect_status 0
run "$det" config check complete.json
expect_status 0
expect_out_is complete.yaml

# Standard input.
give 'entrypoint: a\nsearcher: {name: single}\n'
run "$det" config check -
expect_status 0
expect_out "name: Experiment ("
give 'entrypoint: a\nsearcher: {name: singel}\n'
run "$det" config check -
expect_status 2
expect_err "stdin:2:18: searcher.name: must be one of single,"

# All errors at once, nothing on stdout.
cat >bad.yaml <<'END'
entrypoint: a
max_restart: 3
searcher:
  name: random
  max_trials: 0
END
run "$det" config check bad.yaml
expect_status 2
expect_no_out
expect_err "bad.yaml:2:1: max_restart: unknown field; did you mean 'max_restarts'?"
expect_err "bad.yaml:5:15: searcher.max_trials: must be between 1 and 10000000, found 0"

# A warning does not make it fail.
give 'entrypoint: a\nsearcher: {name: single}\nresources: {agent_label: x}\n'
run "$det" config check -
expect_status 0
expect_err "stdin:3:13: warning: resources.agent_label: is ignored."

# Files that cannot be read, or are too large.
run "$det" config check missing.yaml
expect_status 1
expect_err "det: cannot open 'missing.yaml': No such file or directory"
head -c 1100000 /dev/zero | tr '\0' '#' >large.yaml
run "$det" config check large.yaml
expect_status 1
expect_err "det: cannot read 'large.yaml': it is larger than 1048576 bytes"

# Output that gets lost is a failure.
run sh -c "'$det' config check a.yaml >/dev/full"
expect_status 1
expect_err "det: cannot write the output: No space left on device"

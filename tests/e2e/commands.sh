#!/bin/sh
# Commands of det against a real master: an experiment from its creation to its end.
. "$(dirname "$0")/lib.sh"

export DET_HOME="$tmp/home" XDG_CONFIG_HOME="$tmp/config"
unset DET_MASTER || true
trap '"$det" down >/dev/null 2>&1 || true; rm -rf "$tmp"' EXIT

# --- no master

run "$det" experiment list
expect_status 1
expect_err "start a master with 'det up'"
run "$det" down
expect_status 0
expect_out "No master is running."

# --- a master in the background

run "$det" up --port 0 --slots 2
expect_status 0
expect_out "The master is at http://127.0.0.1:"
run "$det" up
expect_status 0
expect_out "A master is running already"
run env DET_HOME="$tmp/other" "$det" up --port "$(sed 's/.*://; s/[^0-9].*//' out)"
expect_status 1
expect_err "the master did not start: cannot listen on 127.0.0.1 port"
run "$det" slot list
expect_out "CPU 1"
run "$det" user whoami --json
expect_out '"username": "admin"'

# --- an experiment that completes

mkdir -p code/sub
cat >code/const.yaml <<'YAML'
name: greeting
entrypoint: sh run.sh
hyperparameters: {word: hello}
searcher: {name: single, metric: loss, max_length: {batches: 10}}
YAML
echo 'echo "$DET_HPARAMS"; test ! -e left.out && echo all is well' >code/run.sh
echo 'something' >code/sub/kept
echo 'something' >code/left.out
echo '*.out' >code/.detignore
run "$det" experiment create code/const.yaml code -f
expect_status 0
expect_out "Preparing files (code) to send to master..."
expect_out "and 5 files"
expect_out "Created experiment 1"
expect_out "Activated experiment 1"
expect_out "Experiment 1: COMPLETED"
run "$det" experiment logs 1
expect_out '"word":"hello"'
expect_out "all is well"
run "$det" trial logs 1 --tail 1
expect_out "all is well"
run "$det" experiment list --csv
expect_out "1,greeting,STATE_COMPLETED"
run "$det" experiment describe 1
expect_out "COMPLETED"
run "$det" experiment config 1
expect_out "name: greeting"
run "$det" experiment list-trials 1
expect_out 'word=hello'
run "$det" experiment list-trials 1 --csv
expect_out '{""word"":""hello""}'
run "$det" experiment download-model-def 1 code.tgz
expect_status 0
run tar tzf code.tgz
expect_out "sub/kept"

# --- one that is steered

echo 'echo started; exec sleep 1000' >code/run.sh
run "$det" experiment create code/const.yaml code --paused --config name=long --config hyperparameters.word=bye
expect_status 0
expect_out "Created experiment 2"
run "$det" experiment label add 2 base
expect_status 0
run "$det" experiment set description 2 "a long one"
run "$det" experiment set priority 2 7
expect_status 0
run "$det" experiment describe 2 --json
expect_out '"name": "long"'
expect_out '"description": "a long one"'
expect_out '"base"'
run "$det" experiment activate 2
expect_status 0
run "$det" why 2
expect_out "Experiment 2 is ACTIVE"
run "$det" job list
expect_out "SCHEDULED"
mkfifo lines
"$det" trial logs 2 -f >lines &
follower=$!
run grep -m 1 started lines # comes while the trial goes on
expect_out "started"
kill $follower
wait $follower || true
run "$det" experiment kill 2
expect_status 0
run "$det" experiment wait 2
expect_status 1
expect_out "Experiment 2: CANCELED"
run "$det" experiment archive 2
expect_status 0
run "$det" experiment fork 1 --paused
expect_out "Created experiment 3"
run "$det" experiment delete 3
expect_status 1

# --- one that fails

echo 'echo this is what went wrong >&2; exit 3' >code/run.sh
run "$det" experiment create code/const.yaml code -f --config max_restarts=0
expect_status 1
expect_out "Experiment 4: ERROR"
expect_out "    | this is what went wrong"
run "$det" why 4
expect_out "Experiment 4 is ERROR"
expect_out "    | this is what went wrong"

# --- users

give 'a good password\n'
run "$det" user create ada
expect_status 0
give 'a bad password\n'
run "$det" user login ada
expect_status 1
expect_err "wrong"
give 'a good password\n'
run "$det" user login ada
expect_status 0
run "$det" user whoami
expect_out "ada"
run "$det" user create eve
expect_status 1
run "$det" user logout
expect_status 0
run "$det" user whoami
expect_out "admin"

# --- mistakes

run "$det" experiment create missing.yaml
expect_status 2
expect_err "missing.yaml"
echo 'searcher: {nam: single}' >bad.yaml
run "$det" experiment create bad.yaml code
expect_status 2
expect_err "bad.yaml:1:12"
run "$det" experiment describe 99
expect_status 1
run "$det" trial logs twelve
expect_status 2
run "$det" -m http://127.0.0.1:9 experiment list
expect_status 1
expect_err "start a master"

run "$det" down
expect_status 0
expect_out "The master is stopped."

# --- without one in the background

echo 'echo here and now' >code/run.sh
run "$det" experiment create code/const.yaml code --local
expect_status 0
expect_out "Experiment 1: COMPLETED"
run "$det" down --data "$tmp/home/local"
expect_out "No master is running."
echo 'exit 3' >code/run.sh
run "$det" experiment create code/const.yaml code --local --config max_restarts=0
expect_status 1
expect_out "Experiment 2: ERROR"

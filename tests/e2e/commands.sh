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
expect_out "[trial 1] [rank=0] all is well" # what it printed, with whose it is
run "$det" experiment logs 1
expect_out '"word":"hello"'
expect_out "[trial 1] [rank=0] all is well"
run "$det" experiment logs 1 -f --tail 1
expect_out "all is well"
expect_out_without hello
run "$det" trial logs 1
expect_out_without "[trial"
expect_out "all is well"
run "$det" trial logs 1 --tail 1
expect_out "all is well"
run "$det" experiment list --csv
expect_out "1,greeting,STATE_COMPLETED"

# --- short forms, and what is not a number

run "$det" e ls --csv
expect_out "1,greeting,STATE_COMPLETED"
run "$det" experiment
expect_status 0
expect_out "greeting"
run "$det" e lt 1 --csv
expect_out "STATE_COMPLETED"
run "$det" e describe first
expect_status 2
expect_err "'first' is not the number of an experiment"
for verb in fork continue; do
    run "$det" experiment $verb first
    expect_status 2
    expect_err "'first' is not the number of an experiment"
done
run "$det" experiment kill 1
expect_status 0
expect_out "Experiment 1 has ended: COMPLETED."

# --- archived ones are not listed

run "$det" experiment archive 1
expect_out "Experiment 1 is archived."
run "$det" experiment list
expect_out_without "greeting"
run "$det" experiment list --all
expect_out "greeting"
run "$det" experiment unarchive 1
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
run "$det" why 2
expect_out "  paused; in the queue, priority 7"
run "$det" job list
expect_out "PAUSED"
expect_out_without "QUEUED"
run "$det" experiment activate 2
expect_status 0
run "$det" job list
expect_out "SCHEDULED"
mkfifo lines
"$det" trial logs 2 -f >lines &
follower=$!
run grep -m 1 started lines # comes while the trial goes on
expect_out "started"
kill $follower
wait $follower || true
run "$det" why 2
expect_out "Experiment 2 is ACTIVE"
expect_out "  running, priority 7"
expect_out "  trial 2: running since 20"
expect_out ", no report yet"
run "$det" experiment set priority 2 500
expect_status 1
expect_err "det: resources.priority: must be between 1 and 99, found 500"
run "$det" experiment set name 2 ' '
expect_status 1
expect_err "name: must not be empty"
run "$det" experiment kill 2
expect_status 0
run "$det" experiment wait 2
expect_status 1
expect_out "Experiment 2: CANCELED"
run "$det" trial kill 2
expect_status 0
expect_out "Trial 2 has ended: CANCELED."
run "$det" job kill 2
expect_out "Job 2 has ended: CANCELED."
run "$det" job kill 99
expect_status 1
expect_err "job 99"
expect_err_without experiment
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

# --- two that want all slots

sed -i 's/^searcher.*/searcher: {name: grid, metric: loss, max_length: {batches: 10}}/' code/const.yaml
echo 'exec sleep 1000' >code/run.sh
for name in first second; do
    run "$det" experiment create code/const.yaml code --config name=$name --config resources.slots_per_trial=2
    expect_status 0
done
run "$det" why 6
expect_out "it needs 2 slots, 0 are free"
run "$det" job list
expect_out "needs 2 slots, 0 are free"
run "$det" job update 6 50
expect_out "Job 6 has priority 50."
run "$det" experiment set max-slots 6 4
expect_out "The slots of experiment 6 are limited to 4."
run "$det" experiment set weight 6 1.5
expect_out "Experiment 6 has weight 1.5."
run "$det" down
run "$det" up --port 0 --slots 2
run "$det" experiment config 6
expect_out "max_slots: 4"
run "$det" job list --csv
expect_out "6,second,STATE_QUEUED,50,1.5,0,2"

# --- on a terminal: tables fit and say what is needed, what is lost is asked about

on_terminal() {
    run script -qec "stty cols $1; $2" /dev/null
    cp out raw
    tr -d '\r' <out >plain && mv plain out
}
on_terminal 80 "$det experiment list"
expect_out "COMPLETED"
expect_out "PAUSED"
expect_out_without "…"
on_terminal 40 "$det experiment list"
expect_out "COMPLETED"
[ "$(wc -L <out)" -le 40 ] || fail "a line is wider than the terminal"
on_terminal 60 "$det job list"
expect_out "needs 2"
[ "$(wc -L <out)" -le 60 ] || fail "a line is wider than the terminal"
give 'n\n'
on_terminal 80 "$det experiment delete 4"
expect_out "Delete experiment 4 with all of its checkpoints? [y/N]"
expect_out "nothing was deleted"
on_terminal 80 "$det experiment delete 4 --yes"
expect_out "Experiment 4 is being deleted"
run "$det" experiment kill 6 # which has not begun
expect_out "Experiment 6 has ended: CANCELED."
run "$det" experiment kill 5
expect_status 0

# --- users

give 'a good password\n'
run "$det" user create ada
expect_status 0
expect_out "User 'ada' is created."
run "$det" user deactivate ada
expect_out "User 'ada' may not log in any more."
give 'a good password\n'
run "$det" user login ada
expect_status 1
run "$det" user activate ada
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
expect_out "Logged out of http://"
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
run "$det" experiment create code/const.yaml code --config searcher.max_trials=0 --config name=
expect_status 2
expect_err "--config searcher.max_trials=0: searcher.max_trials: does not go with"
run "$det" experiment create code/const.yaml code --config "name=''"
expect_err "--config name='': name: must not be empty"
cat >old.yaml <<'YAML'
entrypoint: sh run.sh
profiling: {enabled: true}
searcher: {name: single, metric: loss, max_steps: 3}
YAML
run "$det" experiment create old.yaml code --paused --config searcher.max_length.batches=7
expect_status 0
expect_err "det: --config searcher.max_length.batches=7 takes the place of max_steps"
expect_err "old.yaml:2:1: warning: profiling: has no effect."
number=$(sed -n 's/Created experiment //p' out)
run "$det" experiment config "$number"
expect_out "batches: 7"
run "$det" experiment describe "$number"
expect_out "Warning      profiling: has no effect."
run "$det" experiment fork "$number" --config searcher.max_length=-1
expect_status 2
expect_err "--config searcher.max_length=-1: searcher.max_length"
run "$det" experiment kill "$number"
run "$det" experiment continue "$number" --config max_restarts=many
expect_status 2
expect_err "--config max_restarts=many: max_restarts: must be an integer"
printf 'entrypoint: x\nsearcher: {name: single}\ncheckpoint_storage: {type: gcs, bucket: b}\n' >gcs.yaml
run "$det" experiment create gcs.yaml
expect_status 2
expect_err "checkpoint_storage.type: gcs is refused"
run "$det" help
expect_out_without shim

# --- what det itself has written is not uploaded

mkdir -p large/ck/0d9c2a4e-5f0b-4c9e-9f5a-3a4c7e1f2b10 large/data
echo x >large/ck/0d9c2a4e-5f0b-4c9e-9f5a-3a4c7e1f2b10/manifest.json
echo x >large/data/det.db
echo x >large/events.out.tfevents.1
echo 'true' >large/run.sh
run "$det" experiment create old.yaml large --paused
expect_status 0
expect_out "and 2 files" # run.sh, and the folder ck
head -c 105000000 /dev/urandom >large/weights.bin
head -c 2000000 /dev/urandom >large/zz.bin
run "$det" experiment create old.yaml large --paused
expect_status 1
expect_err "its largest files are 'weights.bin' (100 MB), 'zz.bin' (1 MB), 'run.sh' (0 MB): name what is not needed in .detignore"
rm -r large

# --- progress stays at the bottom of a terminal, below what is printed

echo 'for i in 1 2 3; do echo line $i; sleep 0.5; done' >code/run.sh
for columns in 80 30; do
    on_terminal $columns "$det experiment create old.yaml code -f"
    expect_status 0
    expect_out "line 3"
    expect_out "experiment"
    [ "$(tr '\r' '\n' <raw | sed 's/\x1b\[K//g' | grep -a '^experiment' | wc -L)" -lt $columns ] || fail "the bar is too wide"
done
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
run "$det" experiment create code/const.yaml code --local --config name=kept
expect_status 0
expect_out ": COMPLETED"
expect_out "It is kept in $tmp/home: after 'det up', 'det experiment list' shows it."
run "$det" down
expect_out "No master is running."
echo 'exit 3' >code/run.sh
run "$det" experiment create code/const.yaml code --local --config max_restarts=0
expect_status 1
expect_out ": ERROR"
run "$det" up --port 0
run "$det" experiment list --csv
expect_out ",kept,STATE_COMPLETED"
echo 'echo by the master that runs' >code/run.sh
run "$det" experiment create code/const.yaml code --local
expect_status 0
expect_out "by the master that runs"
run "$det" experiment list
expect_status 0 # it goes on running

# --- a job is forked as a job

printf 'entrypoint: "echo a job"\n' >job.yaml
run "$det" job run job.yaml -f
expect_status 0
number=$(sed -n 's/^Created job \([0-9]*\)$/\1/p' out)
run "$det" experiment fork "$number" -f
expect_status 0
expect_out "Created job $((number + 1))"
expect_out "a job"
run "$det" experiment list --csv
expect_out_without "STATE_ERROR,job"
run "$det" down

# --- in a directory of one's own: commands that follow find the master that was started last

unset DET_HOME
export HOME="$tmp/user" XDG_CONFIG_HOME="$tmp/user/config"
mkdir "$HOME"
trap '"$det" down >/dev/null 2>&1 || true; "$det" down >/dev/null 2>&1 || true; rm -rf "$tmp"' EXIT
run "$det" up --port 0 --data mine
expect_status 0
[ -f mine/master.json ] || fail "the data should be in the directory"
cd /
run "$det" experiment list
expect_status 0
run "$det" down
expect_out "'det up --data $tmp/mine' finds them again."
run "$det" experiment list
expect_status 1
expect_err "no master is known"
cd "$tmp"
run "$det" up --port 0 --data mine
run "$det" up --port 0
expect_out "The master is at "
[ -f "$HOME/.local/share/det/master.json" ] || fail "without --data it should be the usual place"
run "$det" experiment create code/const.yaml code -f
expect_status 0
run "$det" down
expect_out "'det up' finds them again."
run "$det" down --data mine
expect_out "The master is stopped."
run env DET_HOME="$tmp/told" "$det" up --port 0 --data mine
expect_out "export DET_HOME=mine"
run env DET_HOME="$tmp/told" "$det" down --data mine
expect_out "The master is stopped."

#!/bin/sh
# det-run: what it finds, compiles, trains, writes and says.
. "$(dirname "$0")/lib.sh"
det_run=$(dirname "$det")/det-run
e2e=$golden/../e2e
export XDG_CACHE_HOME="$tmp/cache"
cp "$e2e/models/small.c" model_def.c
cat >const.yaml <<'END'
entrypoint: model_def:Small
hyperparameters: {global_batch_size: 16, net: mlp, optimizer: sgd, lr: 0.01}
searcher: {name: single, metric: loss, max_length: {epochs: 2}}
min_validation_period: {epochs: 1}
END

# Help, in lines of 80 characters, and wrong usage.
run "$det_run" --help
expect_status 0
expect_out "Usage: det-run [MODULE[:TRIAL]] [OPTIONS]"
expect_out "--hparam NAME=VALUE"
expect_out "det-run model_def:MNistTrial --hparam learning_rate=0.01 --epochs 3"
cp out help
run awk 'length($0) > 80 {print; exit 1}' help
expect_status 0
run "$det_run"
expect_status 2
expect_err "det-run: which trial? Name it (model_def:MNistTrial)"
run "$det_run" a b
expect_status 2
expect_err "det-run: too many arguments; usage: det-run [MODULE[:TRIAL]]"
run "$det_run" a --epoch 3
expect_status 2
expect_err "det-run: 'det-run' has no option '--epoch'; did you mean '--epochs'?"
run "$det_run" a --epochs 0
expect_status 2
expect_err "det-run: --epochs must be a number from 1 on, found '0'"
run "$det_run" a --epochs 1 --batches 1
expect_status 2
expect_err "det-run: --epochs and --batches do not go together"
run "$det_run" a --hparam x
expect_status 2
expect_err "det-run: --hparam 'x' must have the form NAME=VALUE"
run "$det_run" a --hparam x=
expect_status 2
expect_err "det-run: --hparam 'x=' must have the form NAME=VALUE"
run "$det_run" missing:Trial
expect_status 1
expect_err "det-run: there is no 'missing.py', 'missing.c' or 'missing.so'"

# A configuration that is not valid.
printf 'entrypoint: a:B\nsearcher: {name: singel}\n' >bad.yaml
run "$det_run" --config bad.yaml
expect_status 2
expect_err "bad.yaml:2:18: searcher.name: must be one of single,"

# Source that does not compile: the compiler's own words.
printf '#include <det/det.h>\nint f(void) { return nothing; }\n' >broken.c
run "$det_run" broken:Trial --batches 1
expect_status 1
expect_err "broken.c:2:22: error"
expect_err "det-run: 'broken.c' does not compile"
# What would crash later: a forgotten return, a function of another signature.
printf '#include <det/det.h>\nstatic int f(void *s, det_context *c, det_err *e) { (void)s, (void)c, (void)e; }\nDET_TRIAL(T) = {.init = f};\n' >forgetful.c
run "$det_run" forgetful --batches 1
expect_status 1
expect_err "no return statement"
printf '#include <det/det.h>\nstatic int f(det_context *c) { return !c; }\nDET_TRIAL(T) = {.init = f};\n' >other.c
run "$det_run" other --batches 1
expect_status 1
expect_err "incompatible pointer type"
printf '#!/bin/sh\nkill -9 $$\n' >cc-killed
chmod +x cc-killed
run env CC=./cc-killed "$det_run" broken --batches 1
expect_status 1
expect_err "det-run: the compiler was killed by signal 9 at 'broken.c'"
run env CC=/no/such/compiler "$det_run" broken --batches 1
expect_status 1
expect_err "det-run: cannot run the compiler '/no/such/compiler'"

# A trial that is not there: those that are.
run "$det_run" model_def:Smal --config const.yaml
expect_status 1
expect_err "there is no trial 'Smal'; found: Small"

# Training: lines, metrics, event files, a timeline, checkpoints.
run "$det_run" --config const.yaml --seed 3 --metrics m.jsonl --tensorboard tb --trace trace.json -d ck
expect_status 0
expect_no_err
expect_out "batch 40  100%"
expect_out "batch 20  epoch 1  validation: loss "
expect_out "batch 40  checkpoint ck/" # and of which batch
expect_out "finished after 40 batches (2 epochs), seed 3"
run grep -c '"steps_completed": 40' ck/latest/metadata.json ck/best/metadata.json # the loss falls
expect_status 0
[ -L ck/latest ] && [ -L ck/best ] || fail "there should be links"

# The best is not always the last: the last line and a link say which it is.
sed 's/metric: loss,/metric: loss, smaller_is_better: false,/' const.yaml >larger.yaml
run "$det_run" --config larger.yaml --seed 3 -d diverges
expect_status 0
expect_out "; best at batch 20: loss "
grep -q '"steps_completed": 20' diverges/best/metadata.json || fail "the best should be that of batch 20"
grep -q '"steps_completed": 40' diverges/latest/metadata.json || fail "the latest should be that of batch 40"
rm -r diverges larger.yaml

# On a terminal of 80 columns the metrics fit beside the bar.
run script -qec "stty cols 80; $det_run --config const.yaml -d wide" /dev/null
expect_status 0
tr '\r' '\n' <out | grep -a '^\[.*batches/s.*left  loss [0-9.]*' >bars || fail "there should be bars with metrics"
[ "$(sed 's/\x1b\[K//g' bars | wc -L)" -lt 80 ] || fail "the bar is too wide"
rm -r wide
run python3 "$e2e/check_outputs.py" m.jsonl tb trace.json
expect_status 0
[ "$(ls cache/det/models | wc -l)" -eq 1 ] || fail "there should be one compiled trial"

# The second time nothing is compiled; a changed source is. A test leaves nothing behind.
mkdir scratch
library=$(ls cache/det/models)
before=$(stat -c %Y.%i "cache/det/models/$library")
run env TMPDIR="$tmp/scratch" "$det_run" model_def --config const.yaml --test-mode
expect_status 0
expect_out "a checkpoint was saved, loaded and removed again"
rmdir scratch || fail "the test should have left nothing"
[ -z "$(ls -A checkpoints 2>/dev/null)" ] || fail "a test should not touch the checkpoints of others"
[ "$(stat -c %Y.%i "cache/det/models/$library")" = "$before" ] || fail "compiled again"
echo '// changed' >>model_def.c
run "$det_run" model_def --config const.yaml --test-mode
expect_status 0
[ "$(ls cache/det/models | wc -l)" -eq 1 ] || fail "a comment changes nothing"
sed -i 's/N_CLASSES = 4/N_CLASSES = 5/' model_def.c
run "$det_run" model_def --config const.yaml --test-mode
expect_status 0
[ "$(ls cache/det/models | wc -l)" -eq 2 ] || fail "the change should have been compiled"

# A damaged cache does no harm.
for library in cache/det/models/*.so; do echo damaged >"$library"; done
run "$det_run" model_def --config const.yaml --test-mode
expect_status 0

# A library that is there already.
mkdir lib
cp "$(grep -l ELF cache/det/models/*.so | head -n 1)" lib/other.so
run "$det_run" lib/other:Small --config const.yaml --test-mode
expect_status 0

# Hyperparameters from the command line win; what is missing is named.
run "$det_run" model_def --config const.yaml --hparam net=cnn --hparam lr=0.1 -b 3 -d ck2
expect_status 0
expect_out "finished after 3 batches"
grep -q '"net": "cnn"' ck2/*/config.json || fail "the hyperparameter should be in the checkpoint"
expect_err_without "no such hyperparameter"
run "$det_run" model_def --config const.yaml --hparam nett=cnn --test-mode -d ck-misspelt
expect_status 0
expect_err "--hparam nett: the configuration has no such hyperparameter; did you mean 'net'?"

# A model that has become useless: the last words say so.
run "$det_run" model_def --config const.yaml --hparam lr=1e30 -d ck-nan
expect_status 0
expect_out "warning: metric 'loss' of batch"
expect_out "warning: the last validation metric 'loss' is not a number (nan)"
cp out said
run tail -n 1 said
expect_out "warning: the last validation metric"

# Checkpoints have the code, but not other checkpoints.
cmp -s model_def.c ck2/latest/code/model_def.c || fail "the code should be in the checkpoint"
[ -z "$(find ck2/*/code -name loop.json)" ] || fail "there should be no checkpoint in it"

# Nor what else det has written, nor data.
mkdir -p board numbers
cp tb/events.out.tfevents.* board/
head -c 5000 /dev/zero >numbers/zeros.bin
run "$det_run" model_def --config const.yaml -b 3 -d elsewhere/ck3
expect_status 0
expect_out "warning: 1 file of '.' is data or too large, and not in checkpoints: 'numbers/zeros.bin'"
[ -e elsewhere/ck3/latest/code/model_def.c ] || fail "the code should be in the checkpoint"
[ -z "$(find elsewhere/ck3/latest/ -name 'events.*' -o -name zeros.bin -o -name manifest.json -path '*/code/*')" ] ||
    fail "only code should be in it"
rm -r board numbers elsewhere
run "$det_run" model_def --config const.yaml --hparam net=none -b 3
expect_status 1
expect_err "hyperparameter 'net' is 'none', which is none of ours"
run "$det_run" model_def --hparam net=mlp -b 3
expect_status 1
expect_err "hyperparameter 'lr' is not defined"

# Going on, also from the checkpoint before a damaged one.
run "$det_run" --config const.yaml -d fresh --resume -b 10 -s 5
expect_status 0
expect_out "no checkpoint in 'fresh' yet: starting from the beginning"
run "$det_run" --config const.yaml -d fresh --resume -b 20 -s 5
expect_status 0
expect_out "going on from fresh/"
expect_out "finished after 20 batches"
newest=$(ls -td fresh/*/ | head -n 1)
echo damage >>"$newest/loop.json"
run "$det_run" --config const.yaml -d fresh --resume -b 30 -s 5
expect_status 0
expect_err "is damaged and left aside"
expect_out "finished after 30 batches"
run "$det_run" --config const.yaml -d fresh -b 10
expect_status 0
expect_err "'fresh' has checkpoints of another run; --resume would go on from the newest"

# Ctrl-C once: a checkpoint. Twice: at once. On a terminal: a bar.
run python3 "$e2e/interrupt.py" "$det_run"
expect_status 0

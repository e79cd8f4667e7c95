#!/bin/sh
# The same training in shell: what a trial says to the master, with curl. See docs/protocol.md.
#
#     det experiment create shell.yaml .
set -eu

api=$DET_MASTER/api/v1
count=0

# What is sent again after a failure has the same key, so that it counts once.
call() { # METHOD PATH [BODY]
    count=$((count + 1))
    curl --silent --show-error --fail-with-body --retry 8 --retry-connrefused --retry-all-errors \
        ${DET_MASTER_CERT_FILE:+--cacert "$DET_MASTER_CERT_FILE"} -X "$1" "$api/$2" \
        -H "Authorization: Bearer $DET_SESSION_TOKEN" \
        -H "Idempotency-Key: $DET_ALLOCATION_ID-$$-$count" \
        ${3:+-H 'Content-Type: application/json' -d "$3"}
}

# A number or text of a small JSON object.
field() { # NAME
    sed -n "s/.*\"$1\": *\"\{0,1\}\([^,\"}]*\).*/\1/p"
}

report() { # GROUP BATCHES LOSS
    call POST "trials/$DET_TRIAL_ID/metrics" \
        "{\"trialRunId\":$DET_TRIAL_RUN_ID,\"reports\":[{\"group\":\"$1\",\"stepsCompleted\":$2,\"metrics\":{\"loss\":$3}}]}" \
        >/dev/null
}

# A checkpoint is a folder that appears under its name when it is complete.
save() { # WEIGHT EPOCH BATCHES
    uuid=$(cat /proc/sys/kernel/random/uuid)
    temp=$DET_CHECKPOINT_STORAGE/.tmp-$uuid
    mkdir -p "$temp"
    echo "$1 $2 $3" >"$temp/state.txt"
    sync "$temp/state.txt" "$temp"
    mv "$temp" "$DET_CHECKPOINT_STORAGE/$uuid"
    call POST checkpoints \
        "{\"uuid\":\"$uuid\",\"trialRunId\":$DET_TRIAL_RUN_ID,\"stepsCompleted\":$3,\"resources\":{\"state.txt\":$(wc -c <"$DET_CHECKPOINT_STORAGE/$uuid/state.txt")},\"metadata\":{}}" \
        >/dev/null
}

finish() {
    call POST "allocations/$DET_ALLOCATION_ID/signals/ack_preemption" '{}' >/dev/null
    exit 0
}

weight=0 epoch=0 batches=0
if [ -n "${DET_LATEST_CHECKPOINT:-}" ]; then
    read -r weight epoch batches <"$DET_CHECKPOINT_STORAGE/$DET_LATEST_CHECKPOINT/state.txt"
fi
rate=$(printf '%s' "$DET_HPARAMS" | field learning_rate)
call POST "allocations/$DET_ALLOCATION_ID/ready" '{}' >/dev/null

while operation=$(call GET "trials/$DET_TRIAL_ID/searcher/operation"); do
    [ "$(printf '%s' "$operation" | field completed)" != true ] || finish
    length=$(printf '%s' "$operation" | field length)
    while [ "$epoch" -lt "$length" ]; do
        signal=$(call GET "allocations/$DET_ALLOCATION_ID/signals/preemption?timeout_seconds=0")
        [ "$(printf '%s' "$signal" | field preempt)" != true ] || finish
        set -- $(awk -v w="$weight" -v rate="${rate:-0.001}" 'BEGIN {
            for (i = 0; i < 64; i++) { sum += (w - 1) ^ 2; w -= rate * 2 * (w - 1) }
            printf "%.17g %.17g %.17g", w, sum / 64, (w - 1) ^ 2 }')
        weight=$1 loss=$2 error=$3
        epoch=$((epoch + 1)) batches=$((batches + 64))
        report training $batches "$loss"
        report validation $batches "$error"
        call POST "trials/$DET_TRIAL_ID/progress" "{\"progress\":$epoch}" >/dev/null
        save "$weight" $epoch $batches
        echo "epoch $epoch: loss $loss"
    done
    error=$(awk -v w="$weight" 'BEGIN {printf "%.17g", (w - 1) ^ 2}')
    call POST "trials/$DET_TRIAL_ID/searcher/completed_operation" \
        "{\"op\":{\"length\":$length},\"searcherMetric\":$error}" >/dev/null
done
exit 1

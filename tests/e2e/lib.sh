# tests/e2e/lib.sh: for tests that run the real program. Sourced; $1 is the program det.
#
#     . "$(dirname "$0")/lib.sh"
#     run "$det" config check a.yaml     # remembers status, output and messages
#     expect_status 2
#     expect_err "a.yaml:3:1: a tab"     # one line of stderr has this in it
#
# The first thing that is not as expected ends the test, showing all that is known about it.
set -eu
det=$(realpath "$1")
golden=$(realpath "$(dirname "$0")/../golden")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
: >stdin
unset NO_COLOR FORCE_COLOR || true

run() {
    ran="$*"
    status=0
    "$@" <"$tmp/stdin" >"$tmp/out" 2>"$tmp/err" || status=$?
    : >"$tmp/stdin"
}

# What the next run reads.
give() {
    printf '%b' "$1" >"$tmp/stdin"
}

fail() {
    echo "FAILED: $1"
    echo "  command: $ran"
    echo "  status:  $status"
    sed 's/^/  stdout: /' "$tmp/out"
    sed 's/^/  stderr: /' "$tmp/err"
    exit 1
}

expect_status() {
    [ "$status" -eq "$1" ] || fail "the status should be $1"
}

expect_out() {
    grep -qF -e "$1" "$tmp/out" || fail "stdout should have: $1"
}

expect_out_without() {
    ! grep -qF -e "$1" "$tmp/out" || fail "stdout should not have: $1"
}

expect_err() {
    grep -qF -e "$1" "$tmp/err" || fail "stderr should have: $1"
}

expect_err_without() {
    ! grep -qF -e "$1" "$tmp/err" || fail "stderr should not have: $1"
}

expect_no_out() {
    [ ! -s "$tmp/out" ] || fail "stdout should be empty"
}

expect_no_err() {
    [ ! -s "$tmp/err" ] || fail "stderr should be empty"
}

# stdout is exactly the content of a file.
expect_out_is() {
    diff "$1" "$tmp/out" >"$tmp/diff" || { cat "$tmp/diff"; fail "stdout should be that of $1"; }
}

#!/bin/sh
# What det says about itself, and to those who mistype.
. "$(dirname "$0")/lib.sh"

run "$det" --help
expect_status 0
expect_out "config check"
cp out all
run "$det" help
expect_out_is all
run "$det"
expect_status 2
expect_out_is all

run "$det" help config check
expect_status 0
expect_out "Usage: det config check FILE [OPTIONS]"
expect_out "det config check const.yaml"
cp out check
run "$det" config check --help
expect_out_is check
run "$det" config -h
expect_out "config reference"
run awk 'length($0) > 80 {print; exit 1}' all check
expect_status 0

for word in version --version -v; do
    run "$det" $word
    expect_status 0
    expect_out "det 0."
done

run "$det" confg check x
expect_status 2
expect_no_out
expect_err "det: there is no command 'confg'; did you mean 'det config'?"
run "$det" config chek x
expect_status 2
expect_err "det: there is no command 'config chek'; did you mean 'det config check'?"
run "$det" config
expect_status 2
expect_err "det: 'det config' needs a verb; see 'det help config'"
run "$det" frobnicate
expect_status 2
expect_err "det: there is no command 'frobnicate'; see 'det help'"
for words in "help experiment set" "experiment set --help"; do
    run "$det" $words
    expect_status 0
    expect_out "experiment set description"
done
run "$det" help experiment set name
expect_out "Usage: det experiment set name ID NAME"
run "$det" experiment label
expect_status 2
expect_err "det: 'det experiment label' needs another word; see 'det help experiment label'"
run "$det" help nothing
expect_status 2
expect_err "det: there is no command 'nothing'; see 'det help'"
run "$det" --jsn
expect_status 2
expect_err "'--jsn'"

run "$det" config check
expect_status 2
expect_err "det: too few arguments; usage: det config check FILE"
run "$det" config check a b
expect_status 2
expect_err "det: too many arguments; usage: det config check FILE"
run "$det" config check a --jsno
expect_status 2
expect_err "det: 'det config check' has no option '--jsno'; did you mean '--json'?"
run "$det" config check a -z
expect_status 2
expect_err "det: 'det config check' has no option '-z'; see 'det config check --help'"
run "$det" config check a --json=yes
expect_status 2
expect_err "det: the option '--json' takes no value"
run "$det" config check -- --json
expect_status 1
expect_err "det: cannot open '--json': No such file or directory"

# Colours only where a person sees them, or wants them.
escape=$(printf '\033')
run "$det" confg
expect_err_without "$escape"
run env FORCE_COLOR=1 "$det" confg
expect_err "$escape[31mdet: there is no command"
run env FORCE_COLOR=1 NO_COLOR=1 "$det" confg
expect_err_without "$escape"

# Libraries with many others behind them are loaded when they are needed; without them the rest works.
mkdir bad
for name in libcurl-gnutls.so.4 libcurl.so.4 libarchive.so.13; do echo "no library" >bad/$name; done
run env LD_LIBRARY_PATH="$tmp/bad" "$det" version
expect_status 0
run env LD_LIBRARY_PATH="$tmp/bad" "$det" slot list -m 127.0.0.1:1
expect_status 1
expect_err "install the package libcurl3-gnutls"

# --- what bash completes, from the words so far; the last one is begun

cat >complete.sh <<'SH'
source completion
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_det
echo "${COMPREPLY[*]}"
SH
completes() {
    wanted=$1
    shift
    run bash complete.sh "$@"
    [ "$(cat out)" = "$wanted" ] || fail "it should complete to: $wanted"
}
"$det" completion bash >completion
completes experiment det exp
completes label det experiment la
completes "add remove" det experiment label ""
completes "--master --help" det experiment set name --
completes "list list-trials list-checkpoints logs label" det e l
completes "--tls --tls-cert --tls-key --task-memory --task-processes" det master --t
completes "bash zsh" det completion ""
run "$det" completion fish
expect_status 2
expect_err "completion is for bash and zsh, not for 'fish'"

#!/bin/sh
# A run that is killed and resumed ends with the same weights; the long version is in kill/kill.py.
. "$(dirname "$0")/lib.sh"
export XDG_CACHE_HOME="$tmp/cache"
run "$golden/../e2e/kill/kill.py" "$(dirname "$det")/det-run" 10
expect_status 0
expect_out "10 kills"
run "$golden/../e2e/kill/kill.py" "$(dirname "$det")/det-run" 6 2
expect_status 0
expect_out "6 kills"

#!/bin/sh
# The tables of docs/config.md are those of the program. After a change: see the end of this file.
. "$(dirname "$0")/lib.sh"
document=$(realpath "$golden/../../docs/config.md")

run "$det" config reference
expect_status 0
expect_out "| \`max_restarts\` | integer from 0 on | \`5\` |"
expect_out "### \`searcher\` with \`name: adaptive_asha\`"
sed '1,/^## All keys$/d' "$document" >wanted
expect_out_is wanted
run "$det" config reference --job
expect_status 0
expect_out "| \`work_dir\` |"

# { sed '/^## All keys$/q' docs/config.md; build/dev/det config reference; } >new && mv new docs/config.md

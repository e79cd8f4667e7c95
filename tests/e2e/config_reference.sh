#!/bin/sh
# The tables of docs/config.md and docs/master-config.md are those of the program. After a change: see the end of this file.
. "$(dirname "$0")/lib.sh"
docs=$(realpath "$golden/../../docs")

# what is printed is what a document says behind its last heading
expect_documented() {
    sed '1,/^## All keys$/d' "$docs/$1" >wanted
    expect_out_is wanted
}

run "$det" config reference
expect_status 0
expect_out "| \`max_restarts\` | integer from 0 on | \`5\` |"
expect_out "### \`searcher\` with \`name: adaptive_asha\`"
expect_documented config.md
run "$det" config reference --job
expect_status 0
expect_out "| \`work_dir\` |"

run "$det" master config reference
expect_status 0
expect_out "| \`port\` | integer 0 to 65535 | \`8080\` |"
expect_documented master-config.md

# { sed '/^## All keys$/q' docs/config.md; build/dev/det config reference; } >new && mv new docs/config.md
# the same with docs/master-config.md and 'det master config reference' 

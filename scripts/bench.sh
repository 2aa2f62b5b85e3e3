#!/usr/bin/env bash
# Builds the release binaries and measures Drystone beside the other targets that are installed, then
# its initiator and attach beside the clients of others; or one of these: its array, against its disks and
# btrfs, the hosts' side, the lab, or a group of members beside a member in none.
#
#   scripts/bench.sh compare|array|hosts|lab|group [ARGUMENTS OF THAT COMMAND OF drystone-bench]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

what=$1
shift
cargo build --release --package drystone --package drystone-bench
built=$(cargo metadata --format-version 1 --no-deps | jq --raw-output .target_directory)/release
"$built/drystone-bench" "$what" --drystone "$built/drystone" "$@"
if [ "$what" = compare ]; then
  "$built/drystone-bench" hosts --drystone "$built/drystone"
fi

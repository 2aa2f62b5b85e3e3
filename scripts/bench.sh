#!/usr/bin/env bash
# Builds the release binaries and measures Drystone beside the other targets that are installed, then
# its initiator and attach beside the clients of others.
#
#   scripts/bench.sh [ARGUMENTS OF drystone-bench compare]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo build --release --package drystone --package drystone-bench
built=$(cargo metadata --format-version 1 --no-deps | jq --raw-output .target_directory)/release
"$built/drystone-bench" compare --drystone "$built/drystone" "$@"
"$built/drystone-bench" hosts --drystone "$built/drystone"

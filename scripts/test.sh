#!/usr/bin/env bash
# Runs every test of the workspace, also after one has failed, and ends with their sum.
#
#   scripts/test.sh [ARGUMENTS OF cargo test]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

logs=$(mktemp --directory)
trap 'rm -rf "$logs"' EXIT

# Everything is built once, with the mistakes that can be planted in some rooms and none made: a room that is built
# with other features is built again, with all that leans on it. What users get is built without (`make run`,
# `make package`), and the lints look at it so.
features=$(scripts/mistakes.sh)
cargo test --workspace --features "$features" --no-run "$@" 2>&1

# The planted ones run beside the tests, as many of both wait for a clock, a disk or a machine. What they have to say is
# told when the tests are done.
status=0
scripts/planted.sh >"$logs/planted" 2>&1 &
beside=$!
cargo test --workspace --features "$features" --no-fail-fast "$@" 2>&1 | tee "$logs/tests" || status=$?
wait "$beside" || status=$?
cat "$logs/planted"

# cargo prints one result for each test binary and each room's doc-tests.
awk '/^test result: / {
  for (i = 2; i <= NF; i++) {
    if ($i == "passed;") passed += $(i - 1)
    if ($i == "failed;") failed += $(i - 1)
    if ($i == "ignored;") ignored += $(i - 1)
  }
  results++
}
END { if (results) printf "\n%d passed, %d failed, %d skipped\n", passed, failed, ignored }' \
  "$logs/tests" "$logs/planted"
exit "$status"

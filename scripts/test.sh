#!/usr/bin/env bash
# Runs every test of the workspace, also after one has failed, and ends with their sum.
#
#   scripts/test.sh [ARGUMENTS OF cargo test]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

logs=$(mktemp --directory)
trap 'rm -rf "$logs"' EXIT

# Rooms with planted mistakes, which no product is built with, are tested with those built in, and none
# made: the same programs then show that each mistake is found. What leans on these rooms has them without.
with_mistakes=(array target member notify)
rest() {
  cargo test --workspace "${with_mistakes[@]/#/--exclude=drystone-}" --no-fail-fast "$@" 2>&1
}
mistakes() {
  local room status=0
  for room in "${with_mistakes[@]}"; do
    cargo test --package "drystone-$room" --features mutants --no-fail-fast "$@" 2>&1 || status=$?
  done
  return "$status"
}

# All is built first. The tests run side by side, as many of them wait for a clock, a disk or a machine; what the
# second half has to say is told when the first is done.
status=0
rest --no-run "$@"
mistakes --no-run "$@"
(
  status=0
  mistakes "$@" || status=$?
  scripts/planted.sh 2>&1 || status=$?
  exit "$status"
) >"$logs/mistakes" &
beside=$!
rest "$@" | tee "$logs/rest" || status=$?
wait "$beside" || status=$?
cat "$logs/mistakes"

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
  "$logs/rest" "$logs/mistakes"
exit "$status"

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
built=$SECONDS

# The tests run in two halves side by side, as many wait for a clock, a disk or a machine. What the second half has to
# say is told when the first is done. A test that never ends is ended with its half, so that its name is told.
LIMIT_SECONDS=2700
tests() {
  local status=0
  timeout --kill-after=30 "$LIMIT_SECONDS" cargo test --workspace --features "$features" --no-fail-fast "$@" 2>&1 || status=$?
  if ((status == 124 || status == 137)); then
    echo "test did_not_end ... FAILED: the tests above did not end within $LIMIT_SECONDS s; who has no result is at fault"
  fi
  return "$status"
}
status=0
(
  status=0
  tests --lib --bins --test lab --test '[!a-gl]*' "$@" || status=$?
  tests --doc "$@" || status=$?
  echo "$SECONDS" >"$logs/over"
  exit "$status"
) >"$logs/second" &
beside=$!
tests --test '[a-g]*' --test 'li*' "$@" | tee "$logs/first" || status=$?
first=$SECONDS
# The first half is the shorter one: the mistakes are planted beside the rest of the second.
scripts/planted.sh >"$logs/planted" 2>&1 || status=$?
planted=$SECONDS
wait "$beside" || status=$?
cat "$logs/second" "$logs/planted"
printf '\nbuilt within %d s; first half over after %d s, and mistakes planted after %d s; second half over after %d s\n' \
  "$built" "$first" "$planted" "$(cat "$logs/over")"

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
  "$logs/first" "$logs/second" "$logs/planted"
exit "$status"

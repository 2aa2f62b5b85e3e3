#!/usr/bin/env bash
# Runs every test of the workspace and plants every mistake, also after one has failed, and ends with their sum.
#
#   scripts/test.sh [ARGUMENTS OF cargo test]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# So many programs run side by side, each with a thread for each core: many tests wait for a clock, a disk or a machine.
# Mistakes are planted beside them, with what time of the cores they leave.
LANES=2
# A test that never ends is ended with its program, so that its name is told.
LIMIT_SECONDS=2400
# The mistakes are planted part by part.
PARTS=8
# What takes longest is begun first, or the last of it would run alone; beside what waits for most of its time (the
# virtual machine, the group) something that does not. The rest follows as cargo lists it.
LONGEST='drystone:test:linux_host member:lib:member array:test:simulate drystone:test:group group:lib:group
  drystone:test:up array:test:array drystone:test:conformance drystone:test:crash drystone:test:lab target:test:wire
  drystone:test:api drystone:test:networks array:lib:array'

# Prints what is to be run, once: programs as ROOM:KIND:NAME, and the tests in documents.
all_programs() {
  local longest
  {
    for longest in $LONGEST; do awk -v job="$longest" '$1 == job { print $1 }' "$PROGRAMS"; done
    awk '{ print $1 }' "$PROGRAMS"
    echo documents
  } | awk '!seen[$0]++'
}

# Runs the job $1, its words to a file of $LOGS, and says in one line how it went.
one() {
  local log="$LOGS/said/$1" folder program status=0 begun=$SECONDS
  case $1 in
    mistakes:*) nice scripts/planted.sh "${1#*:}" "$PARTS" >"$log" 2>&1 || status=$? ;;
    documents)
      timeout --kill-after=30 "$LIMIT_SECONDS" \
        cargo test --workspace --features "$(scripts/mistakes.sh)" --no-fail-fast --doc >"$log" 2>&1 || status=$?
      ;;
    *)
      read -r _ folder program < <(awk -v job="$1" '$1 == job' "$PROGRAMS")
      (cd "$folder" && CARGO_MANIFEST_DIR=$folder timeout --kill-after=30 "$LIMIT_SECONDS" "$program") >"$log" 2>&1 || status=$?
      ;;
  esac
  if ((status == 124 || status == 137)); then
    echo "test did_not_end ... FAILED: $1 did not end within $LIMIT_SECONDS s; who has no result above is at fault" >>"$log"
    echo "test result: FAILED. 0 passed; 1 failed; 0 ignored" >>"$log"
  elif ((status != 0)) && ! grep --quiet '^test result: FAILED' "$log"; then
    echo "test ended ... FAILED: $1 ended with $status" >>"$log"
    echo "test result: FAILED. 0 passed; 1 failed; 0 ignored" >>"$log"
  elif ! grep --quiet '^test result: ' "$log"; then
    status=1
    echo "test result ... FAILED: $1 ended without a word of how its tests went" >>"$log"
    echo "test result: FAILED. 0 passed; 1 failed; 0 ignored" >>"$log"
  fi
  ((status == 0)) || echo "$1" >>"$LOGS/failed"
  printf '%5d s  %s  %s\n' $((SECONDS - begun)) "$1" \
    "$(awk '/^test result: / { passed += $4; failed += $6 } END { printf "%d passed, %d failed", passed, failed }' "$log")"
}

if [[ ${1-} == --one ]]; then
  one "$2"
  exit 0
fi

LOGS=$(mktemp --directory)
export LOGS PARTS PROGRAMS=$LOGS/programs
trap 'rm -rf "$LOGS"' EXIT
mkdir "$LOGS/said"
scripts/programs.sh "$@" >"$PROGRAMS"
printf 'built within %d s\n' "$SECONDS"
seq --format="mistakes:%g" "$PARTS" | xargs --max-args=1 scripts/test.sh --one &
planted=$!
all_programs | xargs --max-procs="$LANES" --max-args=1 scripts/test.sh --one
printf 'all programs over after %d s\n' "$SECONDS"
wait "$planted"
printf 'over after %d s\n' "$SECONDS"

# What failed is told in full, and at the end.
if [[ -e $LOGS/failed ]]; then
  while read -r job; do
    printf '\n--- %s\n' "$job"
    cat "$LOGS/said/$job"
  done <"$LOGS/failed"
  printf '\n'
  grep --no-filename '^test .* FAILED' "$LOGS"/said/* || true
fi
cat "$LOGS"/said/* | awk '/^test result: / { passed += $4; failed += $6; ignored += $8 }
END { printf "\n%d passed, %d failed, %d skipped\n", passed, failed, ignored }'
[[ ! -e $LOGS/failed ]]

#!/usr/bin/env bash
# Runs the array on simulated disks, clock and chance, each seed another history.
#
#   SEEDS=N [FIRST=N] [THEME=NAME] scripts/simulate.sh
#   SEED=N THEME=NAME scripts/simulate.sh      replays one, step by step
#
# Themes: plain faults disks full snapshots starts passing beyond moments scarcity rot pairs crowd silence walks
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# An empty variable is one that was not given.
for name in SEEDS SEED THEME FIRST; do
  if [[ -z ${!name:-} ]]; then unset "$name"; else export "${name?}"; fi
done
if [[ -n ${SEED:-} && -z ${THEME:-} ]]; then
  echo "SEED=$SEED needs the THEME that it failed in" >&2
  exit 2
fi
RUST_BACKTRACE=${RUST_BACKTRACE:-0} \
  exec cargo test --quiet --profile simulate --package drystone-array --test simulate -- \
  --nocapture --skip one_seed_is_one_history themes::

#!/usr/bin/env bash
# Runs the array on simulated disks, clock and chance, each seed another history. Before that the walks through all that
# can happen to labels go as far as they can, where neither a seed nor a theme is asked for.
#
#   SEEDS=N [FIRST=N] [THEME=NAME] scripts/simulate.sh
#   SEED=N THEME=NAME scripts/simulate.sh      replays one, step by step
#
# Themes: plain faults disks full snapshots starts passing beyond moments scarcity rot pairs crowd silence walks
# images, and held: two arrays of which snapshots of one moment are taken.
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
if [[ -z ${SEED:-}${THEME:-}${FIRST:-} ]]; then
  DRYSTONE_WALKS_FAR=1 cargo test --quiet --profile simulate --package drystone-array --lib -- membership::tests::walk::
fi
RUST_BACKTRACE=${RUST_BACKTRACE:-0} \
  exec cargo test --quiet --profile simulate --package drystone-array --test simulate -- \
  --nocapture --skip one_seed_is_one_history themes:: held::snapshots_of_two_arrays

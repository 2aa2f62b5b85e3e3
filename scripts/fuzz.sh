#!/usr/bin/env bash
# Runs each fuzz target of fuzz/ for a bounded time, from its seeds; stops at the first finding.
#
#   scripts/fuzz.sh [SECONDS FOR EACH TARGET] [TARGET...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-60}
shift || true
case $seconds in
  '' | *[!0-9]*)
    echo "fuzz: '$seconds' is not a number of seconds: write for example scripts/fuzz.sh 60" >&2
    exit 2
    ;;
esac

# The sanitizers that libFuzzer needs are unstable options of an otherwise stable compiler.
export RUSTC_BOOTSTRAP=1
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  list=$(cargo fuzz list)
  mapfile -t targets <<<"$list"
fi
for target in "${targets[@]}"; do
  echo "fuzz: $target for $seconds seconds"
  mkdir -p "fuzz/corpus/$target"
  # New inputs go to the first directory; the checked-in seeds are only read.
  cargo fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
    -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1
done

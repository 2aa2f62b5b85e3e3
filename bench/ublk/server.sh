#!/usr/bin/env bash
# The target of this job, on the machine that runs the guest (the guest calls it by `host`): memory.
#
#   server.sh start
#   server.sh logs     what it said last
set -uo pipefail
: "${DRYSTONE_BIN:?must name the drystone binary to measure}"

start() {
  setsid "$DRYSTONE_BIN" export ram:256M --portal 198.18.0.1:3260 --state-dir "$VM_DIR/state" \
    >"$VM_DIR/server.ready" 2>>"$VM_LOG/server.log" </dev/null &
  local tries
  for ((tries = 0; tries < 300; tries++)); do
    if grep -q '^portal ' "$VM_DIR/server.ready"; then return; fi
    sleep 0.1
  done
  return 1
}

case $1 in
  start) start ;;
  logs) tail -n 20 "$VM_LOG/server.log" ;;
esac

#!/usr/bin/env bash
# The target of this job, on the machine that runs the guest (the guest calls it by `host`).
#
#   server.sh start    LUN 0 a file, LUN 1 memory in blocks of 4096 bytes, read-only as LUN 2, LUN 3 a
#                      file behind a volatile cache
#   server.sh up       a volume of an array instead, of 32 MiB; prints the name of its target
#   server.sh grow     it has 64 MiB
#   server.sh kill     kill -9
#   server.sh used     how many KiB the file of LUN 0 takes up
#   server.sh logs     what it said last
set -uo pipefail
: "${DRYSTONE_BIN:?must name the drystone binary to test}"
pid_file=$VM_DIR/server.pid
ready_file=$VM_DIR/server.ready

export DRYSTONE_SOCKET=$VM_DIR/control.sock

start() {
  run export "file:$VM_DIR/disk.img:1G,serial=vm-file" ram:64M,block=4096,serial=vm-4096 \
    ram:16M,ro,serial=vm-fixed \
    "file:$VM_DIR/volatile.img:16M,cache=volatile,serial=vm-volatile" --state-dir "$VM_DIR/state"
}

up() {
  run up --data "$VM_DIR/up" --disk "$VM_DIR/disk-0:256M" --disk "$VM_DIR/disk-1:256M" \
    --allow 198.18.0.0/15 || return
  "$DRYSTONE_BIN" volume create grows 32M >/dev/null &&
    "$DRYSTONE_BIN" volume show grows --json | jq --exit-status --raw-output .iqn
}

# run COMMAND...: until its portals are open.
run() {
  rm -f "$ready_file"
  setsid bash -c 'echo $$ >"$1" && shift && exec "$@"' - "$pid_file" "$DRYSTONE_BIN" "$@" \
    --portal 198.18.0.1:3260 --portal 198.18.1.1:3260 \
    >"$ready_file" 2>>"$VM_LOG/server.log" </dev/null &
  local tries
  for ((tries = 0; tries < 300; tries++)); do
    if [ "$(grep -cs '^portal ' "$ready_file")" = 2 ]; then return; fi
    sleep 0.1
  done
  tail -n 20 "$VM_LOG/server.log"
  return 1
}

case $1 in
  start) start ;;
  up) up ;;
  grow) "$DRYSTONE_BIN" volume resize grows 64M ;;
  kill) kill -KILL "$(<"$pid_file")" ;;
  used) du -k "$VM_DIR/disk.img" | cut -f 1 ;;
  logs) tail -n 20 "$VM_LOG/server.log" ;;
esac

#!/usr/bin/env bash
# The target of this job, on the machine that runs the guest (the guest calls it by `host`).
#
#   server.sh start    LUN 0 a file with a file system, LUN 1 memory
#   server.sh check    whether the file system is clean and holds what the job wrote last
#   server.sh logs     what it said last
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin
: "${DRYSTONE_BIN:?must name the drystone binary to test}"
image=$VM_DIR/disk.img

start() {
  truncate -s 256M "$image" && mke2fs -q -t ext4 -F "$image" || return
  setsid "$DRYSTONE_BIN" export "file:$image,serial=vm-boot" ram:16M,serial=vm-small \
    --portal 198.18.0.1:3260 --state-dir "$VM_DIR/state" \
    >"$VM_DIR/server.ready" 2>>"$VM_LOG/server.log" </dev/null &
  local tries
  for ((tries = 0; tries < 300; tries++)); do
    if grep -q '^portal ' "$VM_DIR/server.ready"; then return; fi
    sleep 0.1
  done
  tail -n 20 "$VM_LOG/server.log"
  return 1
}

check() {
  dumpe2fs -h "$image" 2>/dev/null | grep -q 'Filesystem state: *clean' || {
    echo "it was not unmounted"
    return 1
  }
  e2fsck -fn "$image" && debugfs -R 'stat /systemd/system/drystone-attach.service' "$image" 2>&1 |
    grep -q 'Type: regular'
}

case $1 in
  start) start ;;
  check) check ;;
  logs) tail -n 20 "$VM_LOG/server.log" ;;
esac

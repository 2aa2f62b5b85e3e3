#!/usr/bin/env bash
# What main.sh does on this machine: attach.sh start NAME URL [OPTION...], and so on.
set -uo pipefail
run=$VM_DIR/run
name=${2:-}
socket=$VM_DIR/$name.sock
uri="nbd+unix:///?socket=$socket"

# Prints the line that tells that the disk is there, or why it is not.
start() {
  local url=$3 tries
  shift 3
  setsid "$DRYSTONE_BIN" attach "$url" --nbd "unix:$socket" --runtime-dir "$run" \
    --initiator "iqn.2026-11.dev.drystone.test:host" "$@" \
    >"$VM_DIR/$name.ready" 2>"$VM_LOG/attach-$name.log" &
  local attach=$!
  for ((tries = 0; tries < 300; tries++)); do
    grep -q '^attached ' "$VM_DIR/$name.ready" && break
    kill -0 "$attach" 2>/dev/null || {
      cat "$VM_LOG/attach-$name.log"
      return 1
    }
    sleep 0.1
  done
  cat "$VM_DIR/$name.ready"
}

# fio_verify MEBIBYTES: random writes of mixed lengths, read back and compared.
fio_verify() {
  fio --name=verify --ioengine=nbd --uri="$uri" --rw=randwrite --bsrange=4k-256k --iodepth=16 \
    --size="$1M" --verify=crc32c --verify_fatal=1 --do_verify=1 --verify_state_save=0 --output-format=terse
}

case $1 in
  start) start "$@" ;;
  stop) "$DRYSTONE_BIN" detach "unix:$socket" --runtime-dir "$run" ;;
  paths) "$DRYSTONE_BIN" attached --runtime-dir "$run" ;;
  logs) tail -n 20 "$VM_LOG"/attach-*.log ;;
  copy)
    # Any bytes, there and back.
    head -c 16M /dev/urandom >"$VM_DIR/image" &&
      nbdcopy --flush "$VM_DIR/image" "$uri" && nbdcopy "$uri" "$VM_DIR/back" &&
      cmp -n 16777216 "$VM_DIR/image" "$VM_DIR/back"
    ;;
  verify) fio_verify "$3" ;;
  load)
    (
      while [ ! -e "$VM_DIR/$name.enough" ]; do
        fio_verify 8 || exit
      done
      echo well >"$VM_DIR/$name.ended"
    ) >"$VM_LOG/load-$name.log" 2>&1 &
    ;;
  end_load)
    : >"$VM_DIR/$name.enough"
    for ((tries = 0; tries < 1200; tries++)); do
      [ ! -e "$VM_DIR/$name.ended" ] || exit 0
      sleep 0.1
    done
    cat "$VM_LOG/load-$name.log"
    exit 1
    ;;
esac

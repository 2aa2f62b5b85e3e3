#!/usr/bin/env bash
# The target of this job, on the machine that runs the guest (the guest calls it by `host`).
#
#   server.sh start    LUN 0 a file, LUN 1 memory in blocks of 4096 bytes, LUN 2 memory
#   server.sh crash    kill -9
#   server.sh stop     as an operator would; fails unless it ends with status 0
#   server.sh used     how many KiB the file of LUN 0 takes up
#   server.sh up       two volumes of an array instead, `one` and `two`, each a target of its own
#   server.sh down     and its end
set -euo pipefail
: "${DRYSTONE_BIN:?must name the drystone binary to test}"
pid_file=$VM_DIR/server.pid
status_file=$VM_DIR/server.status
ready_file=$VM_DIR/server.ready
export DRYSTONE_CHAP=guest:guest-secret-0001 DRYSTONE_MUTUAL_CHAP=drystone:target-secret-02
export DRYSTONE_SOCKET=$VM_DIR/control.sock
portals=(--portal 198.18.0.1:3260 --portal 198.18.1.1:3260)

start() {
  run "$DRYSTONE_BIN" export \
    "file:$VM_DIR/disk.img:1G,serial=vm-file" ram:256M,block=4096,serial=vm-4096 \
    ram:64M,serial=vm-memory "${portals[@]}" --state-dir "$VM_DIR/state" --keepalive 5
}

up() {
  run "$DRYSTONE_BIN" up --data "$VM_DIR/up" --socket "$DRYSTONE_SOCKET" "${portals[@]}" \
    --disk "$VM_DIR/disk-0:256M" --disk "$VM_DIR/disk-1:256M"
  local volume
  for volume in one two; do
    "$DRYSTONE_BIN" volume create "$volume" 64M
  done
}

# run COMMAND...: until its portals are open.
run() {
  local command=("$@")
  rm -f "$status_file"
  # The portals of the one before are not its own.
  : >"$ready_file"
  # shellcheck disable=SC2016 # expanded by the shell that exec's
  (
    setsid bash -c 'echo $$ >"$1" && shift && exec "$@"' - "$pid_file" "${command[@]}" && status=0 ||
      status=$?
    echo "$status" >"$status_file"
  ) >"$ready_file" 2>>"$VM_LOG/server.log" </dev/null &
  local tries
  for ((tries = 0; tries < 600; tries++)); do
    if [ "$(grep -c '^portal ' "$ready_file")" = 2 ]; then return; fi
    if [ -s "$status_file" ]; then break; fi
    sleep 0.1
  done
  tail -n 20 "$VM_LOG/server.log"
  return 1
}

# Sends a signal and prints the status it ends with.
end_with() {
  kill "-$1" "$(<"$pid_file")"
  local tries
  for ((tries = 0; tries < 600; tries++)); do
    if [ -s "$status_file" ]; then
      cat "$status_file"
      return
    fi
    sleep 0.1
  done
  return 1
}

case $1 in
  start) start ;;
  crash) [ "$(end_with KILL)" = 137 ] ;;
  stop) [ "$(end_with TERM)" = 0 ] ;;
  up) up ;;
  down) [ "$(end_with TERM)" = 0 ] ;;
  used) du -k "$VM_DIR/disk.img" | cut -f 1 ;;
esac

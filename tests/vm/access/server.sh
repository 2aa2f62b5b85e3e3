#!/usr/bin/env bash
# A member with access lists, on the machine that runs the guest (the guest calls it by `host`).
#
#   server.sh start GUEST   with a volume for each row of the table; GUEST is the name of the initiator
#   server.sh prefix        how the names of its targets begin
#   server.sh mutual        from now on volumes prove to be `array`
#   server.sh take NAME     takes the first entry off the list of a volume
#   server.sh audit         refused logins
#   server.sh stop          fails unless it ends with status 0
set -euo pipefail
: "${DRYSTONE_BIN:?must name the drystone binary to test}"
export DRYSTONE_SOCKET=$VM_DIR/control.sock
ready=$VM_DIR/member.ready

ask() { "$DRYSTONE_BIN" "$@"; }

secret() {
  install --mode=600 /dev/stdin "$VM_DIR/$1" <<<"$2"
  echo "$VM_DIR/$1"
}

start() {
  setsid "$DRYSTONE_BIN" up --data "$VM_DIR/up" --socket "$DRYSTONE_SOCKET" \
    --portal 198.18.0.1:3260 --portal 198.18.1.1:3260 \
    --disk "$VM_DIR/disk-0:256M" --disk "$VM_DIR/disk-1:256M" >"$ready" 2>>"$VM_LOG/server.log" </dev/null &
  echo $! >"$VM_DIR/member.pid"
  local tries
  for ((tries = 0; tries < 600; tries++)); do
    if grep -q '^socket ' "$ready"; then break; fi
    sleep 0.1
  done
  ask chap add al --secret-file "$(secret al guest-secret-0001)"
  local volume
  for volume in unlisted mine theirs near proved; do
    ask volume create "$volume" 16M
    ask volume set "$volume" --shared on
  done
  ask volume access add mine --iqn "$1"
  ask volume access add theirs --iqn iqn.2026-11.com.example:other
  ask volume access add near --ip 198.18.0.0/24
  ask volume access add proved --chap al --ip 0.0.0.0/0
}

stop() {
  kill "$(<"$VM_DIR/member.pid")"
  local tries
  for ((tries = 0; tries < 600; tries++)); do
    kill -0 "$(<"$VM_DIR/member.pid")" 2>/dev/null || return 0
    sleep 0.1
  done
  return 1
}

case $1 in
  start) start "$2" ;;
  prefix) ask volume list --json | sed -n 's/.*"iqn": "\(.*:\)mine".*/\1/p' ;;
  mutual) ask chap mutual set array --secret-file "$(secret mutual target-secret-02)" ;;
  take) ask volume access remove "$2" 1 ;;
  audit) ask audit --refused ;;
  stop) stop ;;
esac

# What every part of the job uses.

target=iqn.2026-11.dev.drystone:export
portals=(198.18.0.1:3260 198.18.1.1:3260)

say() {
  local uptime_s
  read -r uptime_s _ </proc/uptime
  printf '[%7.2f s] %s\n' "$uptime_s" "$*"
}

die() {
  say "FAILED: $*"
  multipath -ll 2>/dev/null
  dmesg | tail -n 60
  exit 1
}

# must COMMAND...: the job fails when the command does, with what it printed.
must() {
  local output status
  output=$("$@" 2>&1) || {
    status=$?
    printf '%s\n' "$output"
    die "status $status of: $*"
  }
}

# fails_with STATUS COMMAND...: the job fails unless the command fails with this status.
fails_with() {
  local wanted=$1 output status=0
  shift
  output=$("$@" 2>&1) || status=$?
  [ $status = "$wanted" ] || {
    printf '%s\n' "$output"
    die "status $status, not $wanted, of: $*"
  }
}

# prints TEXT COMMAND...: the job fails unless the command prints what the extended regular
# expression matches.
prints() {
  local wanted=$1 output
  shift
  output=$("$@" 2>&1)
  grep -Eq -- "$wanted" <<<"$output" || {
    printf '%s\n' "$output"
    die "no '$wanted' from: $*"
  }
}

# within SECONDS COMMAND...: until the command succeeds; the job fails when it does not in time.
within() {
  local limit_s=$1 end_s
  shift
  end_s=$((SECONDS + limit_s))
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end_s ] || {
      "$@"
      die "not within $limit_s s: $*"
    }
    sleep 0.2
  done
}

server() { host "./server.sh $1"; }

# disk PATH LUN [INITIATOR]: the block device of a LUN by a path (0 or 1), of the session whose
# initiator name ends in INITIATOR (default: guest).
disk() {
  local connection session device
  for connection in /sys/class/iscsi_connection/*; do
    session=${connection##*/connection}
    session=/sys/class/iscsi_session/session${session%:*}
    if [ "$(<"$connection/persistent_address")" = "${portals[$1]%:*}" ] &&
      [[ $(<"$session/initiatorname") = *:${3:-guest} ]]; then
      for device in "$session"/device/target*/*":$2"/block/*; do
        [ -b "/dev/${device##*/}" ] && echo "/dev/${device##*/}" && return
      done
    fi
  done
  return 1
}

# has_disks COUNT: udev has made this many SCSI disks.
has_disks() {
  local found=(/sys/class/scsi_disk/*)
  [ -e "${found[0]}" ] && [ ${#found[@]} = "$1" ] && udevadm settle -t 30
}

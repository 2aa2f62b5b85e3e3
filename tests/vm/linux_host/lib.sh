# What every part of the job uses.

target=iqn.2026-11.dev.drystone:export
portals=(198.18.0.1:3260 198.18.1.1:3260)

# shellcheck source=/dev/null
. /usr/lib/vm-job.sh

show_trouble() { multipath -ll 2>/dev/null; }

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

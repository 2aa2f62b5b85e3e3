# What the job uses.

target=iqn.2026-11.dev.drystone:export
export DRYSTONE_RUNTIME_DIR=/run/drystone

# shellcheck source=/dev/null
. /usr/lib/vm-job.sh

show_trouble() {
  tail -n 15 /tmp/*.log
  host ./server.sh logs
}

# fails COMMAND...: the job fails unless the command does.
fails() {
  local output
  ! output=$("$@" 2>&1) || {
    printf '%s\n' "$output"
    die "this did not fail: $*"
  }
}

# is WANTED FILE...: the job fails unless each file holds this.
is() {
  local wanted=$1 file
  shift
  for file in "$@"; do
    [ "$(<"$file")" = "$wanted" ] || die "$file holds $(<"$file"), not $wanted"
  done
}

# attach NAME LUN [OPTION...]: attaches a LUN; its process is ${pids[NAME]}, its device
# ${devices[NAME]}.
declare -A pids devices
attach() {
  local name=$1 lun=$2
  shift 2
  setsid ./drystone attach "iscsi://198.18.0.1/$target/$lun" --ublk "$@" \
    >"/tmp/$name.ready" 2>"/tmp/$name.log" &
  pids[$name]=$!
  until grep -q '^attached ' "/tmp/$name.ready"; do
    kill -0 "${pids[$name]}" 2>/dev/null || die "$name was not attached"
    sleep 0.1
  done
  devices[$name]=$(sed 's/.* at=//' "/tmp/$name.ready")
  [ -b "${devices[$name]}" ] || die "${devices[$name]} is no block device"
}

# The node of a device for its server.
server_node() { echo "${1/ublkb/ublkc}"; }

is_gone() { [ ! -e "$1" ] && [ ! -e "/sys/block/${1##*/}" ]; }

# killed NAME: the process of an attachment is killed, and its device stays.
killed() {
  kill -KILL "${pids[$1]}"
  # The shell says by itself that a process was killed.
  wait "${pids[$1]}" 2>/dev/null
  [ -b "${devices[$1]}" ] || die "${devices[$1]} has gone with its process"
}

# ended NAME STATUS: the process of an attachment has ended with this status, and its device is gone.
ended() {
  local status=0
  # The shell says by itself that a process was killed.
  { wait "${pids[$1]}" || status=$?; } 2>/dev/null
  [ $status = "$2" ] || die "$1 ended with $status, not $2"
  within 10 is_gone "${devices[$1]}"
}

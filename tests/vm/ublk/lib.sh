# What the job uses.

target=iqn.2026-11.dev.drystone:export
export DRYSTONE_RUNTIME_DIR=/run/drystone

say() {
  local uptime_s
  read -r uptime_s _ </proc/uptime
  printf '[%7.2f s] %s\n' "$uptime_s" "$*"
}

die() {
  say "FAILED: $*"
  tail -n 15 /tmp/*.log
  host ./server.sh logs
  dmesg | tail -n 40
  exit 1
}

# must COMMAND...: the job fails when the command does, with what it printed.
must() {
  local output
  output=$("$@" 2>&1) || {
    printf '%s\n' "$output"
    die "this failed: $*"
  }
}

# fails COMMAND...: the job fails unless the command does.
fails() {
  local output
  ! output=$("$@" 2>&1) || {
    printf '%s\n' "$output"
    die "this did not fail: $*"
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

# is WANTED FILE...: the job fails unless each file holds this.
is() {
  local wanted=$1 file
  shift
  for file in "$@"; do
    [ "$(<"$file")" = "$wanted" ] || die "$file holds $(<"$file"), not $wanted"
  done
}

# within SECONDS COMMAND...: until the command succeeds.
within() {
  local limit_s=$1 end_s
  shift
  end_s=$((SECONDS + limit_s))
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end_s ] || die "not within $limit_s s: $*"
    sleep 0.1
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

# ended NAME STATUS: the process of an attachment has ended with this status, and its device is gone.
ended() {
  local status=0
  # The shell says by itself that a process was killed.
  { wait "${pids[$1]}" || status=$?; } 2>/dev/null
  [ $status = "$2" ] || die "$1 ended with $status, not $2"
  within 10 is_gone "${devices[$1]}"
}

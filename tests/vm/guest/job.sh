# What every job uses. A job that has more to show when it fails says so in `show_trouble`.

say() {
  local uptime_s
  read -r uptime_s _ </proc/uptime
  printf '[%7.2f s] %s\n' "$uptime_s" "$*"
}

show_trouble() { :; }

die() {
  say "FAILED: $*"
  show_trouble
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

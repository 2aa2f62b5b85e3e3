# Who may use what, as Linux' own initiator finds it: a member whose volumes have access lists.
cd /job || exit
portals=(198.18.0.1:3260 198.18.1.1:3260)

# shellcheck source=/dev/null
. /usr/lib/vm-job.sh

server() { host "./server.sh $*"; }

node() { iscsiadm -m node -T "$prefix$1" -p "$2" "${@:3}"; }

# set_login NAME PORTAL SECRET: as the CHAP user al.
set_login() {
  must node "$1" "$2" -o update -n node.session.auth.authmethod -v CHAP
  must node "$1" "$2" -o update -n node.session.auth.username -v al
  must node "$1" "$2" -o update -n node.session.auth.password -v "$3"
}

# What the volume is to prove: nothing more is asked for.
expect_proof() {
  must node "$1" "$2" -o update -n node.session.auth.username_in -v array
  must node "$1" "$2" -o update -n node.session.auth.password_in -v "$3"
}

in_and_out() {
  must node "$1" "$2" --login
  within 30 has_session "$1"
  must udevadm settle -t 30
  must node "$1" "$2" --logout
}

# The host tries again and again, and is refused.
lost_session() {
  local session
  for session in /sys/class/iscsi_session/*; do
    [ "$(<"$session/targetname")" != "$prefix$1" ] || [ "$(<"$session/state")" = LOGGED_IN ] || return 0
  done
  return 1
}

has_session() { iscsiadm -m session 2>/dev/null | grep -q "$prefix$1 "; }

# kept_out NAME PORTAL: by the host (24: it is not let in) or by the volume (19: it does not prove what it should).
kept_out() {
  local status=0
  node "$1" "$2" --login >/tmp/said 2>&1 || status=$?
  [ $status = 24 ] || [ $status = 19 ] || {
    cat /tmp/said
    die "status $status of a login to $1 at $2, which should be refused"
  }
  ! has_session "$1" || die "there is a session with $1"
}

guest=$(sed -n 's/^InitiatorName=//p' /etc/iscsi/initiatorname.iscsi)
must server start "$guest"
prefix=$(server prefix)
case $prefix in iqn.*:) ;; *) die "no names of targets: '$prefix'" ;; esac

say "discovery tells what this host may use, and nothing else"
for portal in "${portals[@]}"; do
  iscsiadm -m discovery -t sendtargets -p "$portal" >/tmp/told || die "discovery by $portal"
  sed "s/.*$prefix//" /tmp/told | sort -u | tr '\n' ' ' >/tmp/names
  case $portal in
    198.18.0.*) wanted='mine near proved ' ;;
    *) wanted='mine proved ' ;;
  esac
  [ "$(</tmp/names)" = "$wanted" ] || die "$portal told of '$(</tmp/names)', not of '$wanted'"
done

say "by name and by network"
for name in unlisted mine theirs near proved; do
  for portal in "${portals[@]}"; do
    node "$name" "$portal" >/dev/null 2>&1 || must node "$name" "$portal" -o new
  done
done
for portal in "${portals[@]}"; do
  in_and_out mine "$portal"
  kept_out theirs "$portal"
  kept_out unlisted "$portal"
done
in_and_out near "${portals[0]}"
kept_out near "${portals[1]}"

say "by CHAP, wrong and right, and of the volume, too"
portal=${portals[0]}
kept_out proved "$portal"
set_login proved "$portal" wrong-secret-0003
kept_out proved "$portal"
set_login proved "$portal" guest-secret-0001
in_and_out proved "$portal"
expect_proof proved "$portal" target-secret-02
kept_out proved "$portal"
must server mutual
in_and_out proved "$portal"
expect_proof proved "$portal" wrong-secret-0004
kept_out proved "$portal"

say "who is taken off a list is out"
must node mine "$portal" --login
must server take mine
within 60 lost_session mine
prints "$guest" server audit
must server stop
say "done"

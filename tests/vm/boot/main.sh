# A host that systemd boots, with a volume of `drystone attach` in /etc/fstab: the service of packaging/
# starts when the network is there, the file system is mounted, a kill of the process disturbs nobody, and a
# shutdown takes all of it down in order (end.sh).
# shellcheck source=/dev/null
. /usr/lib/vm-job.sh

show_trouble() {
  systemctl --no-pager --failed
  systemctl --no-pager status drystone-attach srv.mount
  journalctl --no-pager -b -u drystone-attach -u srv.mount -u guest-network | tail -n 60
  host ./server.sh logs
}

# of UNIT PROPERTY: what systemd says.
of() { systemctl show -p "$2" --value "$1"; }

# before A B: unit A was ready before B was.
before() {
  [ "$(of "$1" ActiveEnterTimestampMonotonic)" -le "$(of "$2" "${3:-ActiveEnterTimestampMonotonic}")" ] ||
    die "$2 did not wait for $1"
}

say "booted"
[ "$(readlink /proc/1/exe)" = /usr/lib/systemd/systemd ] || die "the first process is another one"
prints '^active$' systemctl is-active drystone-attach
prints '1 of 1 volume attached' of drystone-attach StatusText
prints '^/dev/ublkb' findmnt -no SOURCE /srv
before guest-network.service drystone-attach.service ExecMainStartTimestampMonotonic
before drystone-attach.service srv.mount InactiveExitTimestampMonotonic
before drystone-attach.service remote-fs-pre.target

say "kill -9 of the process: systemd starts it again, and nobody has noticed"
must dd if=/dev/urandom of=/srv/one bs=1M count=8
must cp /srv/one /tmp/one
main_pid=$(of drystone-attach MainPID)
kill -KILL "$main_pid"
must cp -a /etc/udev /srv/udev
must sync
within 30 systemctl is-active drystone-attach
[ "$(of drystone-attach MainPID)" != "$main_pid" ] || die "it is the same process"
prints '^1$' of drystone-attach NRestarts
echo 3 >/proc/sys/vm/drop_caches
must cmp /tmp/one /srv/one
must diff -r --no-dereference /etc/udev /srv/udev
! dmesg | grep 'I/O error' || die "an error reached the kernel"

say "reload: a new file is followed"
printf 'url = "iscsi://198.18.0.1/iqn.2026-11.dev.drystone:export/1"\nublk = true\n' >/etc/drystone/attach.d/small.toml
must systemctl reload drystone-attach
within 30 test -b /dev/disk/by-id/drystone-small
prints '2 of 2 volumes attached' of drystone-attach StatusText

say "shutdown"
must cp -a /etc/systemd /srv/systemd

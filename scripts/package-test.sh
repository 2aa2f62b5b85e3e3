#!/usr/bin/env bash
# Installs a Debian package in a clean root of each suite, runs a member there as its own user, removes and
# purges it. Needs root, mmdebstrap and a mirror of Debian.
#
#   scripts/package-test.sh PACKAGE SUITE...
set -euo pipefail
package=$(realpath "$1")
shift

roots=$(mktemp --directory)
# The member of a root runs in a PID namespace of its own, and ends with it.
trap 'rm -rf --one-file-system "$roots"' EXIT

fail() {
  echo "package-test: $suite: $*" >&2
  exit 1
}

inside() { unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" chroot "$root" "$@"; }

# A member on two files, as the unit would start it: its user, its directories, its file.
use() {
  inside sh -eu <<'SCRIPT'
as_member() { exec setpriv --reuid drystone --regid drystone --clear-groups --no-new-privs "$@"; }
install -d -o drystone -g drystone -m 750 /var/lib/drystone /run/drystone-member
(as_member truncate --size 256M /var/lib/drystone/disk-0 /var/lib/drystone/disk-1)
echo "disk = '/var/lib/drystone/disk-[01]'" >> /etc/drystone/member.toml
drystone member check
as_member drystone member start > /tmp/member.out 2> /tmp/member.log &
member=$!
for _ in $(seq 100); do
  grep -q '^socket ' /tmp/member.out && break
  sleep 0.1
done
grep -q '^socket path=/run/drystone-member/control.sock' /tmp/member.out || { cat /tmp/member.log; exit 1; }
drystone volume create vm1 64M >/dev/null
drystone status
kill "$member"
wait "$member"
SCRIPT
}

for suite in "$@"; do
  root=$roots/$suite
  echo "package-test: making a clean root of $suite"
  mmdebstrap --quiet --variant=minbase "$suite" "$root"
  cp "$package" "$root/tmp/drystone.deb"
  inside dpkg --install /tmp/drystone.deb
  inside drystone member check >/dev/null 2>&1 && fail "a file without disks is no member's"
  use || fail "a member does not run"
  inside dpkg --install /tmp/drystone.deb >/dev/null || fail "it cannot be installed again"
  grep -q '^disk = ' "$root/etc/drystone/member.toml" || fail "what the operator wrote is gone"
  inside dpkg --remove drystone >/dev/null
  [ ! -e "$root/usr/bin/drystone" ] || fail "removing it leaves the program"
  [ -e "$root/etc/drystone/member.toml" ] || fail "removing it takes the configuration"
  inside dpkg --purge drystone
  [ ! -e "$root/etc/drystone" ] || fail "purging it leaves $(ls -R "$root/etc/drystone")"
  [ -s "$root/var/lib/drystone/disk-0" ] || fail "purging it takes the disks"
  left=$(inside dpkg-query --show --showformat='${Status}\n' drystone 2>/dev/null || true)
  [ -z "$left" ] || fail "dpkg still knows it: $left"
  echo "package-test: $suite: installed, used, installed again, removed, purged"
done

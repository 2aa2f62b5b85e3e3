# Persistent reservations between the two paths of a host, and between two hosts.

conflict=24 # of sg3-utils: RESERVATION CONFLICT

# pr_in OPTION... DISK, pr_out OPTION... DISK: PERSISTENT RESERVE IN and OUT. What others did to the
# reservation comes as a unit attention, to a command of the kernel's or to one of these: TEST
# UNIT READY takes it first.
pr_in() {
  within 10 sg_turs "${!#}"
  sg_persist --in "$@"
}

pr_out() {
  within 10 sg_turs "${!#}"
  sg_persist --out "$@"
}

# can_write DISK, can_read DISK
can_write() { dd if=/dev/zero of="$1" oflag=direct bs=4K count=1 status=none; }
can_read() { dd if="$1" of=/dev/null iflag=direct bs=4K count=1 status=none; }
cannot() { ! "$@" 2>/dev/null; }

# A second host, as far as the target can tell: a session of another initiator name.
login_second_host() {
  iscsiadm -m iface -I second -o new >/dev/null
  must iscsiadm -m iface -I second -o update -n iface.initiatorname \
    -v iqn.2026-11.dev.drystone.test:second
  must iscsiadm -m node -T "$target" -p "${portals[0]}" -I second -o new
  must iscsiadm -m node -T "$target" -p "${portals[0]}" -I second --login
  within 60 has_disks 9
}

logout_second_host() {
  must iscsiadm -m node -T "$target" -p "${portals[0]}" -I second --logout
  must iscsiadm -m node -T "$target" -p "${portals[0]}" -I second -o delete
  within 60 has_disks 6
}

reserve() {
  local first second other
  say "persistent reservations: two paths, two hosts"
  login_second_host
  first=$(disk 0 2) second=$(disk 1 2) other=$(disk 0 2 second)

  must pr_out --register --param-sark=a "$first"
  must pr_out --register --param-sark=b "$second"
  must pr_out --register --param-sark=c "$other"
  prints '3 registered reservation keys' pr_in --read-keys "$first"
  must pr_out --reserve --param-rk=a --prout-type=1 "$first" # write exclusive
  prints 'Key=0xa' pr_in --read-reservation "$other"
  must can_write "$first"
  must cannot can_write "$second"
  must cannot can_write "$other"
  must can_read "$other"
  fails_with $conflict pr_out --reserve --param-rk=b --prout-type=1 "$second"

  # The other path takes the place of the first, whose key is gone.
  must pr_out --preempt --param-rk=b --param-sark=a --prout-type=1 "$second"
  prints '2 registered reservation keys' pr_in --read-keys "$other"
  must can_write "$second"
  must cannot can_write "$first"
  fails_with $conflict pr_out --release --param-rk=a --prout-type=1 "$first"

  # The other host takes over, as a cluster does that fences; then lets all registrants in.
  must pr_out --preempt-abort --param-rk=c --param-sark=b --prout-type=3 "$other" # exclusive access
  must can_write "$other"
  must cannot can_read "$second"
  must pr_out --release --param-rk=c --prout-type=3 "$other"
  must pr_out --register-ignore --param-sark=a "$first"
  must pr_out --reserve --param-rk=c --prout-type=7 "$other" # write exclusive, all registrants
  must can_write "$first"
  must cannot can_write "$second"
  must pr_out --clear --param-rk=c "$other"
  prints 'there are NO registered reservation keys' pr_in --read-keys "$first"
  must can_write "$second"
  logout_second_host
}

# Keys of LUN 0, kept through loss of power: both paths may write, nobody else. crash.sh looks
# for them after the crash.
reserve_for_good() {
  say "a reservation with APTPL for all paths of this host"
  must pr_out --register --param-aptpl --param-sark=a "$(disk 0 0)"
  must pr_out --register --param-aptpl --param-sark=a "$(disk 1 0)"
  must pr_out --reserve --param-rk=a --prout-type=7 "$(disk 0 0)"
}

reservation_is_kept() {
  local disk
  disk=$(disk 0 0)
  prints '2 registered reservation keys' pr_in --read-keys "$disk"
  prints 'Write Exclusive, all registrants' pr_in --read-reservation "$disk"
}

clear_reservation() {
  must pr_out --clear --param-rk=a "$(disk 0 0)"
}

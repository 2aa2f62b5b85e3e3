# Copies between two volumes of one member, each a target of its own, as Storage vMotion makes them.

# volume NAME: the block device of a volume.
volume() {
  local session device
  for session in /sys/class/iscsi_session/*; do
    [[ $(<"$session/targetname") = *:$1 ]] || continue
    for device in "$session"/device/target*/*/block/*; do
      [ -b "/dev/${device##*/}" ] && echo "/dev/${device##*/}" && return
    done
  done
  return 1
}

copy_between_volumes() {
  local one two name
  say "EXTENDED COPY from volume to volume"
  must server up
  must iscsiadm -m discovery -t sendtargets -p "${portals[0]}" -o new -o delete
  # Whoever has written to a disk makes udev read it, which must not meet the logout.
  must udevadm settle -t 30
  for name in one two; do
    must iscsiadm -m node -T "$(volume_target "$name")" -p "${portals[0]}" --login
  done
  within 60 has_disks 2
  one=$(volume one) two=$(volume two)
  random /tmp/one 1024
  must dd if=/tmp/one of="$one" oflag=direct bs=256K status=none
  must sg_xcopy if="$one" of="$two" bs=512 count=2048 seek=4096
  must holds "$two" /tmp/one $((4096 * 512))
  must sg_xcopy if="$two" of="$one" bs=512 count=2048 skip=4096 seek=8192
  must holds "$one" /tmp/one $((8192 * 512))
  say "a token of one volume, written to the other"
  populate_token "$one" 0 2048
  must take_token "$one" /tmp/token
  must write_using_token "$two" /tmp/token 16384 2048
  must holds "$two" /tmp/one $((16384 * 512))
  # What it stands for has changed: it is revoked, and nothing is written.
  must dd if=/dev/zero of="$one" oflag=direct bs=4K count=1 status=none
  fails_with 5 write_using_token "$two" /tmp/token 0 2048 # ILLEGAL REQUEST
  truncate -s 1M /tmp/zeroes
  must holds "$two" /tmp/zeroes
  # Whoever has written to a disk makes udev read it, which must not meet the logout.
  must udevadm settle -t 30
  for name in one two; do
    must iscsiadm -m node -T "$(volume_target "$name")" -p "${portals[0]}" --logout
  done
  must server down
}

# bytes NUMBER WIDTH: a number of so many bytes, as SCSI writes it.
bytes() {
  local hex at
  printf -v hex '%0*x' $((2 * $2)) "$1"
  for ((at = 0; at < ${#hex}; at += 2)); do printf '%b' "\\x${hex:at:2}"; done
}

# populate_token DISK LBA BLOCKS: POPULATE TOKEN (SBC-4), with list identifier 1.
populate_token() {
  { bytes 30 2 && bytes 0 12 && bytes 16 2 && bytes "$2" 8 && bytes "$3" 4 && bytes 0 4; } >/tmp/list
  must sg_raw -s 32 -i /tmp/list "$1" 83 10 0 0 0 0 0 0 0 1 0 0 0 20 0 0
}

# take_token DISK FILE: RECEIVE ROD TOKEN INFORMATION (SPC-4) of what populate_token has made.
take_token() {
  sg_raw -r 1024 -o /tmp/information "$1" 84 7 0 0 0 1 0 0 0 0 0 0 4 0 0 0 || return
  local sense
  sense=$(od -An -tu1 -j13 -N1 /tmp/information)
  # Behind the sense data: the length of the descriptors, and two bytes of the first.
  tail -c +$((32 + sense + 4 + 2 + 1)) /tmp/information | head -c 512 >"$2"
  [ "$(stat -c %s "$2")" = 512 ]
}

# write_using_token DISK FILE LBA BLOCKS: WRITE USING TOKEN (SBC-4), all of what it stands for.
write_using_token() {
  { bytes 550 2 && bytes 0 14 && cat "$2" && bytes 0 6 && bytes 16 2 &&
    bytes "$3" 8 && bytes "$4" 4 && bytes 0 4; } >/tmp/list
  sg_raw -s 552 -i /tmp/list "$1" 83 11 0 0 0 0 0 0 0 2 0 0 2 28 0 0
}

# The whole name of a target that ends in NAME.
volume_target() { iscsiadm -m node | sed -n "s/.* \\(iqn[^ ]*:$1\\)\$/\\1/p" | sort -u; }

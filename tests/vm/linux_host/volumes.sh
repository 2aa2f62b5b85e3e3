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
  for name in one two; do
    must iscsiadm -m node -T "$(volume_target "$name")" -p "${portals[0]}" --logout
  done
  must server down
}

# The whole name of a target that ends in NAME.
volume_target() { iscsiadm -m node | sed -n "s/.* \\(iqn[^ ]*:$1\\)\$/\\1/p" | sort -u; }

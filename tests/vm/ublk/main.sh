# `drystone attach --ublk` in the guest: a LUN of a server out there becomes a block device, is used
# as any disk is, and goes, in good order and otherwise.
cd /job || exit
# shellcheck source=/dev/null
. /job/lib.sh

refuse() {
  say "where it cannot work it says so"
  prints "no /dev/ublk-control: .*'modprobe ublk_drv', or write --nbd" \
    ./drystone attach "iscsi://198.18.0.1/$target" --ublk
  must modprobe -a ublk_drv loop
  prints 'only root may make block devices' setpriv --reuid 1000 --clear-groups \
    ./drystone attach "iscsi://198.18.0.1/$target" --ublk
  prints 'lets only CAP_SYS_ADMIN' setpriv --bounding-set -sys_admin \
    ./drystone attach "iscsi://198.18.0.1/$target" --ublk
}

# The kernel's disk is what the target's is.
look() {
  say "the devices have the shape of the LUNs"
  local queue=/sys/block/${disk##*/}/queue small
  prints '^1073741824$' blockdev --getsize64 "$disk"
  prints '^0$' blockdev --getro "$disk"
  is 512 "$queue/logical_block_size"
  is 'write back' "$queue/write_cache"
  is 1 "$queue/fua"
  is 1073741824 "$queue/discard_max_bytes"
  is 134217728 "$queue/write_zeroes_max_bytes"
  is 1024 "$queue/max_hw_sectors_kb"
  attach small 1
  small=${devices[small]}
  is 4096 "/sys/block/${small##*/}/queue/logical_block_size"
  prints '^67108864$' blockdev --getsize64 "$small"
  must verify "$small" 8M
  attach fixed 2
  prints '^1$' blockdev --getro "${devices[fixed]}"
  fails dd if=/dev/zero of="${devices[fixed]}" bs=4k count=1 oflag=direct
  must dd if="${devices[fixed]}" of=/dev/null bs=1M iflag=direct
  prints "at=$small" cat /tmp/small.ready
  prints "$small .* least-queue-depth" ./drystone attached
  must ./drystone detach "$small"
  ended small 0
  must ./drystone detach "${pids[fixed]}"
  ended fixed 0
}

# verify DEVICE SIZE: random writes of mixed lengths, past the page cache, read back and compared.
verify() {
  fio --name=verify --filename="$1" --ioengine=libaio --direct=1 --rw=randwrite \
    --bsrange=4k-1M --iodepth=32 --size="$2" --verify=crc32c --verify_fatal=1 --do_verify=1 \
    --verify_state_save=0 --fsync=16 --output-format=terse
}

used() { host ./server.sh used; }

# used_less_than KIBIBYTES: the file of the LUN has given space back.
used_less_than() { [ "$(used)" -lt "$1" ]; }

use_as_a_disk() {
  say "random writes, verified"
  must verify "$disk" 64M
  say "blkdiscard: zeroes that keep space, then space given back"
  must blkdiscard -z -o 1M -l 48M "$disk"
  must cmp -n $((48 << 20)) -i $((1 << 20)):0 "$disk" /dev/zero
  [ "$(used)" -gt 40000 ] || die "zeroes were to keep their space"
  must blkdiscard "$disk"
  within 10 used_less_than 1000
  say "a file system: files, fstrim, umount"
  must mkfs.ext4 -q "$disk"
  must mount "$disk" /mnt
  must dd if=/dev/urandom of=/mnt/random bs=1M count=24 conv=fsync
  must cp -a /usr/bin /mnt/bin
  must sync
  local before
  before=$(used)
  must rm /mnt/random
  must sync
  must fstrim /mnt
  within 10 used_less_than $((before - 20000))
}

refuse_what_is_in_use() {
  say "what is in use is not taken away"
  prints "in use: unmount it" ./drystone detach "$disk"
  must diff -r --no-dereference /usr/bin /mnt/bin
  must umount /mnt
  sleep 1000 <"$disk" &
  local reader=$!
  prints "in use: .*end what uses it" ./drystone detach "$disk"
  kill $reader
  local loop
  loop=$(losetup --find --show "$disk")
  prints "in use: .*losetup" ./drystone detach "$disk"
  must losetup --detach "$loop"
}

lose_all_paths() {
  say "without any path I/O waits, then fails; with one it goes on"
  must host ./server.sh kill
  fails dd if="$disk" of=/dev/null bs=4k count=1 skip=1000 iflag=direct
  must host ./server.sh start
  within 20 dd if="$disk" of=/dev/null bs=4k count=1 skip=1000 iflag=direct
  must mount "$disk" /mnt
  must diff -r --no-dereference /usr/bin /mnt/bin
  must umount /mnt
}

detach() {
  say "detach"
  must ./drystone detach "$disk"
  ended disk 0
  is_gone "$(server_node "$disk")" || die "$(server_node "$disk") is left"
  prints 'nothing is attached' ./drystone attached
}

# verify_until FILE DEVICE: as verify, written and read over and over until the file is there, or something is wrong.
verify_until() {
  until [ -e "$1" ]; do
    fio --name=long --filename="$2" --ioengine=libaio --direct=1 --rw=randwrite --bsrange=4k-256k \
      --iodepth=32 --size=16M --verify=crc32c --verify_fatal=1 --verify_backlog=64 --time_based \
      --runtime=10 --verify_state_save=0 --fsync=64 --output-format=terse || return
  done
}

count_errors() { dmesg | grep -c 'I/O error'; }

# Attachments are killed under load, and new ones take their device over: no error reaches anybody.
die_and_come_back() {
  say "kill -9 under verified load and a mounted file system: the next one takes the device over"
  attach life 0
  attach other 1
  local device=${devices[life]} writer kills errors
  errors=$(count_errors)
  must mkfs.ext4 -q "${devices[other]}"
  must mount "${devices[other]}" /mnt
  verify_until /tmp/enough "$device" >/tmp/writer.log 2>&1 &
  writer=$!
  for kills in 1 2 3; do
    sleep 2
    kill -0 $writer || die "the load ended early: $(</tmp/writer.log)"
    killed life
    [ $kills != 2 ] || look_at_what_is_left "$device"
    attach life 0
    [ "${devices[life]}" = "$device" ] || die "a new device, ${devices[life]}, and not $device"
    prints "took '$device' over" cat /tmp/life.log
  done
  killed other
  cp -a /etc /mnt/etc &
  local copier=$!
  attach other 1
  wait $copier || die "files could not be copied"
  must sync
  must diff -r --no-dereference /etc /mnt/etc
  must umount /mnt
  touch /tmp/enough
  wait $writer || die "the load has ended with $?: $(</tmp/writer.log)"
  [ "$(count_errors)" = "$errors" ] || die "an error reached the kernel"
  prints "^$device .*life|least-queue-depth" ./drystone attached
  must ./drystone detach "${devices[other]}"
  ended other 0
  must ./drystone detach "$device"
  ended life 0
}

look_at_what_is_left() {
  say "a device that was left is in the list, and nobody gets it but its own volume"
  prints "iscsi://198.18.0.1/$target/0 +$1 .* left: .*drystone detach $1" ./drystone attached
  attach fixed 2
  [ "${devices[fixed]}" != "$1" ] || die "another volume has taken $1 over"
  must ./drystone detach "${devices[fixed]}"
  ended fixed 0
}

# The target loses its cache, the process hears of it and is killed before it could say so: the next one
# says it.
tell_what_was_lost() {
  say "a lost cache that a process had heard of is told by the next one"
  attach lost 3
  local device=${devices[lost]} note
  note=/run/drystone/ublk/${device##*/}.lost
  must dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct
  must host ./server.sh kill
  must host ./server.sh start
  must dd if="$device" of=/dev/null bs=4k count=1 iflag=direct
  [ -e "$note" ] || die "the loss is not noted"
  killed lost
  attach lost 3
  [ "${devices[lost]}" = "$device" ] || die "a new device, ${devices[lost]}, and not $device"
  fails sync "$device"
  must sync "$device"
  [ ! -e "$note" ] || die "all users know, and the note is there"
  must ./drystone detach "$device"
  ended lost 0
}

# Nobody takes it over: what waits for it can be sent away.
take_away_what_is_left() {
  say "a device that nobody takes over is taken away by hand, and its users get errors"
  attach gone 0
  local device=${devices[gone]} reader place
  killed gone
  dd if="$device" of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null &
  reader=$!
  sleep 1
  kill -0 $reader || die "a read of $device did not wait"
  # What waits in its users would be written over what users of another place write meanwhile.
  mkdir -p /tmp/left
  for place in "--nbd unix:/tmp/left.sock" "--fuse /tmp/left"; do
    # shellcheck disable=SC2086 # an option and its value
    prints "'$device' is of this volume, .*attach the volume with --ublk" \
      ./drystone attach "iscsi://198.18.0.1/$target/0" $place
  done
  must ./drystone detach "$device"
  fails wait $reader
  within 10 is_gone "$device"
  is_gone "$(server_node "$device")" || die "$(server_node "$device") is left"
  [ ! -e "/run/drystone/ublk/${device##*/}" ] || die "its note is left"
  prints 'nothing is attached' ./drystone attached
}

# has_bytes DEVICE BYTES
has_bytes() { [ "$(blockdev --getsize64 "$1")" = "$2" ]; }

# A volume grows under a mounted file system: with Linux 6.16 and later so does its device.
grow() {
  say "a volume grows while it is used"
  must host ./server.sh kill
  local device name
  name=$(host ./server.sh up) || die "no volume: $name"
  target=$name attach grows 0
  device=${devices[grows]}
  must mkfs.ext4 -q "$device"
  must mount "$device" /mnt
  must cp -a /etc /mnt/etc
  must host ./server.sh grow
  must sync
  if printf '6.16\n%s\n' "$(uname -r)" | sort -C -V; then
    within 20 has_bytes "$device" $((64 << 20))
    must resize2fs "$device"
    must dd if=/dev/urandom of=/mnt/random bs=1M count=40 conv=fsync
  else
    within 20 grep -q 'keeps its size until it is attached anew' /tmp/grows.log
    must has_bytes "$device" $((32 << 20))
  fi
  must diff -r --no-dereference /etc /mnt/etc
  must umount /mnt
  must ./drystone detach "$device"
  ended grows 0
  target=$name attach again 0
  must has_bytes "${devices[again]}" $((64 << 20))
  must fsck.ext4 -fn "${devices[again]}"
  must ./drystone detach "${devices[again]}"
  ended again 0
  must host ./server.sh kill
  must host ./server.sh start
}

# What programs have written without fsync is flushed by a detach, though the device could outlive it.
keep_what_is_cached() {
  say "what the kernel caches is written before a device goes"
  attach cached 0
  must dd if=/dev/urandom of=/tmp/random bs=1M count=4
  # Held open, for the last close would write it.
  exec 5<>"${devices[cached]}"
  must dd if=/tmp/random of="${devices[cached]}" bs=1M conv=notrunc
  kill -TERM "${pids[cached]}"
  ended cached 0
  exec 5>&-
  attach cached 0
  must cmp -n $((4 << 20)) /tmp/random "${devices[cached]}"
  must ./drystone detach "${devices[cached]}"
  ended cached 0
}

signals() {
  say "a signal does not ask those who use it"
  attach again 0
  local again=${devices[again]}
  must mkfs.ext4 -q "$again"
  must mount "$again" /mnt
  must cp -a /etc /mnt/etc
  kill -TERM "${pids[again]}"
  ended again 0
  prints 'those that still use the disk get errors' cat /tmp/again.log
  umount /mnt
  attach last 0
  must fsck.ext4 -fn "${devices[last]}"
  must mount "${devices[last]}" /mnt
  must diff -r --no-dereference /etc /mnt/etc
  must umount /mnt
  kill -INT "${pids[last]}"
  ended last 0
}

# start_all: one process for all volumes, as at boot.
start_all() {
  setsid ./drystone attach --all >/tmp/all.ready 2>/tmp/all.log &
  pids[all]=$!
}

# named NAME...: each link leads to a block device.
named() {
  local name
  for name; do [ -b "/dev/disk/$name" ] || return 1; done
}

sized() { [ "$(blockdev --getsize64 "$2")" = "$1" ]; }

unnamed() { ! ls /dev/disk/by-id/drystone-* /dev/disk/by-id/wwn-* 2>/dev/null; }

boot() {
  say "at boot: volumes by file and by name, also when the target comes later"
  host cat ../../../packaging/60-drystone.rules >/etc/udev/rules.d/60-drystone.rules
  must udevadm control --reload
  must mkdir -p /etc/drystone/attach.d
  printf 'url = "iscsi://198.18.0.1/%s"\nublk = true\n' "$target" >/etc/drystone/attach.d/db.toml
  printf 'url = "iscsi://198.18.0.1/%s/1"\nublk = true\n' "$target" \
    >/etc/drystone/attach.d/small.toml
  must host ./server.sh kill
  start_all
  within 20 grep -q 'name="db".*not attached yet' /tmp/all.log
  must host ./server.sh start
  within 30 named by-id/drystone-db by-id/drystone-small
  local db small
  db=$(readlink -f /dev/disk/by-id/drystone-db)
  small=$(readlink -f /dev/disk/by-id/drystone-small)
  prints '^1073741824$' blockdev --getsize64 "$db"
  prints '^67108864$' blockdev --getsize64 "$small"
  prints "$db\$" readlink -f /dev/disk/by-id/wwn-0x*
  prints "$small\$" readlink -f /dev/disk/by-id/wwn-0x*
  prints 'wwn-0x[0-9a-f]{16}([0-9a-f]{16})?$' ls /dev/disk/by-id
  must mkfs.ext4 -q -U 11111111-2222-3333-4444-555555555555 -L label "$small"
  within 10 named by-uuid/11111111-2222-3333-4444-555555555555 by-label/label
  must verify /dev/disk/by-id/drystone-db 8M
  must dd if=/dev/zero of="$db" bs=512 count=1 conv=notrunc
  # A table with one partition of type 83h, from sector 2048, 131072 sectors long.
  printf '\0\0\2\0\203\377\377\377\0\010\0\0\0\0\2\0' |
    dd of="$db" bs=1 seek=446 conv=notrunc status=none
  printf '\125\252' | dd of="$db" bs=1 seek=510 conv=notrunc status=none
  must blockdev --rereadpt "$db"
  # udev looks at the table once more, and the name is gone for a moment.
  within 20 sized 67108864 /dev/disk/by-id/drystone-db-part1

  say "kill -9 of the process for all, and a new one: the same devices, in use all the time"
  must mount /dev/disk/by-label/label /mnt
  devices[all]=$db
  killed all
  # Another runtime directory knows nothing of whose they are.
  DRYSTONE_RUNTIME_DIR=/run/other attach other 2
  DRYSTONE_RUNTIME_DIR=/run/other must ./drystone detach "${devices[other]}"
  ended other 0
  # It waits where the kernel has to read or write.
  touch /mnt/before &
  local toucher=$!
  start_all
  within 30 grep -q "took '$db' over" /tmp/all.log
  within 30 grep -q "took '$small' over" /tmp/all.log
  within 30 named by-id/drystone-db by-id/drystone-db-part1 by-id/drystone-small
  prints "$db\$" readlink -f /dev/disk/by-id/drystone-db
  wait $toucher || die "a file could not be made"
  must sync
  must umount /mnt
  must mount /dev/disk/by-label/label /mnt
  must cp -a /etc/udev /mnt/udev
  prints 'in use: unmount it' ./drystone detach small
  rm /etc/drystone/attach.d/small.toml
  kill -HUP "${pids[all]}"
  within 20 grep -q 'small stays as it is: its file is gone' /tmp/all.log
  must umount /mnt
  kill -HUP "${pids[all]}"
  within 20 not_named by-id/drystone-small
  named by-id/drystone-db || die "the other one is gone too"
  devices[all]=$(readlink -f /dev/disk/by-id/drystone-db)
  kill -TERM "${pids[all]}"
  ended all 0
  within 10 unnamed
  prints '^total 0$' ls -l /run/drystone/ublk
  attach again 1
  must mount "${devices[again]}" /mnt
  must diff -r --no-dereference /etc/udev /mnt/udev
  must umount /mnt
  must ./drystone detach "${devices[again]}"
  ended again 0
}

not_named() { ! named "$1"; }

dmesg --clear
must host ./server.sh start
refuse
attach disk 0 --path-timeout 3
disk=${devices[disk]}
look
use_as_a_disk
refuse_what_is_in_use
lose_all_paths
detach
die_and_come_back
tell_what_was_lost
take_away_what_is_left
grow
keep_what_is_cached
signals
boot
! dmesg | grep -E 'BUG:|Oops|Call Trace|blocked for more' || die "the kernel says what is above"
say "done"

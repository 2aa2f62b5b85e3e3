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

# The attachment is killed while it is written to.
die_and_come_back() {
  say "kill -9, under load"
  attach killed 0
  local killed=${devices[killed]} writer
  dd if=/dev/zero of="$killed" bs=64k oflag=direct conv=notrunc 2>/tmp/writer.log &
  writer=$!
  sleep 1
  kill -KILL "${pids[killed]}"
  ended killed 137
  fails wait $writer
  prints 'nothing is attached' ./drystone attached
  [ -e "$(server_node "$killed")" ] || die "the kernel keeps the number of a device that was killed"
  attach again 0
  [ "${devices[again]}" = "$killed" ] || is_gone "$(server_node "$killed")" ||
    die "$(server_node "$killed") is left"
  must verify "${devices[again]}" 8M
}

signals() {
  say "a signal does not ask those who use it"
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
  within 10 named by-id/drystone-db-part1
  prints '^67108864$' blockdev --getsize64 /dev/disk/by-id/drystone-db-part1

  say "kill -9 of the process for all, and a new one"
  devices[all]=$db
  kill -KILL "${pids[all]}"
  ended all 137
  within 10 unnamed
  # What it has noted of the number does not name another device that gets it.
  DRYSTONE_RUNTIME_DIR=/run/other attach other 2
  [ -e "/run/drystone/ublk/${devices[other]##*/}" ] || die "the kernel gave another number"
  must udevadm settle
  unnamed || die "a device has the name of another one"
  DRYSTONE_RUNTIME_DIR=/run/other must ./drystone detach "${devices[other]}"
  ended other 0
  start_all
  within 30 named by-id/drystone-db by-id/drystone-db-part1 by-id/drystone-small
  ! grep -o 'deleted ublk device [0-9]*' /tmp/all.log | sort | uniq -d | grep . ||
    die "a number was deleted twice, the second time perhaps that of a new device"
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
signals
boot
! dmesg | grep -E 'BUG:|Oops|Call Trace|blocked for more' || die "the kernel says what is above"
say "done"

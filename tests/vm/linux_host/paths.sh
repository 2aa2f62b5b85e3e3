# dm-multipath over both paths, file systems on it, and a path that goes away while they write.

# map LUN: the device of a LUN's map, by the WWID of its disk.
map() {
  local wwid
  wwid=$(/usr/lib/udev/scsi_id -g -u "$(disk 0 "$1")")
  echo "/dev/mapper/$(multipathd show maps raw format '%w %n' | awk -v w="$wwid" '$1 == w { print $2 }')"
}

# paths_are STATE COUNT: this many paths are in a state, as `active ready`.
paths_are() {
  [ "$(multipathd show paths raw format '%t %T' | grep -c "^$1 *\$")" = "$2" ]
}

maps_are() {
  [ "$(multipathd show maps raw format '%n' | grep -c .)" = "$1" ]
}

start_multipath() {
  local lun shown
  say "multipath"
  cp /job/multipath.conf /etc/multipath.conf
  modprobe -a dm_multipath dm_service_time scsi_dh_alua
  multipathd
  within 60 maps_are 3
  within 60 paths_are 'active ready' 6
  multipath -ll
  for lun in 0 1 2; do
    within 60 test -b "$(map $lun)" # udev makes it
    shown=$(multipath -ll "$(map $lun)")
    # One map, one group of two paths with the priority of active/optimized. The group is
    # `enabled` until the first I/O makes it `active`.
    [ "$(grep -Ec 'prio=50 status=(active|enabled)' <<<"$shown")" = 1 ] || die "groups of LUN $lun"
    [ "$(grep -c 'active ready running' <<<"$shown")" = 2 ] || die "paths of LUN $lun"
    [[ $shown == *"hwhandler='1 alua'"* ]] || die "no ALUA for LUN $lun"
  done
}

make_filesystems() {
  say "xfs on LUN 0, ext4 on LUN 1"
  must mkfs.xfs -q -f "$(map 0)"
  must mkfs.ext4 -q -F "$(map 1)"
  mkdir -p /mnt/xfs /mnt/ext4
  must mount "$(map 0)" /mnt/xfs
  must mount "$(map 1)" /mnt/ext4
}

# Writes numbered copies of the source to both file systems, each durable before the next.
write_files() {
  local i
  for i in 1 2 3 4 5 6 7 8; do
    dd if=/tmp/source of=/mnt/xfs/$i bs=256K oflag=direct conv=fsync status=none &&
      dd if=/tmp/source of=/mnt/ext4/$i bs=256K conv=fsync status=none || return
  done
}

cut_and_heal_a_path() {
  local writer
  random /tmp/source 8192
  say "writing; a path goes silent meanwhile"
  write_files &
  writer=$!
  within 60 test -s /mnt/ext4/2
  must host ip link set path1 down
  kill -0 $writer 2>/dev/null || die "the writer had ended before the cut"
  wait $writer || die "the writer saw an error"
  say "written"
  within 60 paths_are 'failed faulty' 3
  must host ip link set path1 up
  within 120 paths_are 'active ready' 6
  say "both paths are back"
}

compare_files() {
  local i
  say "what was written is there after a remount"
  must umount /mnt/xfs /mnt/ext4
  must mount "$(map 0)" /mnt/xfs
  must mount "$(map 1)" /mnt/ext4
  for i in 1 2 3 4 5 6 7 8; do
    must cmp /tmp/source /mnt/xfs/$i
    must cmp /tmp/source /mnt/ext4/$i
  done
}

# trim_to_less_than KIBIBYTES: XFS frees what was removed in the background.
trim_to_less_than() { fstrim /mnt/xfs && [ "$(server used)" -lt "$1" ]; }

# LUN 0 gives its space back to the file system of the server: first what fstrim finds, then all.
# GET LBA STATUS tells which it is: 0 is mapped, 1 deallocated.
give_space_back() {
  local before_kib after_kib
  say "fstrim and blkdiscard"
  before_kib=$(server used)
  prints '^0$' sg_get_lba_status -bb --lba=0 "$(disk 0 0)"
  must rm /mnt/xfs/[1-7] # 8 MiB each
  within 20 trim_to_less_than $((before_kib - 48 * 1024))
  say "fstrim: from $before_kib KiB to $(server used) KiB in use on the server"
  must umount /mnt/xfs /mnt/ext4
  must blkdiscard "$(map 0)"
  after_kib=$(server used)
  say "blkdiscard: to $after_kib KiB"
  [ "$after_kib" -lt 1024 ] || die "blkdiscard gave too little back"
  prints '^1$' sg_get_lba_status -bb --lba=0 "$(disk 0 0)"
}

verify_random_writes() {
  say "fio --verify=crc32c over LUN 1"
  must fio --name=verify --filename="$(map 1)" --rw=randrw --bsrange=4k-128k --size=24M \
    --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --verify_fatal=1
}

stop_multipath() {
  # It may end before it has answered.
  multipathd shutdown || true
  within 30 cannot pidof multipathd
  must multipath -F
}

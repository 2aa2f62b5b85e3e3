# The SCSI commands that Linux' own tools send, straight to one path.

# What a host asks before it uses a disk; none of it may end with an error.
ask() {
  local disk
  say "sg3-utils: what a host asks"
  for disk in "$(disk 0 0)" "$(disk 1 1)"; do
    must sg_turs "$disk"
    must sg_requests "$disk"
    must sg_vpd -a "$disk"
    must sg_modes -a "$disk"
    must sg_modes -a -6 "$disk"
    must sg_logs -a "$disk"
    must sg_opcodes "$disk"
    must sg_readcap "$disk"
    must sg_luns "$disk"
    must sg_rtpg -d "$disk"
    must sg_sync "$disk"
    must sg_verify --lba=0 --count=8 "$disk"
  done
  prints 'Vendor identification: DRYSTONE' sg_inq "$(disk 0 0)"
  prints 'Product identification: VOLUME' sg_inq "$(disk 0 0)"
  prints 'Unit serial number: vm-file' sg_vpd -p sn "$(disk 0 0)"
  prints 'Logical block length=512 bytes' sg_readcap -l "$(disk 0 0)"
  prints 'Logical block length=4096 bytes' sg_readcap -l "$(disk 1 1)"
  prints ' 3 lun entries' sg_luns "$(disk 0 0)"
  prints 'active/optimized' sg_rtpg -d "$(disk 0 0)"
  # One disk by both paths, by the name that multipath goes by.
  [ "$(sg_vpd -p di -i -q "$(disk 0 0)" | grep -o 'naa.*\|0x[0-9a-f]*' | head -n 1)" = \
    "$(sg_vpd -p di -i -q "$(disk 1 0)" | grep -o 'naa.*\|0x[0-9a-f]*' | head -n 1)" ] ||
    die "two names of one disk"
}

# random FILE KIBIBYTES
random() { dd if=/dev/urandom of="$1" bs=1K count="$2" status=none; }

# holds DISK FILE [OFFSET]: the disk holds the file, OFFSET bytes from its beginning.
holds() {
  echo 3 >/proc/sys/vm/drop_caches
  cmp -n "$(stat -c %s "$2")" -i "${3:-0}:0" "$1" "$2"
}

write_same_and_compare() {
  local disk
  disk=$(disk 0 2)
  say "WRITE SAME with UNMAP, COMPARE AND WRITE, ORWRITE"
  random /tmp/old 4
  random /tmp/new 4
  truncate -s 4K /tmp/zeroes
  must dd if=/tmp/old of="$disk" oflag=direct bs=4K status=none
  cat /tmp/old /tmp/new >/tmp/compare
  must sg_compare_and_write --in=/tmp/compare --lba=0 --num=8 "$disk"
  must holds "$disk" /tmp/new
  fails_with 14 sg_compare_and_write --in=/tmp/compare --lba=0 --num=8 "$disk" # miscompare
  must holds "$disk" /tmp/new
  head -c 4096 /dev/zero | tr '\0' '\377' >/tmp/ones
  must sg_write_x --or --strict --in=/tmp/ones --lba=0 --num=8 "$disk"
  must holds "$disk" /tmp/ones
  must sg_write_same --unmap --lba=0 --num=8 "$disk"
  must holds "$disk" /tmp/zeroes
}

reset_units() {
  local path lun
  say "LOGICAL UNIT RESET and TARGET RESET"
  must sg_reset --device --no-escalate "$(disk 0 2)"
  must sg_reset --target --no-escalate "$(disk 0 2)"
  # Every path is told once, by a unit attention.
  for path in 0 1; do
    for lun in 0 1 2; do within 10 sg_turs "$(disk $path $lun)"; done
  done
}

copy_between_units() {
  local from to
  from=$(disk 0 2)
  to=$(disk 0 0)
  say "EXTENDED COPY from LUN 2 to LUN 0"
  random /tmp/copied 1024
  must dd if=/tmp/copied of="$from" oflag=direct bs=256K status=none
  must sg_xcopy if="$from" of="$to" bs=512 count=2048 seek=4096
  must holds "$to" /tmp/copied $((4096 * 512))
}

sanitize() {
  local disk
  disk=$(disk 1 2)
  say "SANITIZE"
  random /tmp/secret 64
  must dd if=/tmp/secret of="$disk" oflag=direct bs=64K status=none
  must sg_sanitize --block --quick --early "$disk"
  within 60 sg_turs "$disk"
  truncate -s 64K /tmp/nothing
  must holds "$disk" /tmp/nothing
}

# `drystone attach --ublk` beside the kernel's own initiator: the same LUN over the same path, the same fio,
# in turn. The guest is emulated, so that only the ratios mean something. CPU is that of the whole guest: the
# kernel's initiator has no process of its own.
# shellcheck source=/dev/null
. /usr/lib/vm-job.sh
cd /job || exit
rounds=3
seconds=3
target=iqn.2026-11.dev.drystone:export
export DRYSTONE_RUNTIME_DIR=/run/drystone

show_trouble() {
  tail -n 15 /tmp/attach.log
  host ./server.sh logs
}

# Hundredths of a second that the guest's processors have worked.
busy() { awk '$1 == "cpu" { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }

# load DEVICE RW BS DEPTH: prints I/Os per second, and the guest's processor time for each in us.
load() {
  local before after ios
  before=$(busy)
  fio --name=load --filename="$1" --ioengine=libaio --direct=1 --rw="$2" --bs="$3" --iodepth="$4" \
    --size=200M --time_based --runtime="$seconds" --randrepeat=0 --output-format=json >/tmp/fio.json ||
    return
  after=$(busy)
  ios=$(awk -F '[:,]' '/"total_ios"/ { sum += $2 } END { print sum }' /tmp/fio.json)
  echo "$((ios / seconds)) $(((after - before) * 10000 / ios))"
}

# median NUMBER...
median() { printf '%s\n' "$@" | sort -n | sed -n "$(((${#} + 1) / 2))p"; }

must host ./server.sh start
must modprobe ublk_drv
say "both log in"
setsid ./drystone attach "iscsi://198.18.0.1/$target" --ublk --sessions 1 >/tmp/attach.ready 2>/tmp/attach.log &
within 30 grep -q '^attached ' /tmp/attach.ready
ublk=$(sed 's/.* at=//' /tmp/attach.ready)
must iscsiadm -m discovery -t st -p 198.18.0.1
must iscsiadm -m node -T "$target" -p 198.18.0.1 --login
scsi_disk() { compgen -G '/sys/class/iscsi_session/session*/device/target*/*/block/sd*'; }
within 30 scsi_disk
scsi=/dev/$(basename "$(scsi_disk)")
for device in "$ublk" "$scsi"; do
  [ -b "$device" ] || die "$device is no block device"
  echo none >"/sys/block/${device##*/}/queue/scheduler"
done

say "ublk is $ublk, the kernel's initiator $scsi; medians of $rounds rounds of $seconds s"
printf '%-28s %12s %12s %8s %14s\n' load ublk/s kernel/s ratio 'CPU us, ratio'
while read -r rw bs depth; do
  declare -A rates=() costs=()
  for ((round = 0; round < rounds; round++)); do
    for device in "$ublk" "$scsi"; do
      read -r rate cost < <(load "$device" "$rw" "$bs" "$depth") || die "no figures for $device"
      rates[$device]+=" $rate"
      costs[$device]+=" $cost"
    done
  done
  # shellcheck disable=SC2086 # lists of numbers
  {
    u=$(median ${rates[$ublk]}) k=$(median ${rates[$scsi]})
    cu=$(median ${costs[$ublk]}) ck=$(median ${costs[$scsi]})
  }
  awk -v load="$rw $bs, depth $depth" -v u="$u" -v k="$k" -v cu="$cu" -v ck="$ck" 'BEGIN {
    printf "%-28s %12d %12d %8.2f %6d/%d %5.2f\n", load, u, k, u / k, cu, ck, cu / ck }'
done <<'LOADS'
randread 4k 1
randread 4k 32
randwrite 4k 32
read 64k 8
write 64k 8
LOADS
must iscsiadm -m node -T "$target" -p 198.18.0.1 --logout
must ./drystone detach "$ublk"

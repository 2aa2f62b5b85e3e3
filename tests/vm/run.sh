#!/usr/bin/env bash
# Boots the guest (build.sh), runs a job in it as root and ends with the job's status.
#
#   tests/vm/run.sh [--limit SECONDS] [--log DIR] JOB
#
# The guest runs under software emulation, so that it needs no KVM and is the same everywhere. It
# has two paths to this machine: 198.18.0.10 to 198.18.0.1 and 198.18.1.10 to 198.18.1.1, in a
# network namespace of their own; nothing else of the network is touched.
#
# A JOB is a directory with a main.sh; it becomes /job in the guest. There `host COMMAND` runs a
# command here, inside the namespace, in the directory of the JOB, with $VM_DIR as a directory for
# its files and $VM_LOG for its logs; `host ip link set path0 down` cuts a path silently. A file
# `needs` in it may hold the lines `kernel VERSION`, for another kernel than Debian's own, and
# `drystone`, which makes $DRYSTONE_BIN /job/drystone; or `package`, which makes the Debian package of it
# /job/drystone.deb. `disks NUMBER` gives the guest that many blank disks, /dev/disk/by-id/virtio-vm-0 and so on.
# With a line `systemd` that is the first process; it starts what the job's install.sh has installed.
#
# Status: the job's; 124 when it ran out of time; 125 when there was no job to speak of: no image,
# no namespace, no boot. DIR keeps the logs.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$PATH:/usr/sbin:/sbin

# From power-on to the start of the job, and from the job's limit to power-off.
boot_limit_s=240
grace_s=75

die() {
  echo "vm: $*" >&2
  exit 125
}

limit_s=300
log=
while [ $# -gt 0 ]; do
  case $1 in
    --limit) limit_s=$2 && shift 2 ;;
    --log) log=$2 && shift 2 ;;
    -*) die "unknown option $1" ;;
    *) break ;;
  esac
done
[ $# = 1 ] && [ -f "$1/main.sh" ] ||
  die "which job? Write tests/vm/run.sh [--limit SECONDS] [--log DIR] tests/vm/linux_host"
job=$(cd "$1" && pwd)
for tool in qemu-system-x86_64 ip nsenter strip; do
  command -v "$tool" >/dev/null || die "'$tool' is missing: run scripts/setup.sh test"
done

VM_DIR=$(mktemp -d "${TMPDIR:-/tmp}/drystone-vm.XXXXXX")
VM_LOG=${log:-$VM_DIR/log}
mkdir -p "$VM_LOG" || die "no directory for the logs"
VM_LOG=$(cd "$VM_LOG" && pwd)
export VM_DIR VM_LOG
namespace=drystone-vm-$$
enter=(nsenter "--net=/run/netns/$namespace")
qemu= printer= commander=

cleanup() {
  trap '' INT TERM HUP
  kill -KILL $qemu $commander 2>/dev/null
  if [ -e "/run/netns/$namespace" ]; then
    # What the job started here through `host`: nothing else ever enters this namespace.
    local pid
    for pid in $(ip netns pids "$namespace"); do kill -KILL "$pid" 2>/dev/null; done
    wait 2>/dev/null
    ip netns del "$namespace"
  fi
  rm -rf "$VM_DIR"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

kernel=$(sed -n 's/^kernel //p' "$job/needs" 2>/dev/null)
init=$(grep -x systemd "$job/needs" 2>/dev/null)
disks=$(sed -n 's/^disks //p' "$job/needs" 2>/dev/null)
if ! image=$("$here/build.sh" ${init:+--systemd} $kernel 2>"$VM_LOG/build.log"); then
  cat "$VM_LOG/build.log" >&2
  die "there is no guest to boot"
fi

# Each path is a bridge with the address of this machine and, as its only port, the guest's tap:
# with the tap down, neither side is told that the other is gone.
make_network() {
  local path
  ip netns add "$namespace" && ip -n "$namespace" link set lo up || return
  for path in 0 1; do
    ip -n "$namespace" link add "bridge$path" type bridge stp_state 0 forward_delay 0 &&
      ip -n "$namespace" addr add "198.18.$path.1/24" dev "bridge$path" &&
      ip -n "$namespace" link set "bridge$path" up &&
      ip -n "$namespace" tuntap add dev "path$path" mode tap &&
      ip -n "$namespace" link set "path$path" master "bridge$path" up || return
  done
  "${enter[@]}" sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore'
}
make_network 2>"$VM_LOG/network.log" || die "a network namespace with bridges and taps cannot be made:" \
  "run as root where /dev/net/tun and network namespaces are permitted" \
  "(in a container: --privileged). $(cat "$VM_LOG/network.log")"

# The job goes in as a tar on a read-only disk.
tar -cf "$VM_DIR/job.tar" -C "$job" . || die "the job cannot be packed"
if grep -qx drystone "$job/needs" 2>/dev/null; then
  # Without what only a debugger reads, which would be most of it.
  { strip -o "$VM_DIR/drystone" "${DRYSTONE_BIN:?must name the drystone binary to test}" &&
    tar -rf "$VM_DIR/job.tar" -C "$VM_DIR" drystone; } || die "drystone cannot be packed"
fi
if grep -qx package "$job/needs" 2>/dev/null; then
  # Not compressed: unpacking that is slow under emulation.
  { package=$("$here/../../scripts/package.sh" "${DRYSTONE_BIN:?must name the drystone binary to test}" "$VM_DIR" none) &&
    mv "$package" "$VM_DIR/drystone.deb" && tar -rf "$VM_DIR/job.tar" -C "$VM_DIR" drystone.deb; } ||
    die "the package cannot be made"
fi
truncate -s %512 "$VM_DIR/job.tar"

# Answers the guest's `host`: a line of base64 in, the status and the output in base64 out.
serve_host_commands() {
  local line command output
  exec 3<>"$VM_DIR/host.out" 4<>"$VM_DIR/host.in"
  while read -r line <&3; do
    command=$(base64 -d <<<"$line")
    output=$(cd "$job" && "${enter[@]}" bash -c "$command" 2>&1 3>&- 4>&- </dev/null)
    echo "$? $(printf '%s' "${output:+$output$'\n'}" | base64 -w 0)" >&4
  done
}

channels=(-device "virtio-serial-pci,max_ports=8")
channel() { # NAME BACKEND,PATH
  channels+=(-chardev "${2%%,*},id=$1,path=${2#*,}" -device "virtserialport,chardev=$1,name=vm.$1")
}
channel output "file,$VM_DIR/output"
channel status "file,$VM_DIR/status"
channel host "pipe,$VM_DIR/host"

devices=()
for path in 0 1; do
  devices+=(-netdev "tap,id=net$path,ifname=path$path,script=no,downscript=no"
    -device "virtio-net-pci,netdev=net$path,mac=52:54:00:c6:00:0$path,romfile=")
done
devices+=(
  -drive "file=$image/root.img,format=raw,if=none,id=root,snapshot=on,cache=unsafe"
  -device virtio-blk-pci,drive=root
  -drive "file=$VM_DIR/job.tar,format=raw,if=none,id=job,readonly=on"
  -device virtio-blk-pci,drive=job
  -object rng-random,id=random,filename=/dev/urandom -device virtio-rng-pci,rng=random)
for ((disk = 0; disk < ${disks:-0}; disk++)); do
  truncate -s 512M "$VM_DIR/disk$disk" || die "there is no room for disks"
  devices+=(-drive "file=$VM_DIR/disk$disk,format=raw,if=none,id=disk$disk,cache=unsafe"
    -device "virtio-blk-pci,drive=disk$disk,serial=vm-$disk")
done

# The guest's clock counts what this machine's counts. How fast that is it would measure while it boots, and be
# wrong by ten times on a machine that is busy: so it is told. Linux' bogomips are twice its MHz.
tsc_khz=$(awk '/^flags/ && /constant_tsc/ { steady = 1 } /^bogomips/ { khz = $3 * 500 }
  END { if (steady) printf "%d", khz }' /proc/cpuinfo)

boot() {
  rm -f "$VM_DIR"/{output,host.in,host.out}
  mkfifo "$VM_DIR"/{output,host.in,host.out}
  : >"$VM_DIR/status"
  tee "$VM_LOG/output.log" <"$VM_DIR/output" &
  printer=$!
  serve_host_commands &
  commander=$!
  # String instructions in microcode and 5-level paging only slow the emulation down.
  "${enter[@]}" qemu-system-x86_64 -nodefaults -no-user-config -nographic -no-reboot \
    -machine q35,usb=off,vmport=off,smbus=off,sata=off,hpet=off,graphics=off \
    -accel tcg,thread=multi,tb-size=256 -cpu max,la57=off,erms=off,fsrm=off -smp 2 -m 1024 \
    -kernel "$image/vmlinux" -initrd "$image/initrd.cpio" \
    -append "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic mitigations=off nokaslr \
no_timer_check tsc=reliable clocksource=tsc audit=0 apparmor=0 selinux=0 random.trust_cpu=on \
${tsc_khz:+tsc_early_khz=$tsc_khz} net.ifnames=0 vm.limit_s=$limit_s ${init:+vm.init=systemd}" \
    -chardev "file,id=console,path=$VM_LOG/console.log" -serial chardev:console \
    "${channels[@]}" "${devices[@]}" >"$VM_LOG/qemu.log" 2>&1 </dev/null &
  qemu=$!
  local end_s=$((SECONDS + boot_limit_s)) started=
  while kill -0 $qemu 2>/dev/null && [ $SECONDS -lt $end_s ]; do
    if [ -z "$started" ] && [ -s "$VM_DIR/status" ]; then
      started=yes
      end_s=$((SECONDS + limit_s + grace_s))
    fi
    sleep 0.2
  done
  kill -KILL $qemu $commander 2>/dev/null
  wait $qemu $commander $printer 2>/dev/null
  qemu= commander=
}

# Emulation dies early on rare boots; nothing of the job has run by then, so it is tried again.
for attempt in 1 2 3; do
  boot
  [ ! -s "$VM_DIR/status" ] || break
  echo "vm: boot $attempt ended before the job began" >&2
done
status=$(sed -n 's/^status \([0-9]*\).*/\1/p' "$VM_DIR/status")
if [ -z "$status" ]; then
  { tail -n 25 "$VM_LOG/console.log" && tail -n 5 "$VM_LOG/qemu.log"; } >&2
  [ -s "$VM_DIR/status" ] || die "the guest did not boot; above is its console"
  echo "vm: the guest gave no status; above is its console" >&2
  status=124
fi
exit "$status"

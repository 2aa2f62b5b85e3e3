#!/usr/bin/env bash
# Makes what run.sh boots: a Linux guest with open-iscsi, multipath-tools, sg3-utils and fio, from
# Debian packages alone: they are downloaded and unpacked, nothing of them runs on this machine,
# nothing is mounted. Does nothing when it is there already.
#
#   tests/vm/build.sh [--systemd] [KERNEL]
#
# The kernel is Debian's own, or the newest of the version KERNEL, such as 6.12, that Debian has for
# clouds. With --systemd that is in the guest too, to be its first process. The image is kept outside the clone, in $XDG_CACHE_HOME/drystone-vm or ~/.cache/drystone-vm,
# under a name made of its inputs, so that two clones never change each other's. The last line
# on stdout is its directory:
#
#   vmlinux      the kernel as ELF, which QEMU starts without unpacking it under emulation
#   initrd.cpio  busybox and the modules that find the root
#   root.img     the root file system, never written: run.sh boots it as a snapshot
set -euo pipefail
init=
if [ "${1:-}" = --systemd ]; then
  init=systemd
  shift
fi
kernel=${1:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$PATH:/usr/sbin:/sbin

packages=(base-files base-passwd libc-bin login bash busybox-static coreutils util-linux mount kmod iproute2 udev
  procps grep sed mawk findutils diffutils
  open-iscsi multipath-tools dmsetup e2fsprogs xfsprogs sg3-utils lsscsi fio $init)

# Those that the tests need, by the name of the module; depmod finds what they need in turn.
modules_of_root=(virtio_pci virtio_blk ext4 crc32c_generic crc32c_intel)
modules=("${modules_of_root[@]}" virtio_net virtio_console virtio_rng sd_mod sg dm_mod iscsi_tcp)
if [ -z "$kernel" ]; then
  modules+=(dm_multipath dm_round_robin dm_service_time scsi_dh_alua xfs
    target_core_mod iscsi_target_mod)
else
  modules+=(ublk_drv loop)
fi

say() { echo "vm build: $*" >&2; }

die() {
  say "$*"
  exit 1
}

for tool in apt-get dpkg-deb tar xz zstd mke2fs ldconfig chroot flock; do
  command -v "$tool" >/dev/null || die "'$tool' is missing: run scripts/setup.sh test"
done
[ "$(id -u)" = 0 ] || die "needs root, to unpack packages with their owners and for chroot"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/drystone-vm
stamp=$({ cat "$here/build.sh" "$here"/guest/* && echo "$kernel $init"; } | sha256sum | cut -c 1-12)
image=$cache/guest-$stamp
mkdir -p "$cache/debs/partial"
exec 9>"$cache/lock"
flock 9
if [ -d "$image" ]; then
  echo "$image"
  exit 0
fi
work=$(mktemp -d "$cache/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root

# apt as on a machine where nothing is installed, so that it names every package the guest needs.
guest_apt() {
  apt-get -qq -o Dir::State::status="$work/status" -o Dir::Cache::archives="$cache/debs" \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Install-Recommends=false \
    -o APT::Sandbox::User=root -o Debug::NoLocking=1 -o Acquire::Retries=3 "$@"
}

# The package that linux-image-amd64 stands for, or the newest of the version asked for.
kernel_package() {
  if [ -z "$kernel" ]; then
    apt-cache depends linux-image-amd64 2>/dev/null |
      sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1
  else
    apt-cache search --names-only "^linux-image-${kernel//./[.]}[.].*-cloud-amd64-unsigned\$" |
      cut -d ' ' -f 1 | sort -V | tail -n 1
  fi
}

fetch() {
  [ -n "$(kernel_package)" ] || return 1
  guest_apt --download-only --yes install "${packages[@]}" >&2 || return 1
  (cd "$cache/debs" && apt-get -qq -o APT::Sandbox::User=root download "$(kernel_package)" >&2)
}

fetch_packages() {
  : >"$work/status"
  # The lists of packages may be missing, or older than what the mirror still has.
  if ! fetch; then
    apt-get -qq update >&2
    [ -n "$(kernel_package)" ] ||
      die "apt knows no kernel ${kernel:+linux-image-$kernel.*-cloud-amd64-unsigned}: Debian 12 has 6.12 in bookworm-security (main), add that to /etc/apt/sources.list"
    fetch || die "the packages could not be fetched"
  fi
  guest_apt --simulate --yes install "${packages[@]}" |
    awk '$1 == "Inst" { print $2, substr($3, 2) }' >"$work/closure"
}

# The file of a package in apt's cache: name_version_arch.deb, with a ':' as %3a.
deb_of() {
  local found=("$cache/debs/${1%%:*}_${2//:/%3a}"_*.deb)
  [ -s "${found[0]}" ] || die "no file for $1 $2 in $cache/debs"
  echo "${found[0]}"
}

# The guest's dpkg knows what is in the guest, so that a job can install packages which need that. Whose files
# are whose it does not know.
note_installed() {
  local dpkg=$root/var/lib/dpkg control
  mkdir -p "$dpkg/info"
  control=$(dpkg-deb --field "$1")
  printf '%s\nStatus: install ok installed\n\n' "$control" >>"$dpkg/status"
  : >"$dpkg/info/$(awk '/^Package: / { name = $2 } /^Architecture: / { of = ":" $2 }
    /^Multi-Arch: same/ { same = 1 } END { print name (same ? of : "") }' <<<"$control").list"
}

unpack_packages() {
  local directory name version
  # Debian's merged /usr, as base-files would leave it.
  for directory in bin sbin lib lib64; do
    mkdir -p "$root/usr/$directory"
    ln -s "usr/$directory" "$root/$directory"
  done
  while read -r name version; do
    note_installed "$(deb_of "$name" "$version")"
    dpkg-deb --fsys-tarfile "$(deb_of "$name" "$version")" |
      tar -x -C "$root" --keep-directory-symlink --exclude='./usr/share/doc/*' \
        --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' \
        --exclude='./usr/lib/python3*' --exclude='./usr/lib/udev/hwdb.d/*'
  done <"$work/closure"
  mkdir -p "$work/kernel"
  dpkg-deb --fsys-tarfile "$(ls -t "$cache/debs/$(kernel_package)"_*.deb | head -n 1)" |
    tar -x -C "$work/kernel"
}

# A number of four bytes, or one, at an offset of the kernel file.
number_at() { od -An -v -t "u$2" -j "$1" -N "$2" "$kernel_file" | tr -d ' '; }

# Linux' x86 boot protocol: the compressed kernel lies `payload_offset` behind the real-mode
# sectors. Debian compresses 6.1 with xz and 6.12 with zstd; behind that come four bytes of size.
unpack_kernel() {
  local kernel_file=$1 start length
  start=$((($(number_at $((0x1f1)) 1) + 1) * 512 + $(number_at $((0x248)) 4)))
  length=$(($(number_at $((0x24c)) 4) - 4))
  dd if="$kernel_file" bs=1M iflag=skip_bytes,count_bytes skip="$start" count="$length" \
    status=none of="$work/payload"
  if [ "$(number_at "$start" 4)" = $((0xfd2fb528)) ]; then
    zstd -qdc "$work/payload" >"$work/image/vmlinux"
  else
    xz -dc --single-stream "$work/payload" >"$work/image/vmlinux"
  fi
}

# Moves the modules named above and those they need into the root, and drops the others.
select_modules() {
  local version=$1 all=$root/all module
  mkdir -p "$all/lib/modules" "$root/usr/lib/modules/$version"
  mv "$work/kernel/lib/modules/$version" "$all/lib/modules/"
  chroot "$root" depmod -b /all "$version"
  for module in "${modules[@]}"; do
    chroot "$root" modprobe -d /all -S "$version" --show-depends "$module"
  done | sed -n 's|^insmod /all/\([^ ]*\).*|\1|p' | sort -u >"$work/modules"
  (cd "$all" && cp --parents -t "$root/usr" $(cat "$work/modules"))
  cp "$all/lib/modules/$version"/modules.{builtin,builtin.modinfo,order} \
    "$root/usr/lib/modules/$version/"
  rm -rf "$all"
  # The initrd's insmod takes none that are compressed.
  find "$root/usr/lib/modules" -name '*.ko.xz' -exec xz -d {} +
  chroot "$root" depmod "$version"
}

# What the packages' maintainer scripts would have done.
configure() {
  cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
  cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
  local gid=900 group
  for group in input sgx kvm render; do # udev's rules name them
    grep -q "^$group:" "$root/etc/group" || echo "$group:x:$((gid++)):" >>"$root/etc/group"
  done
  echo '127.0.0.1 localhost' >"$root/etc/hosts"
  echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
  : >"$root/etc/fstab"
  ln -sf /proc/mounts "$root/etc/mtab"
  ln -sf bash "$root/usr/bin/sh"
  ln -sf mawk "$root/usr/bin/awk"
  mkdir -p "$root"/{proc,sys,dev,run,tmp,mnt,job,etc/iscsi,var/lib/iscsi}
  install -m 755 "$here/guest/init" "$root/usr/sbin/vm-init"
  install -m 755 "$here/guest/host" "$root/usr/bin/host"
  install -m 755 "$here/guest/network" "$root/usr/sbin/vm-network"
  install -m 755 "$here/guest/job" "$root/usr/sbin/vm-job"
  install -m 644 "$here/guest/job.sh" "$root/usr/lib/vm-job.sh"
  ldconfig -r "$root"
}

make_initrd() {
  local version=$1 module path
  mkdir -p "$work/initrd"/{bin,dev,new,modules}
  cp "$root/usr/bin/busybox" "$work/initrd/bin/"
  for module in "${modules_of_root[@]}"; do
    chroot "$root" modprobe -S "$version" --show-depends "$module"
  done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r path; do
    cp "$root$path" "$work/initrd/modules/"
    basename "$path" >>"$work/initrd/modules/order"
  done
  install -m 755 "$here/guest/initrd-init" "$work/initrd/init"
  (cd "$work/initrd" && find . | bin/busybox cpio -o -H newc 2>/dev/null) >"$work/image/initrd.cpio"
}

make_root() {
  local size_mb=$(($(du -sm "$root" | cut -f 1) * 11 / 10 + 256))  # room for what jobs install and write
  mke2fs -q -t ext4 -O '^has_journal,^metadata_csum,^resize_inode' -m 0 -N 40000 \
    -E lazy_itable_init=1,nodiscard -d "$root" "$work/image/root.img" "${size_mb}M" >/dev/null
}

say "making the guest in $image (once)"
mkdir -p "$work/image"
fetch_packages
unpack_packages
kernel_version=$(basename "$work"/kernel/lib/modules/*)
unpack_kernel "$work/kernel/boot/vmlinuz-$kernel_version"
select_modules "$kernel_version"
configure
make_initrd "$kernel_version"
make_root
mv "$work/image" "$image"
# Packages of versions gone by and images of clones gone by do not pile up.
find "$cache" -mindepth 1 -maxdepth 2 \( -name '*.deb' -o -name 'guest-*' \) -mtime +30 -exec rm -rf {} +
say "made in $SECONDS s: kernel $kernel_version, $(wc -l <"$work/closure") packages"
echo "$image"

#!/usr/bin/env bash
# Installs what `make run`, `make test`, `make bench` and the like need on Debian 12, and says
# what it installs. Does nothing, fast and without root, when all of it is there.
#
#   scripts/setup.sh run|test|bench|fuzz|package|package-test
set -euo pipefail

# What each target needs. Besides Rust itself cargo wants a C linker, and protoc for the client of etcd.
packages_run=(gcc libc6-dev protobuf-compiler libprotobuf-dev)
packages_test=("${packages_run[@]}"
  libiscsi-bin                                         # iscsi-test-cu, iscsi-ls, iscsi-inq
  qemu-utils qemu-block-extra                          # qemu-img and qemu-io over iscsi://
  libnbd-bin                                           # nbdinfo and nbdcopy
  tgt                                                  # a foreign target for our initiator
  etcd-server                                          # clusters for the configuration store
  qemu-system-x86 iproute2 e2fsprogs xz-utils zstd binutils util-linux  # the machine of tests/vm
  chromium                                             # reports of the lab, as a browser shows them
  systemd                                              # systemd-analyze looks at the units
  curl                                                 # the examples of docs/api.md
  prometheus                                           # promtool looks at metrics and at rules for alerts
  python3-venv                                         # for the linter of docs/openapi.json
  fio jq)
packages_bench=("${packages_run[@]}" libiscsi-bin qemu-utils qemu-block-extra fio jq tgt istgt
  btrfs-progs util-linux etcd-server)
packages_package=("${packages_run[@]}" binutils)
packages_package_test=("${packages_package[@]}" mmdebstrap buildah crun)
packages_fuzz=("${packages_run[@]}" g++)               # libFuzzer is C++

# Daemons among them that Debian starts on install; here each test starts its own.
# As PACKAGE:SERVICE.
services=(tgt:tgt istgt:istgt etcd-server:etcd prometheus:prometheus)

die() {
  echo "setup: $*" >&2
  exit 1
}

# The first number is at least the second, both as MAJOR.MINOR.
at_least() {
  [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

check_rust() {
  local wanted found
  wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  command -v cargo >/dev/null ||
    die "cargo is missing: install Rust $wanted or newer, see https://www.rust-lang.org/tools/install"
  found=$(cargo --version | sed 's/^cargo \([0-9]*\.[0-9]*\).*/\1/')
  at_least "$found" "$wanted" ||
    die "cargo is version $found, Drystone needs Rust $wanted or newer: run 'rustup update'"
}

# Prints those of the given packages that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    case $(dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null) in
      'install ok installed' | 'hold ok installed') ;;
      *) echo "$package" ;;
    esac
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Installs from the lists that are there; fetches new ones when they are missing or too old.
apt_install() {
  [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
    die "installing needs root: run 'apt-get install $*' as root, then try again"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  local install=("${apt[@]}" install --yes --no-install-recommends "$@")
  as_root "${install[@]}" </dev/null >/dev/null 2>&1 && return
  echo "setup: fetching package lists (apt-get update)"
  as_root "${apt[@]}" update </dev/null
  as_root "${install[@]}" </dev/null
}

# Keeps the daemons among the given packages from running, now and after a restart.
stop_services() {
  [ -d /run/systemd/system ] || return 0
  local service package
  for service in "${services[@]}"; do
    for package in "$@"; do
      if [ "${service%%:*}" = "$package" ]; then
        echo "setup: stopping and disabling the service ${service##*:}"
        as_root systemctl disable --now "${service##*:}" >/dev/null 2>&1 || true
      fi
    done
  done
}

install_packages() {
  local missing still
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup: this is not Debian: please see that you have what these packages hold: $*" >&2
    return
  fi
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "setup: installing ${missing[*]}"
  apt_install "${missing[@]}"
  mapfile -t still < <(missing_packages "${missing[@]}")
  [ ${#still[@]} -eq 0 ] || die "these packages could not be installed: ${still[*]}"
  stop_services "${missing[@]}"
}

install_cargo_fuzz() {
  if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "setup: installing cargo-fuzz with cargo"
    cargo install --quiet --locked cargo-fuzz
  fi
}

# Puts the linter of docs/openapi.json beside what cargo builds, of the versions that scripts/openapi-lint.txt pins.
# That list is left in it as a mark that it is whole.
install_openapi_lint() {
  local pins=scripts/openapi-lint.txt dir
  dir=$(scripts/target-dir.sh)/openapi-lint
  if cmp --silent "$pins" "$dir/installed.txt"; then return; fi
  echo "setup: installing openapi-spec-validator with pip into $dir"
  rm -rf "$dir"
  mkdir -p "$(dirname "$dir")"
  python3 -m venv "$dir"
  "$dir/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: --requirement "$pins"
  "$dir/bin/pip" check >/dev/null || die "what $pins pins does not fit together"
  cp "$pins" "$dir/installed.txt"
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-}" in
  run) install_packages "${packages_run[@]}" ;;
  test) install_packages "${packages_test[@]}" ;;
  bench) install_packages "${packages_bench[@]}" ;;
  fuzz) install_packages "${packages_fuzz[@]}" ;;
  package) install_packages "${packages_package[@]}" ;;
  package-test) install_packages "${packages_package_test[@]}" ;;
  *)
    echo "setup: what for? Write scripts/setup.sh run, test, bench, fuzz, package or package-test" >&2
    exit 2
    ;;
esac
check_rust
if [ "$1" = fuzz ]; then install_cargo_fuzz; fi
if [ "$1" = test ]; then install_openapi_lint; fi

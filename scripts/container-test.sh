#!/usr/bin/env bash
# Builds the container image of a Debian package and runs a member in it, as the image says: its user, its command,
# its directories. Needs root, buildah, mmdebstrap and a mirror of Debian, but no registry and no daemon: the image
# that it begins with is made here, as Debian makes its own. Nothing stays, in the storage of containers either.
#
#   scripts/container-test.sh PACKAGE
set -euo pipefail
package=$(realpath "$1")
file=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../packaging/Containerfile")

work=$(mktemp --directory)
# Mounts of a container that could not be ended are not descended into.
trap 'rm -rf --one-file-system "$work"' EXIT
build() {
  BUILDAH_ISOLATION=chroot buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"
}

fail() {
  echo "container-test: $*" >&2
  exit 1
}

base=$(sed -n 's/^FROM //p' "$file")
[ "$base" = docker.io/library/debian:13-slim ] || fail "the image begins with $base: say here how that is made"
echo "container-test: making $base"
mmdebstrap --quiet --variant=minbase trixie "$work/base.tar"
from=$(build from scratch)
build add --quiet "$from" "$work/base.tar" / >/dev/null
build commit --quiet "$from" "$base" >/dev/null
build rm "$from" >/dev/null

echo "container-test: building the image"
mkdir "$work/context"
cp "$package" "$work/context"
build build --quiet --pull=never --file "$file" --tag drystone "$work/context" >"$work/log" 2>&1 || { cat "$work/log"; fail "it cannot be built"; }

# What `podman run --volume /etc/drystone:/etc/drystone:ro` brings along.
mkdir "$work/etc"
cp "$(dirname "$file")/member.toml" "$work/etc"
echo "disk = '/var/lib/drystone/disk-[01]'" >>"$work/etc/member.toml"
container=$(build from --pull=never --security-opt seccomp=unconfined drystone)  # as docs/operations.md says
[ "$(build inspect --format '{{.OCIv1.Config.User}}' "$container")" = drystone ] || fail "the image runs as root"
mapfile -t command < <(build inspect --format '{{range .OCIv1.Config.Cmd}}{{println .}}{{end}}' "$container" | grep .)
[ "${command[0]}" = /usr/bin/drystone ] || fail "the image starts ${command[*]}"

build run --volume "$work/etc:/etc/drystone:ro" "$container" -- sh -eu -c '
  truncate --size 256M /var/lib/drystone/disk-0 /var/lib/drystone/disk-1
  drystone member check
  "$@" > /tmp/member.out 2> /tmp/member.log &
  member=$!
  for _ in $(seq 100); do
    grep -q "^socket " /tmp/member.out && break
    sleep 0.1
  done
  grep -q "^socket path=/run/drystone-member/control.sock" /tmp/member.out || { cat /tmp/member.log; exit 1; }
  drystone volume create vm1 64M >/dev/null
  drystone status
  kill "$member"
  wait "$member"
' sh "${command[@]}" || fail "a member does not run in the image"
echo "container-test: built, a member ran as $(build inspect --format '{{.OCIv1.Config.User}}' "$container") and ended"
build rm "$container" >/dev/null

#!/usr/bin/env bash
# Makes the Debian package of a binary.
#
#   scripts/package.sh BINARY DIRECTORY [COMPRESSION]    writes DIRECTORY/drystone_VERSION_ARCH.deb and prints its path
#
# COMPRESSION is xz unless it says otherwise, such as none.
set -euo pipefail
binary=$(realpath "$1")
out=$(realpath "$2")
compression=${3:-xz}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
stage=$(mktemp --directory)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"
put() { install -D --mode="$1" "$2" "$stage$3"; }

put 755 "$binary" /usr/bin/drystone
strip --strip-unneeded "$stage/usr/bin/drystone"
put 644 packaging/member.toml /etc/drystone/member.toml
put 644 packaging/multipath.conf /etc/multipath/conf.d/drystone.conf
put 644 packaging/drystone.service /usr/lib/systemd/system/drystone.service
install -D --mode=644 /dev/stdin "$stage/usr/lib/systemd/system/drystone-attach.service" < <(
  sed 's|/usr/local/bin/|/usr/bin/|; /^#   cp /d; /^#   systemctl daemon-reload/d' packaging/drystone-attach.service)
put 644 packaging/60-drystone.rules /usr/lib/udev/rules.d/60-drystone.rules
put 644 packaging/grafana/drystone.json /usr/share/drystone/grafana/drystone.json
put 644 packaging/prometheus/alerts.yml /usr/share/drystone/prometheus/alerts.yml
put 644 packaging/sysusers.conf /usr/lib/sysusers.d/drystone.conf

doc=/usr/share/doc/drystone
put 644 README.md "$doc/README.md"
put 644 LICENSE "$doc/copyright"
gzip --best --no-name --stdout CHANGELOG.md |
  install -D --mode=644 /dev/stdin "$stage$doc/changelog.gz"
for page in docs/*.md; do put 644 "$page" "$doc/docs/$(basename "$page")"; done

complete() { "$binary" completions "$1" | install -D --mode=644 /dev/stdin "$stage$2"; }
complete bash /usr/share/bash-completion/completions/drystone
complete zsh /usr/share/zsh/vendor-completions/_drystone
complete fish /usr/share/fish/vendor_completions.d/drystone.fish
man=$stage/usr/share/man/man1
install -d "$man"
"$binary" man --dir "$man"
gzip --best --no-name "$man"/*.1

install -d "$stage/DEBIAN"
sed "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@SIZE@/$(du -sk "$stage" | cut -f 1)/" \
  packaging/deb/control > "$stage/DEBIAN/control"
install --mode=644 packaging/deb/conffiles "$stage/DEBIAN/"
install --mode=755 packaging/deb/{postinst,prerm,postrm} "$stage/DEBIAN/"
package=$out/drystone_${version}_$architecture.deb
dpkg-deb --root-owner-group -Z"$compression" -z3 --build "$stage" "$package" >/dev/null
echo "$package"

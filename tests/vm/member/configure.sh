# What an operator writes into the file of the member: two block devices by a pattern and a file as its disks, two
# portals, and the address at which it is managed over TLS.
set -e
sed -i \
  -e 's|^#disk = .*|disk = ["/dev/disk/by-id/virtio-vm-*", "/var/lib/drystone/disk-2:512M"]|' \
  -e 's|^#portal = .*|portal = ["127.0.0.1:3260", "198.18.0.10:3260"]|' \
  -e 's|^#api-listen = .*|api-listen = ["198.18.0.10:8443"]|' /etc/drystone/member.toml
[ "$(grep -Ec '^(disk|portal|api-listen) = ' /etc/drystone/member.toml)" = 3 ]

# Before systemd starts: what an operator installs on a host that mounts a volume at boot.
cd /job || exit
set -e
target=iqn.2026-11.dev.drystone:export
mkdir -p /usr/local/bin /etc/udev/rules.d /etc/drystone/attach.d /srv
install -m 755 drystone /usr/local/bin/drystone
host cat ../../../packaging/drystone-attach.service >/etc/systemd/system/drystone-attach.service

host cat ../../../packaging/60-drystone.rules >/etc/udev/rules.d/60-drystone.rules
printf 'url = "iscsi://198.18.0.1/%s"\nublk = true\n' "$target" >/etc/drystone/attach.d/db.toml
echo '/dev/disk/by-id/drystone-db /srv ext4 _netdev,x-systemd.device-timeout=90 0 2' >/etc/fstab

# The network is late, so that whoever does not wait for it fails.
cat >/etc/systemd/system/guest-network.service <<'U'
[Unit]
Before=network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sleep 3
ExecStart=/usr/sbin/vm-network
[Install]
WantedBy=network-online.target
U

# The job, when all has started; it ends with an order to shut down.
cat >/etc/systemd/system/guest-job.service <<'U'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /job/run.sh
TimeoutStartSec=infinity
[Install]
WantedBy=graphical.target
U

# It starts before the service, and so stops after it: then it looks at what has reached the target.
cat >/etc/systemd/system/guest-end.service <<'U'
[Unit]
Before=drystone-attach.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/bin/bash /job/end.sh
[Install]
WantedBy=multi-user.target
U

# remote-fs.target is enabled on every Debian, by a script of the package that did not run here.
systemctl enable remote-fs.target drystone-attach guest-network guest-job guest-end
host ./server.sh start

# Before systemd starts: a server that was set up with the package, as by an installer of machines, and whose
# member is to start at boot. main.sh installs it once more where systemd runs.
cd /job || exit
set -e
mv drystone.deb /dev/shm/ # in memory, as the disk has no room for it beside two of the program
dpkg --install /dev/shm/drystone.deb
# One administrator of the member, and one user of the machine.
useradd --user-group ada
useradd --user-group eve
bash configure.sh
# The name that README.md lets in.
echo 'InitiatorName=iqn.1993-08.org.debian:01:web' >/etc/iscsi/initiatorname.iscsi

# The network is late, so that a portal can be listened at only by who waits for it.
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

# It starts before the member, and so stops after it: then it looks at what the shutdown has left. A member that
# it starts by hand needs what the unit gives.
cat >/etc/systemd/system/guest-end.service <<'U'
[Unit]
Before=drystone.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/bin/bash /job/end.sh
LimitNOFILE=65536
LimitMEMLOCK=infinity
[Install]
WantedBy=multi-user.target
U

systemctl enable drystone guest-network guest-job guest-end

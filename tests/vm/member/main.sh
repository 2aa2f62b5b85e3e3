# A server that systemd boots, whose member is the service of the Debian package: it starts with the least that it
# needs, README.md's first steps lead to a volume that Linux' initiator uses, what ends the member is followed by
# its next start with all data, and what the package brings it takes away. Then it is installed once more, where
# systemd runs, and a shutdown stops it in order (end.sh).
cd /job || exit
# shellcheck source=/dev/null
. /usr/lib/vm-job.sh
config=/etc/drystone/member.toml
override=/etc/systemd/system/drystone.service.d/job.conf
disk=/dev/disk/by-path/ip-127.0.0.1:3260-iscsi-

show_trouble() {
  systemctl --no-pager --failed
  systemctl --no-pager status drystone
  journalctl --no-pager -b -u drystone -u iscsid -u guest-network | tail -n 60
  drystone events | tail -n 20
}

# of PROPERTY: what systemd says of the member's unit.
of() { systemctl show -p "$1" --value drystone; }

# as USER COMMAND...: as somebody who has logged in.
as() { setpriv --reuid "$1" --regid "$1" --init-groups -- "${@:2}"; }

# The commands of README.md from the package to the first volume, as they stand there. A purge takes it.
awk '/^## / { is_here = $0 == "## As a service" } is_here && /^```/ { fences++; next }
  is_here && fences == 1' /usr/share/doc/drystone/README.md >/tmp/first_steps

# take_steps BEGINNING...: takes those that begin so, each by who may.
take_steps() {
  local step beginning taken=0
  while read -r step <&3; do
    for beginning in "$@"; do
      [[ $step == "$beginning"* ]] || continue
      say "  $step"
      case $step in
        "apt-get install "*) must dpkg --install /dev/shm/drystone.deb ;;
        "editor "*) must bash configure.sh ;;
        "drystone volume "* | "drystone status"*) must as ada bash -c "$step" ;;
        *) must bash -c "$step" ;;
      esac
      taken=$((taken + 1))
    done
  done 3</tmp/first_steps
  [ $taken = $# ] || die "of the $# steps '$*' README.md has $taken"
}

# is PATH MODE OWNER:GROUP
is() {
  local found
  found=$(stat -c '%a %U:%G' "$1")
  [ "$found" = "$2 $3" ] || die "$1 is '$found', not '$2 $3'"
}

# Starts that followed no stop in order.
crashes() { drystone events | grep -c 'did not stop in order'; }

# serves_again PID CRASHES: another process than PID serves, what hosts wrote is there, and the events tell of so
# many crashes.
serves_again() {
  within 120 another_than "$1"
  within 120 systemctl is-active drystone
  [ "$(crashes)" = "$2" ] || die "the events tell of $(crashes) crashes, not of $2"
  holds_data
}

another_than() { [ "$(of MainPID)" != "$1" ] && [ "$(of MainPID)" != 0 ]; }

holds_data() { must cmp -n "$((4 << 20))" /tmp/written <(dd if="$(echo $disk*-lun-0)" bs=1M count=4 iflag=direct status=none); }

log_in() {
  must iscsiadm -m discovery -t sendtargets -p 127.0.0.1:3260
  must iscsiadm -m node -p 127.0.0.1:3260 --login
  within 120 has_disk
}

has_disk() { [ -b "$(echo $disk*-lun-0)" ]; }

say "booted: the member is there, with the least that it needs"
[ "$(readlink /proc/1/exe)" = /usr/lib/systemd/systemd ] || die "the first process is another one"
within 120 systemctl is-active drystone
prints '^notify$' of Type
prints '^serves 0 volumes; 3 of 3 disks online$' of StatusText
prints '^0$' of NRestarts
pid=$(of MainPID)
prints '^drystone +drystone$' ps -o user=,group= -p "$pid"
for wanted in 'CapPrm:\s0+$' 'CapEff:\s0+$' 'CapBnd:\s0+$' 'CapAmb:\s0+$' 'NoNewPrivs:\s1$' 'Seccomp:\s2$' \
  "Groups:\s$(getent group disk | cut -d : -f 3)( $(id -g drystone))? *\$"; do
  prints "^$wanted" cat "/proc/$pid/status"
done
prints 'exposure level for drystone.service: ([0-2]\.|3\.0)' systemd-analyze security --no-pager drystone
[ "$(crashes)" = 0 ] || die "the events of a first start tell of a crash"
ss -ltn >/tmp/listens
for address in 127.0.0.1:3260 198.18.0.10:3260 198.18.0.10:8443; do
  grep -q " $address " /tmp/listens || die "nobody listens at $address: $(</tmp/listens)"
done

say "README.md's first steps, by a user of the group"
must adduser ada drystone
take_steps "drystone volume create" "drystone volume access add" "drystone status"

say "nobody else"
refused=$(as eve drystone volume delete vm1 2>&1) && die "eve may do all"
grep -q "you may not use the member at '/run/drystone-member/control.sock'.*group 'drystone'" <<<"$refused" ||
  die "eve is told: $refused"
must as ada drystone volume show vm1

say "Linux' initiator writes"
must systemctl start iscsid
log_in
must dd if=/dev/urandom of=/tmp/written bs=1M count=4
must dd if=/tmp/written of="$(echo $disk*-lun-0)" bs=1M oflag=direct

say "whose files are whose"
is /etc/drystone 750 root:drystone
is $config 644 root:root
is /var/lib/drystone 750 drystone:drystone
is /run/drystone-member 750 drystone:drystone
is /run/drystone-member/control.sock 660 drystone:drystone
for file in events.0 audit.0 audit-changes.0 api-key.pem store.key disk-2; do
  is "/var/lib/drystone/$file" 600 drystone:drystone
done

say "kill -9"
kill -KILL "$pid"
serves_again "$pid" 1

say "a restart is none; it brings a shorter watchdog, and the secrets' key as a credential"
mkdir -p "${override%/*}"
must install -m 600 /var/lib/drystone/store.key /root/store.key
printf '[Service]\nWatchdogSec=20\nLoadCredential=drystone-store-key:/root/store.key\n' >$override
must systemctl daemon-reload
must systemctl restart drystone
pid=$(of MainPID)
[ "$(crashes)" = 1 ] || die "the events tell of $(crashes) crashes, not of 1"
prints '^drystone-store-key$' ls /run/credentials/drystone.service

say "a member that stands still"
kill -STOP "$pid"
serves_again "$pid" 2
prints 'Watchdog timeout' journalctl --no-pager -b -u drystone
prints '^all is well' drystone status
rm -r "${override%/*}"
must systemctl daemon-reload

say "a wrong key in the file"
echo 'portl = "192.0.2.1"' >>$config
line=$(wc -l <$config)
systemctl restart drystone && die "it starts with a wrong key"
prints "$config: line $line: there is no key 'portl': write 'portal'" journalctl --no-pager -b -u drystone
prints '^failed$' systemctl is-failed drystone
sleep 4
prints '^failed$' systemctl is-failed drystone
sed -i '$d' $config
must systemctl start drystone
serves_again 0 2

say "an upgrade restarts it"
pid=$(of MainPID)
must dpkg --install /dev/shm/drystone.deb
serves_again "$pid" 2
grep -q '^disk = ' $config || die "what the operator wrote is gone"

say "purged: all is gone but what the disks hold"
must iscsiadm -m node --logout
must dpkg --purge drystone
prints '^not-found$' of LoadState
[ -z "$(pgrep -x drystone)" ] || die "it still runs"
left=$(find / -xdev -name '*drystone*' -not -path '/proc/*' -not -path '/sys/*' -not -path '/run/udev/*' \
  -not -path '/etc/iscsi/*' -not -path /var/lib/drystone | sort)
left+=$(find /run -name '*drystone*' -not -path '/run/udev/*')
[ -z "$left" ] || die "a purge leaves $left"
[ "$(stat -c %s /var/lib/drystone/disk-2)" = $((512 << 20)) ] || die "a purge takes disks"
prints '^0 loaded units' systemctl --no-pager --failed

say "installed once more, where systemd runs: the same disks are the same array"
take_steps "apt-get install" "editor" "drystone member check" "systemctl enable --now drystone"
prints '^enabled$' systemctl is-enabled drystone
prints '^serves 1 volume; 3 of 3 disks online$' of StatusText
log_in
holds_data
[ "$(crashes)" = 2 ] || die "the events tell of $(crashes) crashes, not of 2"

say "shutdown, with a host logged in"

# LIO, the target of the Linux kernel, runs in the guest; `drystone attach` on this machine uses its
# disks over both paths. What LIO is told is the kernel's own interface, configfs.
cd /job || exit
target=iqn.2026-11.dev.drystone.test:lio
secret_target=iqn.2026-11.dev.drystone.test:lio-chap
lio=/sys/kernel/config/target

# shellcheck source=/dev/null
. /usr/lib/vm-job.sh

show_trouble() { host ./attach.sh logs; }

shows() { host ./attach.sh paths "$1" | grep -Eq "$2"; }

# A path that is lost is shown as failed, and not at all once the plan has let go of it.
is_unused() { ! shows "$1" "$2 +(active|probation)"; }

# serve_target IQN NAME MEBIBYTES: a RAM disk as LUN 0 behind both portals, for everyone.
serve_target() {
  local group=$lio/iscsi/$1/tpgt_1 disk=$lio/core/rd_mcp_0/$2
  mkdir -p "$disk" "$group/np/198.18.0.10:3260" "$group/np/198.18.1.10:3260" || return
  echo "rd_pages=$(($3 * 256))" >"$disk/control"
  echo "$2-serial" >"$disk/wwn/vpd_unit_serial"
  echo 1 >"$disk/enable"
  mkdir -p "$group/lun/lun_0"
  ln -s "$disk" "$group/lun/lun_0/disk"
  echo 1 >"$group/attrib/generate_node_acls"
  echo 1 >"$group/attrib/cache_dynamic_acls"
  echo 0 >"$group/attrib/demo_mode_write_protect"
  echo 0 >"$group/attrib/authentication"
}

start_lio() {
  modprobe -a target_core_mod iscsi_target_mod || return
  mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config || return
  mkdir -p "$lio/iscsi" "$(<"$lio/dbroot")"/{pr,alua}
  serve_target "$target" plain 64 && serve_target "$secret_target" secret 16 || return
  local group=$lio/iscsi/$secret_target/tpgt_1
  echo 1 >"$group/attrib/authentication"
  echo -n alice >"$group/auth/userid"
  echo -n sixteen-bytes-ok >"$group/auth/password"
  echo -n lio >"$group/auth/userid_mutual"
  echo -n twelve-bytes-x >"$group/auth/password_mutual"
  echo 1 >"$lio/iscsi/$target/tpgt_1/enable" && echo 1 >"$group/enable"
}

say "LIO starts"
must start_lio

say "both ports of this machine and both of the target are filled"
prints 'sessions=2 ' host ./attach.sh start plain "iscsi://198.18.0.10/$target"
for path in 0 1; do
  must shows plain "198.18.$path.10:3260 +active, optimized"
done
must host ./attach.sh copy plain
must host ./attach.sh verify plain 16

say "a path is cut and heals under load"
must host ./attach.sh load plain
must host ip link set path1 down
within 30 is_unused plain 198.18.1.10:3260
must shows plain '198.18.0.10:3260 +active'
must host ip link set path1 up
within 60 shows plain '198.18.1.10:3260 +(active|probation)'
must host ./attach.sh end_load plain
must host ./attach.sh stop plain

say "four connections, digests as LIO likes them"
must host ./attach.sh start wide "iscsi://198.18.1.10/$target" --connections 4 --sessions 2 \
  --policy service-time
must host ./attach.sh verify wide 16
must host ./attach.sh stop wide

say "CHAP"
url=iscsi://198.18.0.10/$secret_target
# LIO says nothing to a host that has no secret: it hangs up.
prints 'cannot attach.*broke during login' host ./attach.sh start none "$url"
prints 'authentication|refused' host ./attach.sh start wrong "$url" --chap alice:sixteen-bytes-no
prints 'attached ' host ./attach.sh start one "$url" --chap alice:sixteen-bytes-ok
must host ./attach.sh verify one 8
must host ./attach.sh stop one
prints 'attached ' host ./attach.sh start both "$url" --chap alice:sixteen-bytes-ok \
  --mutual-chap lio:twelve-bytes-x
must host ./attach.sh stop both
prints 'prove|proof|authentication' host ./attach.sh start fake "$url" \
  --chap alice:sixteen-bytes-ok --mutual-chap lio:twelve-bytes-y

! dmesg | grep -E 'BUG:|Oops|Call Trace' || die "the kernel says what is above"
say "done"

# The member has stopped, as far as systemd knows. The next start, here by hand as the unit would, must find nothing
# that tells of a crash.
cd /job || exit
as_member() { exec setpriv --reuid drystone --regid drystone --groups disk --no-new-privs "$@"; }

look() {
  local tries member
  [ -z "$(pgrep -x drystone)" ] || { echo "the process is left" && return 1; }
  [ ! -e /run/drystone-member ] || { echo "the directory of the socket is left" && return 1; }
  install -d -o drystone -g drystone -m 750 /run/drystone-member
  as_member drystone member start >/tmp/end.out 2>/tmp/end.log &
  member=$!
  for ((tries = 0; tries < 300; tries++)); do
    ! grep -q '^socket ' /tmp/end.out || break
    sleep 0.1
  done
  drystone events >/tmp/end.events && drystone status >/tmp/end.status
  grep 'the member has start' /tmp/end.events | tail -n 1 | grep -v 'did not stop in order' &&
    kill "$member" && wait "$member"
}

{
  status=1
  if look; then
    status=0
    echo "the shutdown stopped the member in order"
  else
    echo "FAILED: the shutdown did not stop the member in order"
    tail -n 30 /tmp/end.out /tmp/end.log /tmp/end.events /tmp/end.status
    journalctl --no-pager -b -u drystone | tail -n 30
  fi
} >/dev/vm-output 2>&1
echo "status $status" >/dev/vm-status
sleep 0.2
echo o >/proc/sysrq-trigger
sleep 10

# The service has stopped, as far as systemd knows: nobody has the file system mounted any more, and all
# that was written is at the target.
cd /job || exit
{
  status=1
  if findmnt /srv; then
    echo "FAILED: the service was stopped before its file system"
  elif [ -n "$(pgrep -x drystone)" ]; then
    echo "FAILED: the process is left"
  elif ! host ./server.sh check; then
    echo "FAILED: what was written has not reached the target"
  else
    echo "the file system is clean at the target"
    status=0
  fi
} >/dev/vm-output 2>&1
echo "status $status" >/dev/vm-status
sleep 0.2
echo o >/proc/sysrq-trigger
sleep 10

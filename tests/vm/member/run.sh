# Runs main.sh in a guest that systemd has booted. What it has ordered to shut down ends with end.sh.
cd /job || exit
echo started >/dev/vm-status
if timeout -k 5 570 bash main.sh >/dev/vm-output 2>&1; then
  systemctl --no-block poweroff
else
  echo "status $?" >/dev/vm-status
  sleep 0.2
  echo o >/proc/sysrq-trigger
fi

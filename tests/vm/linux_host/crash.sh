# The server is killed while it is written to, and comes back: nothing it answered is lost.

crash_under_load() {
  local fio
  say "kill -9 of the server under fio --verify=crc32c, and start"
  fio --name=crash --filename="$(map 0)" --rw=randwrite --bs=16k --size=32M --rate=4M \
    --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --verify_fatal=1 \
    >/tmp/fio.log 2>&1 &
  fio=$!
  sleep 3
  must server crash
  say "killed"
  must server start
  kill -0 $fio 2>/dev/null || die "fio had ended before the crash: $(cat /tmp/fio.log)"
  wait $fio || die "fio: $(cat /tmp/fio.log)"
  within 120 paths_are 'active ready' 6
  say "both paths are back, all is verified"
}

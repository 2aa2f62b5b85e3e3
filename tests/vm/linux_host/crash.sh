# The server is stopped, or killed, while it is written to, and comes back: the host goes on
# without an error, and nothing that was answered is lost.

# end_under_load HOW: as `server.sh HOW` ends it, and then a start.
end_under_load() {
  local fio
  say "$1 of the server under fio --verify=crc32c, and start"
  fio --name=load --filename="$(map 0)" --rw=randwrite --bs=16k --size=32M --rate=4M \
    --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --verify_fatal=1 \
    >/tmp/fio.log 2>&1 &
  fio=$!
  sleep 3
  must server "$1"
  must server start
  kill -0 $fio 2>/dev/null || die "fio had ended before that: $(cat /tmp/fio.log)"
  wait $fio || die "fio: $(cat /tmp/fio.log)"
  within 120 paths_are 'active ready' 6
  say "all is verified, both paths are back"
}

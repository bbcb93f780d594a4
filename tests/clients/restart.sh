#!/bin/bash
# Killed with -9 and started again over a changed origin: nothing that was cached before is served.
. "$(dirname "$0")/lib.sh"
real_volume 16
serve
python3 "$(dirname "$0")/nbd-cache.py" "$socket" vm 0 $((16 << 20))
nbdcopy "$uri" "$WORK/out.img"
cmp "$WORK/vm.img" "$WORK/out.img"
kill -9 "$server"
wait "$server" || true
server=
dd if=/dev/urandom of="$WORK/vm.img" bs=1M count=16 conv=notrunc status=none
serve
nbdcopy "$uri" "$WORK/out.img"
cmp "$WORK/vm.img" "$WORK/out.img"
stop

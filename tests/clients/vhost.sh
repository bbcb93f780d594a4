#!/bin/bash
# A vhost-user-blk driver with requests of all kinds: their results, also after an orderly end and after kill -9, and beside an NBD client.
. "$(dirname "$0")/lib.sh"
real_volume 32
driver() { python3 "$(dirname "$0")/vhost.py" "$WORK/vm.blk" "$@"; }
requests=1500
[[ -z ${LONG:-} ]] || requests=20000
guest=(--listen "vhost:$WORK/vm.blk")
cp "$WORK/vm.img" "$WORK/wanted.img"

serve "${guest[@]}"
driver compare "$WORK/wanted.img"
driver exercise "$WORK/wanted.img" $requests
stop
holds "$WORK/wanted.img"
for _ in 1 2; do
  serve "${guest[@]}"
  driver compare "$WORK/wanted.img"
  driver exercise "$WORK/wanted.img" $requests
  kill_server
done
serve "${guest[@]}"
driver compare "$WORK/wanted.img"
# Both front ends have the same disk.
nbdcopy "$uri" "$WORK/out.img"
cmp "$WORK/wanted.img" "$WORK/out.img"
dd if=/dev/urandom of="$WORK/wanted.img" bs=1M seek=5 count=3 conv=notrunc status=none
nbdcopy --flush "$WORK/wanted.img" "$uri"
driver compare "$WORK/wanted.img"
[[ $(status 's["caches"][0]["corrupt_extents"]') == 0 ]]
stop
holds "$WORK/wanted.img"
"$NITRO" cache fsck "$WORK/cache.img"

#!/bin/bash
# Stopped, or killed with -9, and started again: contents return, flushed writes are kept, a changed origin is noticed.
. "$(dirname "$0")/lib.sh"
real_volume 16
mib=16

warm() {
  python3 "$(dirname "$0")/nbd-cache.py" "$socket" vm 0 $((mib << 20))
  until [[ $(status 's["caches"][0]["insert_queue_bytes"]') == 0 ]]; do sleep 0.05; done
}

# same <file>: the volume reads as the file does.
same() {
  nbdcopy "$uri" "$WORK/out.img"
  cmp "$1" "$WORK/out.img"
}

# hits: extents of one reading of everything that came from the cache, once all of it is back.
hits() {
  until [[ $(status 's["caches"][0]["loading"]') == False ]]; do sleep 0.05; done
  same "$WORK/vm.img" >&2
  status 's["volumes"][0]["read_hit_extents"]'
}

serve
warm
stop
serve
[[ $(hits) -gt 100 ]] || { echo "nothing returned after an orderly end"; exit 1; }
kill_server
serve
[[ $(hits) -gt 100 ]] || { echo "nothing returned after kill -9"; exit 1; }
stop

# Behind the cache's back.
change_origin $mib
serve
grep -q 'another program has changed its origin' "$WORK/log"
same "$WORK/vm.img"
warm
kill_server
change_origin $mib
serve
grep -q 'another program has changed its origin' "$WORK/log"
same "$WORK/vm.img"

# What was flushed is there after kill -9, in both modes.
cp "$WORK/vm.img" "$WORK/wanted.img"
dd if=/dev/urandom of="$WORK/wanted.img" bs=1M seek=3 count=2 conv=notrunc status=none
for _ in 1 2; do
  nbdcopy --flush "$WORK/wanted.img" "$uri"
  kill_server
  serve
  same "$WORK/wanted.img"
done
"$NITRO" flush vm --wait --control "$control"
kill_server
holds "$WORK/wanted.img"
if [[ $MODE == write-back ]]; then
  # Marked, and not served alone.
  [[ -e $mark ]]
  if "$NITRO" serve --origin "$origin" --cache none --listen "unix:$socket" 2>"$WORK/refused"; then exit 1; fi
  grep -q -- '--force-discard-dirty' "$WORK/refused"
fi
serve
same "$WORK/wanted.img"
stop
[[ ! -e $mark ]]
"$NITRO" cache fsck "$WORK/cache.img"

#!/bin/bash
# nbdcopy: a volume out and another one in, bit-exact, twice, so that the cache takes part.
. "$(dirname "$0")/lib.sh"
real_volume 96
cp "$WORK/vm.img" "$WORK/before.img"
serve
for _ in 1 2; do
  nbdcopy "$uri" "$WORK/out.img"
  cmp "$WORK/before.img" "$WORK/out.img"
done
# The other half first, so that every extent changes.
{ tail -c $((48 << 20)) "$WORK/before.img"; head -c $((48 << 20)) "$WORK/before.img"; } >"$WORK/in.img"
nbdcopy --flush "$WORK/in.img" "$uri"
nbdcopy "$uri" "$WORK/out.img"
cmp "$WORK/in.img" "$WORK/out.img"
stop
holds "$WORK/in.img"

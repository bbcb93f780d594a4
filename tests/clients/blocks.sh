#!/bin/bash
# A volume with logical blocks of 4096 bytes: what libnbd, QEMU and libiscsi see of it, and that they can use it.
. "$(dirname "$0")/lib.sh"
real_volume 48 # some tests of libiscsi need 8000 blocks
cp "$WORK/vm.img" "$WORK/wanted.img"
serve --block-size 4096 --listen iscsi:127.0.0.1:0
nbdinfo "$uri" >"$WORK/info"
grep -q 'block_size_minimum: 4096' "$WORK/info" || { cat "$WORK/info"; exit 1; }
changes=(-c 'write -P 0x11 4096 4096' -c 'write -P 0x22 65536 65536' -c 'write -z 1048576 1048576' -c 'discard 4194304 1048576' -c 'write -P 0x33 16773120 4096' -c flush)
qemu-io -f raw "${changes[@]}" "$uri"
# QEMU itself makes whole blocks of a part of one.
qemu-io -f raw -c 'write -P 0x44 8193 7' "$uri"
qemu-io -f raw "${changes[@]}" -c 'write -P 0x44 8193 7' "$WORK/wanted.img"
same() { qemu-img compare -f raw -F raw "$WORK/wanted.img" "$1"; }
# What was discarded may read as anything.
for file in "$uri" "$WORK/wanted.img"; do qemu-io -f raw -c 'write -z 4194304 1048576' "$file"; done
same "$uri"
nbdcopy "$uri" "$WORK/copy.img"
cmp "$WORK/wanted.img" "$WORK/copy.img"

if command -v iscsi-test-cu >/dev/null; then
  port=$(grep -oE 'iscsi://127\.0\.0\.1:[0-9]+' "$WORK/log" | grep -oE '[0-9]+$' | head -1)
  url="iscsi://127.0.0.1:$port/iqn.2026-11.nitro:vm/0"
  iscsi-readcapacity16 "$url" | tee "$WORK/capacity"
  grep -qE 'Block size: ?4096' "$WORK/capacity" && grep -q "Total size:$((48 << 20))" "$WORK/capacity"
  for name in Read10 Read16 Write10 Write16 WriteSame10 WriteSame16 CompareAndWrite Unmap Verify10 WriteVerify10 Prefetch10 ReadCapacity10 ReadCapacity16; do
    iscsi-test-cu --dataloss -n -t "ALL.$name" "$url" >"$WORK/suite" 2>&1 || true
    awk '$1 == "tests" { found = 1; bad = $5 } END { exit !(found && bad == 0) }' "$WORK/suite" || { tail -40 "$WORK/suite"; echo "suite $name failed"; exit 1; }
  done
else
  echo "no iscsi-test-cu (package libiscsi-bin): iSCSI is not tested"
fi
stop
"$NITRO" cache fsck "$WORK/cache.img"

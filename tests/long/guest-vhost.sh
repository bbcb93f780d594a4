#!/bin/sh
# In the guest: ext4 on DISK, by default /dev/vda (vhost-user-blk), files written, checked and checked again after the cache of the kernel is dropped,
# beside fsx with seeds from SEED on. While ROUNDS last, it says "round N"; the server may be restarted meanwhile.
fail() { echo "guest: $*"; exit 1; }
disk=${DISK:-/dev/vda}
[ -b "$disk" ] || fail "no $disk"
ls "/sys/block/${disk##*/}/mq"
mkfs.ext4 -q -F "$disk" || fail "mkfs"
mount -t ext4 -o discard "$disk" /mnt || fail "mount"
(
  seed=$SEED
  until [ -e /tmp/over ]; do
    fsx -q -N 500 -S "$seed" -P /tmp /mnt/fsx.dat >/tmp/fsx.log 2>&1 || { cp /tmp/fsx.log /tmp/fsx.failed; exit 1; }
    seed=$((seed + 1))
  done
  echo $((seed - SEED)) >/tmp/fsx.runs
) &
for round in $(seq 1 "$ROUNDS"); do
  echo "round $round"
  dd if=/dev/urandom of=/mnt/data bs=4k count=512 2>/dev/null || fail "write"
  sum=$(md5sum </mnt/data)
  cp /mnt/data "/mnt/copy$((round % 3))" || fail "copy"
  sync
  echo 3 >/proc/sys/vm/drop_caches
  [ "$(md5sum </mnt/data)" = "$sum" ] || fail "other bytes"
  [ "$(md5sum <"/mnt/copy$((round % 3))")" = "$sum" ] || fail "other bytes in the copy"
  rm /mnt/data
  [ ! -e /tmp/fsx.failed ] || { tail -30 /tmp/fsx.failed; fail "fsx"; }
done
touch /tmp/over
wait
[ -e /tmp/fsx.runs ] || { tail -30 /tmp/fsx.failed; fail "fsx"; }
umount /mnt || fail "umount"
fsck.ext4 -f -n "$disk" >/dev/null || fail "fsck"
echo "checked, and $(cat /tmp/fsx.runs) runs of fsx"

#!/bin/sh
# In the guest: ext4 on /dev/vda (vhost-user-blk), files written, checked and checked again after the cache of the kernel is dropped.
# While ROUNDS last, it says "round N"; the server may be restarted meanwhile.
fail() { echo "guest: $*"; exit 1; }
[ -b /dev/vda ] || fail "no /dev/vda"
ls /sys/block/vda/mq
mkfs.ext4 -q -F /dev/vda || fail "mkfs"
mount -t ext4 -o discard /dev/vda /mnt || fail "mount"
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
done
umount /mnt || fail "umount"
fsck.ext4 -f -n /dev/vda >/dev/null || fail "fsck"
echo "checked"

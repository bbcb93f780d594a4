#!/bin/sh
# In the guest of new-machine.sh: its disk is /dev/vda. STEP=install makes a file system with files; STEP=work starts from it,
# checks it, and works until the host says that it may end (a file "end" of the HTTP server on PORT). It sends no TRIM while
# it works: TRIM and zeroes are for the origin, which is gone for a while.
fail() { echo "guest: $*"; dmesg | tail -5; exit 1; }
[ -b /dev/vda ] || fail "no /dev/vda"
if [ "$STEP" = install ]; then
  mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda || fail "mkfs"
  mount -t ext4 /dev/vda /mnt || fail "mount"
  mkdir /mnt/files
  for n in $(seq 1 40); do { echo "file $n"; head -c $((n * 20011)) /bin/busybox; } >"/mnt/files/$n" || fail "write"; done
  dd if=/dev/urandom of=/mnt/files/random bs=64k count=64 2>/dev/null || fail "write"
  (cd /mnt/files && md5sum ./*) >/mnt/sums
  umount /mnt || fail "umount"
  echo "installed: 41 files on ext4"
  exit 0
fi

# The kernel's cache is dropped first, so that the bytes come from the disk.
check() { echo 3 >/proc/sys/vm/drop_caches; (cd /mnt/files && md5sum -c -s /mnt/sums) || fail "other bytes than were written"; }
mount -t ext4 /dev/vda /mnt || fail "mount"
check
echo "booted: all files are as they were written"
n=0
until wget -q -O /dev/null "http://10.0.2.2:$PORT/end" 2>/dev/null; do
  n=$((n + 1))
  dd if=/dev/urandom of="/mnt/log.$((n % 8))" bs=16k count=8 conv=fsync 2>/dev/null || fail "write $n"
  sum=$(md5sum <"/mnt/log.$((n % 8))")
  echo 3 >/proc/sys/vm/drop_caches
  [ "$(md5sum <"/mnt/log.$((n % 8))")" = "$sum" ] || fail "other bytes in round $n"
  echo "round $n"
  sleep 1
done
check
umount /mnt || fail "umount"
fsck.ext4 -f -n /dev/vda >/dev/null || fail "fsck"
echo "checked after $n rounds"

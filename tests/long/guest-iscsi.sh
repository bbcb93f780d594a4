# Runs in the guest: the kernel's iSCSI initiator, ext4, and files with write hints (busybox sh).
# PORT: the target's; PHASE: write, or check what an earlier guest wrote.
set -e
fail() { echo "guest: $*"; dmesg | tail -20; exit 1; }
iscsistart -i iqn.2026-11.test:guest -t iqn.2026-11.nitro:vm -g 1 -a 10.0.2.2 -p "$PORT" >/tmp/start 2>&1 || { cat /tmp/start; fail "no login"; }
for _ in $(seq 100); do [ -b /dev/sda ] && break; sleep 0.2; done
[ -b /dev/sda ] || fail "no disk"
dmesg | grep -i 'permanent stream count' || fail "the kernel sees no streams"
if [ "$PHASE" = write ]; then
  mkfs.ext4 -q /dev/sda || fail "mkfs"
  mount -t ext4 /dev/sda /mnt || fail "mount"
  for hint in 2 3 4 5; do /files/hint "/mnt/direct-$hint" "$hint" 1; done
  umount /mnt
  sync
  echo "guest: written"
fi

# Runs in the guest: the kernel's iSCSI initiator, ext4, and writes with hints (busybox sh). PORT: the target's.
# For each stage, prints how many bytes the kernel sent in write commands of each group number, by its own trace:
#   guest: sent STAGE GROUP BYTES
set -e
fail() { echo "guest: $*"; dmesg | tail -20; exit 1; }
mount -t tracefs tracing /sys/kernel/tracing || fail "no trace"
tracing=/sys/kernel/tracing
echo 1 >$tracing/events/scsi/scsi_dispatch_cmd_start/enable
# ends <stage>: all that it wrote was sent.
ends() {
  sync
  awk -v stage="$1" '
    function hex(text) { return 16 * (index(digits, substr(text, 1, 1)) - 1) + index(digits, substr(text, 2, 1)) - 1 }
    BEGIN { digits = "0123456789abcdef" }
    /^# entries-in-buffer/ { split($3, counts, "/"); if (counts[1] != counts[2]) { print "guest: the trace lost commands"; exit 1 } }
    match($0, /raw=[0-9a-f ]*/) {
      split(substr($0, RSTART + 4, RLENGTH - 4), cdb, " ")
      # WRITE (6), (10) and (16)
      if (cdb[1] == "0a") group = 0
      else if (cdb[1] == "2a") group = hex(cdb[7])
      else if (cdb[1] == "8a") group = hex(cdb[15])
      else next
      match($0, /txlen=[0-9]+/)
      sent[group] += 512 * substr($0, RSTART + 6, RLENGTH - 6)
    }
    END { for (group in sent) print "guest: sent", stage, group, sent[group] }' $tracing/trace
  echo >$tracing/trace
}

iscsistart -i iqn.2026-11.test:guest -t iqn.2026-11.nitro:vm -g 1 -a 10.0.2.2 -p "$PORT" >/tmp/start 2>&1 || { cat /tmp/start; fail "no login"; }
for _ in $(seq 100); do [ -b /dev/sda ] && break; sleep 0.2; done
[ -b /dev/sda ] || fail "no disk"
dmesg | grep -i 'permanent stream count' || fail "the kernel sees no streams"
for name in physical_block_size optimal_io_size discard_granularity discard_max_bytes write_zeroes_max_bytes rotational fua write_cache; do
  echo "guest: limit $name $(cat /sys/block/sda/queue/$name)"
done
echo "guest: limit provisioning_mode $(cat /sys/class/scsi_disk/*/provisioning_mode)"
# The file system leaves the last MiBs of the disk to what is written without one, and initializes nothing in the background.
mkfs.ext4 -q -F /dev/sda 224M || fail "mkfs"
mount -t ext4 -o noinit_itable /dev/sda /mnt || fail "mount"
ends file-system
for hint in 2 3 4 5; do
  /files/hint "/mnt/direct-$hint" "$hint" 1
  ends "direct-$hint"
done
/files/hint /mnt/buffered-3 3 0
ends buffered-3
/files/hint /mnt/direct-0 0 1
ends direct-0
umount /mnt
ends umount
/files/hint /dev/sda 4 1 240
ends device-4
echo "guest: written"

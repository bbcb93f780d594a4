#!/bin/bash
# A virtual machine with the kernel's iSCSI initiator: write hints, through ext4 and to the disk itself, arrive as classes (a kernel from 6.10 on).
. "$(dirname "$0")/lib.sh"
folder=$(readlink -f "$(dirname "$0")")
vm_run=$folder/../../scripts/vm-run
export PATH=$PATH:/usr/sbin:/sbin
command -v iscsistart >/dev/null || { echo "no iscsistart (package open-iscsi)"; exit 77; }
kernel=$("$vm_run" -k 6.10 -l) || exit 77
truncate -s 256M "$WORK/vm.img"
cc -O1 -static -o "$WORK/hint" "$folder/hint.c"
serve --listen iscsi:127.0.0.1:0
port=$(grep -oE 'iscsi://127\.0\.0\.1:[0-9]+' "$WORK/log" | grep -oE '[0-9]+$' | head -1)
"$vm_run" -k 6.10 -m iscsi_tcp -m sd_mod -m ext4 -m crc32c_generic -p iscsistart -p mkfs.ext4 -f "$WORK/hint" -e PORT="$port" \
  "$folder/guest-iscsi.sh" | tee "$WORK/console"
grep -q 'guest: written' "$WORK/console"
# One for group 0, and one for each hint from 1 on.
grep -q 'permanent stream count = 6' "$WORK/console"
"$NITRO" status --control "$control" -o json >"$WORK/status"
python3 - "$WORK/console" "$WORK/status" <<'P'
import json
import sys
from collections import Counter, defaultdict

BYTES = 512 << 10
sent, limits = defaultdict(Counter), {}
for line in open(sys.argv[1]):
    if line.startswith("guest: sent "):
        stage, group, count = line.split()[2:]
        sent[stage][int(group)] += int(count)
    if line.startswith("guest: limit "):
        name, value = line.split(maxsplit=3)[2:]
        limits[name] = value.strip()
classes = {c["id"]: c["write_bytes"] for c in json.load(open(sys.argv[2]))["volumes"][0]["classes"]}

# What the kernel read of READ CAPACITY (16), MODE SENSE and the pages 0xB0, 0xB1 and 0xB2 of vital product data: extents of 8 KiB, a file as
# the origin, UNMAP of 512 MiB and WRITE SAME of 1 GiB at most.
expected = {"physical_block_size": "8192", "optimal_io_size": "131072", "discard_granularity": "8192", "discard_max_bytes": str(512 << 20),
            "write_zeroes_max_bytes": str(1 << 30), "fua": "1", "write_cache": "write back", "provisioning_mode": "unmap"}
assert limits == expected | {"rotational": limits["rotational"]}, limits


def hinted(stage):
    return {group: count for group, count in sent[stage].items() if group}


# What the kernel sent: direct writes in the group of their hint; others, and the file system's own, in group 0.
for stage, group in [("direct-2", 2), ("direct-3", 3), ("direct-4", 4), ("direct-5", 5), ("device-4", 4)]:
    assert hinted(stage) == {group: BYTES}, (stage, sent[stage])
for stage in "file-system", "direct-0", "umount":
    assert hinted(stage) == {}, (stage, sent[stage])
assert sent["direct-0"][0] >= BYTES, sent["direct-0"]
# (A later kernel than 6.12 may send the hints of buffered writes, too.)
buffered = hinted("buffered-3")
assert buffered in ({}, {3: BYTES}) and sum(sent["buffered-3"].values()) >= BYTES, sent["buffered-3"]
# What arrived: as much in the class of each group. The volume has no class of its own, so that group 0 is class 0.
total = sum(sent.values(), Counter())
assert {group: count for group, count in classes.items() if count} == total, (classes, total)
print("buffered writes have", "their hint" if buffered else "group 0")
P
stop
fsck.ext4 -f -n "$WORK/vm.img"
head -c 512K /dev/zero | tr '\0' '\7' >"$WORK/sevens"
for file in direct-0 direct-2 direct-3 direct-4 direct-5 buffered-3; do
  debugfs -R "dump /$file $WORK/read" "$WORK/vm.img"
  cmp "$WORK/read" "$WORK/sevens"
done
cmp --bytes=512K --ignore-initial=240M:0 "$WORK/vm.img" "$WORK/sevens"
echo "Linux ${kernel%%-*}: direct writes with hints 2 to 5, through ext4 and to the disk, have the class of their hint"

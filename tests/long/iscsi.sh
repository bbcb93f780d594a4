#!/bin/bash
# A virtual machine with the kernel's iSCSI initiator: ext4, and write hints that arrive as classes (a kernel from 6.10 on; before, without).
. "$(dirname "$0")/lib.sh"
folder=$(readlink -f "$(dirname "$0")")
export PATH=$PATH:/usr/sbin:/sbin
command -v iscsistart >/dev/null || { echo "no iscsistart (package open-iscsi)"; exit 77; }
version=$(basename "$folder"/../../target/tools/vm/lib/modules/*)
[[ $(printf '%s\n6.10\n' "${version%%-*}" | sort -V | head -1) == 6.10 ]] || { echo "the guest's kernel $version sends no write hints"; exit 77; }
truncate -s 256M "$WORK/vm.img"
cc -O1 -static -o "$WORK/hint" "$folder/hint.c"
serve --listen iscsi:127.0.0.1:0
port=$(grep -oE 'iscsi://127\.0\.0\.1:[0-9]+' "$WORK/log" | grep -oE '[0-9]+$' | head -1)
"$folder/../../scripts/vm-run" -m iscsi_tcp -m sd_mod -m ext4 -m crc32c_generic -p iscsistart -p mkfs.ext4 -f "$WORK/hint" -e PORT="$port" -e PHASE=write \
  "$folder/guest-iscsi.sh" | tee "$WORK/console"
grep -q 'guest: written' "$WORK/console"
"$NITRO" status --control "$control" -o json >"$WORK/status"
classes=$(python3 - "$WORK/status" <<'P'
import json
import sys

classes = json.load(open(sys.argv[1]))["volumes"][0]["classes"]
print(*("%d:%d" % (c["id"], c["write_bytes"]) for c in classes if 2 <= c["id"] <= 5))
P
)
[[ $classes == "2:524288 3:524288 4:524288 5:524288" ]] || { echo "classes: $classes"; exit 1; }
stop
fsck.ext4 -f -n "$WORK/vm.img"
echo "write hints 2 to 5 through ext4 are classes: $classes"

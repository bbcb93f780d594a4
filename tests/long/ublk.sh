#!/bin/bash
# The server in a virtual machine whose kernel has the volume as a block device (ublk): ext4 and fsx on it while the server is killed, NITRO_ROUNDS times (2), ends in order, and loses writes.
. "$(dirname "$0")/lib.sh"
kills=${NITRO_ROUNDS:-2}
folder=$(readlink -f "$(dirname "$0")")
run=$folder/../../scripts/vm-run
export PATH=$PATH:/usr/sbin:/sbin:$folder/../../target/tools/bin
command -v fsx >/dev/null || { echo "no fsx: run scripts/setup test"; exit 77; }
kernel=$("$run" -k 6.5 -l) || { echo "no kernel with ublk"; exit 77; }
truncate -s 256M "$WORK/vm.img"
truncate -s 96M "$WORK/cache.img"
guest=
finally '[[ -z $guest ]] || { kill "$guest" && wait "$guest"; } 2>/dev/null'
"$run" -k 6.5 -c 2 -m virtio_blk -m ublk_drv -m ext4 -p mkfs.ext4 -p fsck.ext4 -p fsx -p "$NITRO" -f "$folder/guest-vhost.sh" \
  -d "$WORK/vm.img" -d "$WORK/cache.img" -e KILLS="$kills" -e SEED="$NITRO_SEED" "$folder/guest-ublk.sh" >"$WORK/console" 2>&1 &
guest=$!
wait "$guest" || { tail -60 "$WORK/console"; echo "the guest found something wrong"; exit 1; }
guest=
grep -a checked "$WORK/console"
"$NITRO" cache fsck "$WORK/cache.img"
echo "$kills kills under ext4 and fsx, one orderly end and one loss of writes on Linux $kernel, seed $NITRO_SEED"

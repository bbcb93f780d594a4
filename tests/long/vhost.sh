#!/bin/bash
# A virtual machine with a vhost-user-blk disk, ext4 and fsx, in write-through and in write-back with a write log: the server is killed under it, NITRO_ROUNDS times each (2).
. "$(dirname "$0")/lib.sh"
kills=${NITRO_ROUNDS:-2}
folder=$(readlink -f "$(dirname "$0")")
export PATH=$PATH:/usr/sbin:/sbin:$folder/../../target/tools/bin
command -v fsx >/dev/null || { echo "no fsx: run scripts/setup test"; exit 77; }
guest=
finally '[[ -z $guest ]] || { kill "$guest" && wait "$guest"; } 2>/dev/null'
fail() { tail -20 "$WORK/console"; tail -5 "$WORK/log"; echo "$*"; exit 1; }

# under_kills <options>...: a guest whose server, with these options, is killed and started again.
under_kills() {
  truncate -s 256M "$WORK/vm.img"
  serve --listen "vhost:$WORK/vm.blk" "$@"
  : >"$WORK/console"
  "$folder/../../scripts/vm-run" -m virtio_blk -m ext4 -p mkfs.ext4 -p fsck.ext4 -p fsx -e ROUNDS=$((8 + 4 * kills)) -e SEED="$NITRO_SEED" \
    -v "$WORK/vm.blk" "$folder/guest-vhost.sh" >"$WORK/console" 2>&1 &
  guest=$!
  for ((kill = 1; kill <= kills; kill++)); do
    for ((wait = 0; $(grep -c '^round' "$WORK/console" || true) < 4 * kill; wait++)); do
      kill -0 "$guest" 2>/dev/null || fail "the guest ended"
      ((wait < 3000)) || fail "the guest does not get on"
      sleep 0.1
    done
    crash
    serve --listen "vhost:$WORK/vm.blk" "$@"
  done
  wait "$guest" || fail "the guest found something wrong"
  guest=
  grep checked "$WORK/console"
  stop
  fsck.ext4 -f -n "$WORK/vm.img"
  rm "$WORK/vm.img" "$WORK/cache.img"
}

MODE=write-through under_kills
MODE=write-back under_kills --dirty-age 1s --write-log "$WORK/log.img" --write-log-size 16M
echo "$kills kills in each mode under a running guest, seed $NITRO_SEED"

#!/bin/bash
# A virtual machine with the kernel's NBD client, ext4 and SQLite: the power of guest and server is cut, NITRO_ROUNDS times (2).
. "$(dirname "$0")/lib.sh"
cuts=${NITRO_ROUNDS:-2}
folder=$(readlink -f "$(dirname "$0")")
export PATH=$PATH:/usr/sbin:/sbin
truncate -s 256M "$WORK/vm.img"
draw journal 0 1
journal=$([[ $journal == 0 ]] && echo wal || echo delete)
guest=
finally '[[ -z $guest ]] || { kill "$guest" && wait "$guest"; } 2>/dev/null'

# boot <first> <last>: starts the server and the guest, which writes to $WORK/console.
boot() {
  local disk
  if [[ ${FRONT_END:-nbd} == vhost ]]; then
    serve --listen "vhost:$WORK/vm.blk"
    disk=(-m virtio_blk -v "$WORK/vm.blk" -e DISK=/dev/vda)
  else
    serve --listen tcp:127.0.0.1:0
    disk=(-m nbd -p nbd-client -e PORT="$(grep -oE 'nbd://127\.0\.0\.1:[0-9]+' "$WORK/log" | grep -oE '[0-9]+$' | head -1)")
  fi
  : >"$WORK/console"
  "$folder/../../scripts/vm-run" "${disk[@]}" -m ext4 -p mkfs.ext4 -p fsck.ext4 -p sqlite3 -e FIRST="$1" \
    -e LAST="$2" -e JOURNAL="$journal" -e SEED="$NITRO_SEED" -e SYNCED="$synced" "$folder/guest-database.sh" >"$WORK/console" 2>&1 &
  guest=$!
}

# How many records the guest told to be synced, up to whole lines.
told() { sed -n '$d; s/^synced //p' "$WORK/console" | tail -1; }

fail() { tail -20 "$WORK/console"; echo "$*"; exit 1; }

synced=0
for ((cut = 0; cut < cuts; cut++)); do
  first=$((cut == 0))
  boot "$first" 0
  draw more 20 250
  for ((wait = 0; $(told || true) + 0 < synced + more; wait++)); do
    kill -0 "$guest" 2>/dev/null || fail "the guest ended"
    ((wait < 3000)) || fail "the guest does not get on"
    sleep 0.1
  done
  draw moment 0 300
  sleep "0.$(printf %03d "$moment")"
  kill -9 "$server"
  if [[ ${FRONT_END:-nbd} == vhost ]] && draw alone 0 1 && [[ $alone == 1 ]]; then
    # First the server alone: its successor fails the guest's requests if acknowledged writes are lost, and completes them if not.
    # Records that the guest tells of after that count, too.
    crash
    serve --listen "vhost:$WORK/vm.blk"
    sleep 5
    kill -9 "$server"
  fi
  kill "$guest" 2>/dev/null || true
  wait "$guest" 2>/dev/null || true
  guest=
  crash
  grep checked "$WORK/console" || [[ $cut == 0 ]]
  synced=$(told)
  echo "cut $cut: $synced records synced"
done
boot 0 1
wait "$guest" || fail "the guest found something wrong"
guest=
grep checked "$WORK/console"
stop
# The origin alone, without the cache, has it all.
fsck.ext4 -f -n "$WORK/vm.img"
echo "$cuts power cuts, $synced records in SQLite (journal_mode=$journal), seed $NITRO_SEED"

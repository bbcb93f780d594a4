#!/bin/sh
# In the guest: a server on /dev/vda and the cache /dev/vdb, and what the kernel makes of its volume. Says "step ..." as it goes on.
fail() { echo "guest: $*"; tail -30 /tmp/log; dmesg | tail -10; exit 1; }
step() { echo "step $*"; }
export XDG_RUNTIME_DIR=/tmp/run NITRO_CONTROL=/tmp/control
mkdir -m 700 /tmp/run
[ -c /dev/ublk-control ] || fail "the kernel has no ublk"

# serve <options>...
serve() {
  : >/tmp/out
  nitro serve --origin /dev/vda --name vm --cache /dev/vdb --ram 4M --control /tmp/control --listen unix:/tmp/nbd.sock "$@" >/tmp/out 2>>/tmp/log &
  server=$!
  until grep -q ^ready /tmp/out; do
    kill -0 "$server" 2>/dev/null || fail "the server ended: $*"
    sleep 1
  done
}
crash() { kill -9 "$server"; wait "$server" 2>/dev/null; }
finish() { kill "$server"; wait "$server" || fail "the server ended with an error"; }
gone() { [ ! -e "$1" ] || fail "$1 is still there"; }
sum() { dd if="$1" bs=64k count=16 2>/dev/null | md5sum; }

step attach
serve --mode write-through
dev=$(nitro attach vm) || fail "attach"
[ -b "$dev" ] && [ "$(nitro attach vm)" = "$dev" ] || fail "attach says $dev"
nitro status -o json | grep -q "\"block_device\": \"$dev\"" || fail "status does not name $dev"
name=${dev##*/}
[ "$(cat "/sys/block/$name/queue/write_cache")" = "write back" ] && [ "$(cat "/sys/block/$name/queue/fua")" = 1 ] || fail "no FLUSH or FUA"

step kills
rounds=$((4 + 4 * KILLS))
DISK=$dev ROUNDS=$rounds sh /files/guest-vhost.sh >/tmp/rounds 2>&1 &
worker=$!
kill=1
while [ "$kill" -le "$KILLS" ]; do
  until [ "$(grep -c '^round' /tmp/rounds)" -ge $((4 * kill)) ]; do
    kill -0 "$worker" 2>/dev/null || { cat /tmp/rounds; fail "the worker ended"; }
    sleep 1
  done
  crash
  [ -b "$dev" ] || fail "$dev went with its server"
  serve --mode write-through
  [ "$(grep -c "$dev is served again" /tmp/log)" = "$kill" ] || fail "$dev was not taken over"
  kill=$((kill + 1))
done
wait "$worker" || { cat /tmp/rounds; fail "the worker found something wrong"; }
grep checked /tmp/rounds

step in use
mount -t ext4 "$dev" /mnt || fail "mount"
echo kept >/mnt/kept
nitro detach vm 2>/tmp/refused && fail "a mounted device was detached"
grep -q 'in use' /tmp/refused || fail "$(cat /tmp/refused)"
nitro volume add other --origin /mnt/kept 2>/tmp/refused && fail "a volume of a file on the server's own device"
grep -q 'a volume of this server' /tmp/refused || fail "$(cat /tmp/refused)"

step orderly end in use
finish
[ -b "$dev" ] || fail "a mounted device was removed"
(echo more >/mnt/more; sync; touch /tmp/synced) &
writer=$!
sleep 2
[ ! -e /tmp/synced ] || fail "a sync without a server"
serve --mode write-through
wait "$writer"
echo 3 >/proc/sys/vm/drop_caches
[ "$(cat /mnt/kept /mnt/more)" = "$(printf 'kept\nmore')" ] || fail "files after the restart"
umount /mnt || fail "umount"

step detach
nitro detach vm || fail "detach"
gone "$dev"
nitro detach vm 2>/dev/null && fail "detached twice"
dev=$(nitro attach vm --block-size 4096) || fail "attach with blocks of 4096"
[ "$(cat "/sys/block/${dev##*/}/queue/logical_block_size")" = 4096 ] || fail "blocks"
fsck.ext4 -f -n "$dev" >/dev/null || fail "fsck with blocks of 4096"
finish
gone "$dev"

step listen
serve --mode write-back --listen ublk:
dev=$(grep -o 'ublk:/dev/ublkb[0-9]*' /tmp/out | cut -d: -f2)
[ -b "$dev" ] || fail "no device: $(cat /tmp/out)"
before=$(sum "$dev")

step flushed writes
# At the end of the volume, where the file system has nothing.
dd if=/dev/urandom of=/tmp/data bs=64k count=16 2>/dev/null
cp /tmp/data /tmp/expected
dd if=/tmp/data of="$dev" bs=64k seek=4000 conv=fsync,notrunc 2>/dev/null || fail "write"
crash
serve --mode write-back --listen ublk:
grep -q "$dev" /tmp/out || fail "another device: $(cat /tmp/out)"
echo 3 >/proc/sys/vm/drop_caches
dd if="$dev" bs=64k skip=4000 count=16 2>/dev/null | cmp - /tmp/expected || fail "flushed writes are lost"

step lost writes
dd if=/dev/urandom of="$dev" bs=64k seek=4000 count=16 conv=notrunc 2>/dev/null || fail "write"
crash
serve --mode write-back
grep -q "acknowledged writes to $dev were flushed, and they are lost" /tmp/log || fail "the loss was not noticed"
gone "$dev"
dev=$(nitro attach vm) || fail "attach after a loss"
[ "$(sum "$dev")" = "$before" ] || fail "other data"
nitro detach vm || fail "detach"
finish
grep -q panicked /tmp/log && fail "a panic"
echo "checked, on $(uname -r)"

#!/bin/bash
# PostgreSQL under pgbench on ext4 on the volume: the server is killed with -9 beneath it, NITRO_ROUNDS times (3), and it recovers.
. "$(dirname "$0")/lib.sh"
rounds=${NITRO_ROUNDS:-3}
skip() { echo "$*"; exit 77; }
[[ $(id -u) == 0 ]] || skip "needs root for loop devices"
[[ -e /dev/fuse && -e /dev/loop-control ]] || skip "needs /dev/fuse and loop devices"
losetup -f >/dev/null || skip "no loop device can be had"
command -v nbdfuse >/dev/null || skip "needs nbdfuse: run scripts/setup-long"
export PATH=$PATH:/usr/sbin:/sbin
binaries=$(dirname "$(printf '%s\n' /usr/lib/postgresql/*/bin/initdb | sort -V | tail -1)")
[[ -x $binaries/initdb ]] || skip "needs PostgreSQL: run scripts/setup-long"
truncate -s 512M "$WORK/vm.img"

# The database's user cannot look into $WORK.
place=$(mktemp -d "${TMPDIR:-/var/tmp}/nitro-postgres.XXXXXX")
mnt=$place/mnt fuse=$place/fuse data=$place/mnt/data
chmod 755 "$place"
mkdir "$mnt" "$fuse"
install -d -o postgres "$place/run"
postmaster='' loop='' bridge=''
as=(setpriv --reuid postgres --regid postgres --init-groups env HOME="$place/run" PGHOST="$place/run" PATH="$binaries:$PATH")
query() { "${as[@]}" psql -qAtX -v ON_ERROR_STOP=1 bench -c "$1"; }

plug() { # the volume as a block device
  nbdfuse "$fuse" "nbd+unix:///vm?socket=$WORK/nbd.sock" >>"$WORK/nbdfuse" 2>&1 &
  bridge=$!
  for _ in $(seq 400); do [[ -e $fuse/nbd ]] && break; sleep 0.05; done
  loop=$(losetup -f --show "$fuse/nbd") || { cat "$WORK/nbdfuse"; echo "no loop device on nbdfuse"; exit 1; }
}
unplug() { # what is left of it, whatever still works; nbdfuse may abort when its server is gone
  if mountpoint -q "$mnt"; then umount "$mnt" || umount -l "$mnt"; fi
  [[ -z $loop ]] || losetup -d "$loop" || true
  loop=
  [[ -n $bridge ]] || return 0
  umount "$fuse" 2>/dev/null || true
  { kill -9 "$bridge"; wait "$bridge"; } 2>/dev/null || true
  bridge=
  while grep -q " $fuse " /proc/mounts; do umount -l "$fuse"; done
}
start() { # PostgreSQL, once it has recovered
  "${as[@]}" postgres -D "$data" >>"$WORK/postgres" 2>&1 &
  postmaster=$!
  for _ in $(seq 1200); do
    "${as[@]}" pg_isready -q && return
    kill -0 "$postmaster" 2>/dev/null || { tail -30 "$WORK/postgres"; echo "PostgreSQL does not start"; exit 1; }
    sleep 0.1
  done
  tail -30 "$WORK/postgres"; echo "PostgreSQL does not recover"; exit 1
}
end_postgres() { # as a crash of its machine ends it
  [[ -n $postmaster ]] || return 0
  local children
  children=$(pgrep -P "$postmaster" | paste -sd' ' || true)
  # shellcheck disable=SC2086  # a list of process ids
  kill -9 "$postmaster" $children 2>/dev/null || true
  wait "$postmaster" 2>/dev/null || true
  postmaster=
}
check() { # check <transactions that were acknowledged>
  local sums rows
  sums=$(query 'SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
    (SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)')
  [[ $(tr '|' '\n' <<<"$sums" | sort -u | wc -l) == 1 ]] || { echo "accounts, tellers, branches, history disagree: $sums"; exit 1; }
  rows=$(query 'SELECT count(*) FROM pgbench_history')
  ((rows >= $1)) || { echo "$1 transactions were acknowledged, $rows are there"; exit 1; }
  "${as[@]}" pg_amcheck -d bench --install-missing --heapallindexed --parent-check --rootdescend || { echo "amcheck finds damage"; exit 1; }
  echo "$rows transactions, sums of ${sums%%|*}, $1 acknowledged"
}

finally 'rm -rf "$place"'
finally unplug
finally end_postgres

serve --listen "unix:$WORK/nbd.sock"
plug
mkfs.ext4 -q -F "$loop"
mount "$loop" "$mnt"
install -d -o postgres -m 700 "$data"
"${as[@]}" initdb -D "$data" --data-checksums -U postgres -A trust >"$WORK/initdb" || { cat "$WORK/initdb"; exit 1; }
cat >>"$data/postgresql.conf" <<C
listen_addresses = ''
unix_socket_directories = '$place/run'
shared_buffers = 16MB
max_wal_size = 64MB
checkpoint_timeout = 30s
C
sync -f "$data" # initdb's files are durable, what was appended here is not
start
"${as[@]}" createdb bench
"${as[@]}" pgbench -i -q -s 4 bench 2>"$WORK/pgbench" || { cat "$WORK/pgbench"; exit 1; }
acknowledged=0
for ((round = 0; round < rounds; round++)); do
  "${as[@]}" pgbench -n -c 4 -T 3600 --random-seed="$((NITRO_SEED + round))" bench >"$WORK/pgbench" 2>&1 &
  clients=$!
  draw moment 2000 8000
  sleep "$((moment / 1000)).$(printf %03d $((moment % 1000)))"
  kill -0 "$clients" 2>/dev/null || { cat "$WORK/pgbench"; echo "pgbench ended"; exit 1; }
  crash
  sleep 0.3
  end_postgres
  wait "$clients" || true
  unplug
  done=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$WORK/pgbench")
  acknowledged=$((acknowledged + ${done:?pgbench did not tell what it did}))
  serve --listen "unix:$WORK/nbd.sock"
  plug
  mount "$loop" "$mnt"
  umount "$mnt"
  fsck.ext4 -f -n "$loop" >"$WORK/fsck" 2>&1 || { cat "$WORK/fsck"; echo "fsck finds faults after the journal's recovery"; exit 1; }
  mount "$loop" "$mnt"
  start
  check "$acknowledged"
done
kill -INT "$postmaster"
wait "$postmaster"
postmaster=
unplug
stop
fsck.ext4 -f -n "$WORK/vm.img"
echo "$rounds kills, $acknowledged transactions acknowledged, seed $NITRO_SEED"

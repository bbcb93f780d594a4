#!/bin/busybox sh
# Runs in the guest of vm.sh and vhost-power.sh: recovers and checks what an earlier run left on the volume, then goes on writing
# until the power is cut, telling of everything that is on stable storage. DISK, or PORT of an NBD server; FIRST (1: nothing is there
# yet), LAST (1: only check), JOURNAL (wal or delete), SEED, SYNCED (records told of so far).
set -eu
disk=${DISK:-/dev/nbd0} db=/mnt/bank.db
die() { echo "guest: $*"; exit 1; }
attempt=0
until [ -n "${DISK:-}" ] || nbd-client 10.0.2.2 "$PORT" $disk -N vm -b 4096 >/tmp/nbd-client 2>&1; do
  attempt=$((attempt + 1))
  [ $attempt -lt 10 ] || { cat /tmp/nbd-client; die "no connection"; }
  sleep 1
done

# The text of record $1: its number, and a length that depends on it.
text="printf('%d %.*c', n, 100 + n * 37 % 3000, char(65 + n % 26))"
sql() { sqlite3 -bail -noheader $db "$@"; }

if [ "$FIRST" = 1 ]; then
  mkfs.ext4 -q -F $disk || die "mkfs"
  mount -t ext4 $disk /mnt || die "mount"
  mkdir /mnt/files
  sql "PRAGMA journal_mode=$JOURNAL; CREATE TABLE account(id INTEGER PRIMARY KEY, balance INT);
    CREATE TABLE record(n INTEGER PRIMARY KEY, text); CREATE INDEX by_text ON record(text);
    WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < 999) INSERT INTO account SELECT n, 1000 FROM i;" >/tmp/made
  sync
else
  # The journal is replayed; what stands there then must be a filesystem without a fault.
  mount -t ext4 $disk /mnt || die "the filesystem cannot be mounted"
  umount /mnt
  fsck.ext4 -f -n $disk >/tmp/fsck 2>&1 || { cat /tmp/fsck; die "fsck finds faults after recovery"; }
  mount -t ext4 $disk /mnt || die "mount"
  [ "$(sql 'PRAGMA integrity_check')" = ok ] || die "the database is damaged: $(sql 'PRAGMA integrity_check')"
  [ "$(sql 'SELECT sum(balance) FROM account')" = 1000000 ] || die "money is lost: $(sql 'SELECT sum(balance) FROM account')"
  have=$(sql 'SELECT ifnull(max(n), 0) FROM record')
  [ "$have" -ge "$SYNCED" ] || die "records up to $SYNCED were synced, and those up to $have are there"
  [ "$(sql 'SELECT count(*) FROM record')" = "$have" ] || die "there are records missing among the first $have"
  [ "$(sql "SELECT count(*) FROM record WHERE text != $text")" = 0 ] || die "records have other text than was written"
  n=1
  while [ $n -le $((SYNCED / 10)) ]; do
    head -c $((n * 7919 % 200000)) /bin/busybox | cmp -s - /mnt/files/$n || die "file $n was synced and is not there whole"
    n=$((n + 1))
  done
  echo "checked $have records, $((SYNCED / 10)) files"
fi
if [ "$LAST" = 1 ]; then
  umount /mnt || die "umount"
  [ -n "${DISK:-}" ] || nbd-client -d $disk >/dev/null
  exit 0
fi

# Transfers between accounts, each with its record, each told of once it is committed; a file with every tenth.
synchronous=FULL
[ "$JOURNAL" = wal ] || synchronous=EXTRA
last=$(sql 'SELECT ifnull(max(n), 0) FROM record')
next=$((last + 1))
if [ "$last" -gt "$SYNCED" ] && [ $((last % 10)) = 0 ]; then
  # The power was cut between the record and its file.
  n=$((last / 10))
  head -c $((n * 7919 % 200000)) /bin/busybox | dd of=/mnt/files/$n bs=64k conv=fsync 2>/dev/null || die "file $n cannot be written"
fi
{
  echo "PRAGMA journal_mode=$JOURNAL; PRAGMA synchronous=$synchronous; PRAGMA wal_autocheckpoint=100;"
  x=$((SEED + next))
  while :; do
    x=$(((x * 1103515245 + 12345) % 2147483648))
    from=$((x / 65536 % 1000)) to=$((x / 32 % 1000)) sum=$((x % 97))
    echo "BEGIN; UPDATE account SET balance = balance - $sum WHERE id = $from;
      UPDATE account SET balance = balance + $sum WHERE id = $to;
      INSERT INTO record SELECT n, $text FROM (SELECT $next AS n); COMMIT;"
    if [ $((next % 10)) = 0 ]; then
      n=$((next / 10))
      # Where that fails, nothing more is told of.
      echo ".shell head -c $((n * 7919 % 200000)) /bin/busybox | dd of=/mnt/files/$n bs=64k conv=fsync 2>/dev/null || kill -9 \$PPID"
    fi
    echo "SELECT 'synced $next';"
    next=$((next + 1))
  done
} | sqlite3 -bail $db
die "the database gave up"

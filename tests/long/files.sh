#!/bin/bash
# nitro mount under fsx, fio with checksums and git, with the server killed and mounted again NITRO_ROUNDS times (4), and other programs changing the tree meanwhile.
. "$(dirname "$0")/lib.sh"
rounds=${NITRO_ROUNDS:-4}
export PATH=$PATH:$(readlink -f "$(dirname "$0")")/../../target/tools/bin
[[ -c /dev/fuse ]] && command -v fusermount3 >/dev/null || { echo "needs /dev/fuse and fusermount3"; exit 77; }
command -v fsx >/dev/null || { echo "no fsx: run scripts/setup test"; exit 77; }
tree=$WORK/tree mnt=$WORK/mnt
mkdir -p "$tree" "$mnt"
export STATE_DIRECTORY=$WORK/state XDG_RUNTIME_DIR=$WORK/run
mkdir -m 700 -p "$XDG_RUNTIME_DIR"
finally 'fusermount3 -u -z -q "$mnt"'

mount_tree() {
  : >"$WORK/log"
  "$NITRO" mount "$tree" "$mnt" --cache "$WORK/cache.img" --cache-size 64M --extent-size 4K --ram 4M >"$WORK/log" 2>&1 &
  server=$!
  until grep -q '^ready' "$WORK/log"; do
    kill -0 "$server" 2>/dev/null || { cat "$WORK/log"; exit 1; }
    sleep 0.05
  done
}

# The same bytes through the mount, past the kernel's pages, and in the tree.
compare() {
  local file sum
  (cd "$tree" && find . -type f -print0 | sort -z | xargs -0r sha256sum) >"$WORK/bare"
  (cd "$mnt" && find . -type f -print0 | sort -z | xargs -0r sha256sum) >"$WORK/mounted"
  diff "$WORK/bare" "$WORK/mounted" || { echo "files differ through the mount"; exit 1; }
  while read -r sum file; do
    [[ $(dd if="$mnt/$file" bs=64K iflag=direct status=none | sha256sum) == "$sum "* ]] || { echo "$file differs past the kernel's pages"; exit 1; }
  done <"$WORK/bare"
}

mount_tree
(cd "$mnt" && git init -q repo && cd repo && git config user.email a@b && git config user.name a)
for round in $(seq "$rounds"); do
  draw seed 1 1000000
  fsx -q -S "$seed" -N 3000 -P "$WORK" "$mnt/fsx.dat" || { echo "fsx, seed $seed, round $round"; exit 1; }
  (cd "$mnt/repo" && cp -r /etc/ssl . 2>/dev/null || true; seq "$seed" >n && git add -A && git commit -qm "round $round" && git fsck --strict) >"$WORK/git" 2>&1 || { cat "$WORK/git"; exit 1; }
  if command -v fio >/dev/null; then
    # It leaves its files where it stands.
    (cd "$WORK" && fio --name=v --directory="$mnt" --size=8M --rw=randwrite --bsrange=4k-64k --direct=$((round % 2)) --verify=crc32c --verify_fatal=1 --numjobs=2 --randseed="$seed" --output="$WORK/fio") || { cat "$WORK/fio"; exit 1; }
  fi
  # Behind the mount's back.
  dd if=/dev/urandom of="$tree/foreign" bs=4K count=64 status=none
  dd if="$mnt/foreign" of=/dev/null bs=64K iflag=direct status=none
  compare
  sqlite=
  if command -v sqlite3 >/dev/null; then
    # A database that is written while the server is killed.
    (for i in $(seq 2000); do sqlite3 "$mnt/db" "create table if not exists t(i); insert into t values($i); select 'done $i'" || break; done) >"$WORK/sql" 2>/dev/null &
    sqlite=$!
    draw pause 1 3
    sleep "$pause"
  fi
  crash
  [[ -z $sqlite ]] || wait "$sqlite" || true
  dd if=/dev/urandom of="$tree/foreign" bs=4K count=64 status=none
  fusermount3 -u -z "$mnt"
  mount_tree
  if [[ -n $sqlite ]]; then
    acknowledged=$(grep -c '^done' "$WORK/sql" || true)
    [[ $(sqlite3 "$mnt/db" 'pragma integrity_check') == ok ]] || { echo "the database is damaged after kill $round"; exit 1; }
    has=$(sqlite3 "$mnt/db" 'select count(*) from t' 2>/dev/null || echo 0)
    [[ $has -ge $acknowledged ]] || { echo "$acknowledged rows were acknowledged, and there are $has"; exit 1; }
    sqlite3 "$mnt/db" 'drop table if exists t'
  fi
  compare
  (cd "$mnt/repo" && git fsck --strict && git status --porcelain) >"$WORK/git" 2>&1 || { cat "$WORK/git"; exit 1; }
done
kill "$server"
wait "$server" || { cat "$WORK/log"; echo "the server ended with an error"; exit 1; }
server=
if mountpoint -q "$mnt"; then echo "it is still mounted"; exit 1; fi
"$NITRO" cache fsck "$WORK/cache.img"
echo "$rounds kills under fsx, fio, git and sqlite3, seed $NITRO_SEED"

# shellcheck shell=bash
# What the client scenarios share. Sourced; expects NITRO (the program), WORK (a scratch directory), CACHE (its size), and
# perhaps MODE (write-through or write-back) and ORIGIN (file: $WORK/vm.img itself; cos: what a store made of it).
set -euo pipefail
: "${NITRO:?}" "${WORK:?}" "${CACHE:?}" "${MODE:=write-through}" "${ORIGIN:=file}"
control=$WORK/control.sock
socket=$WORK/nbd.sock
uri="nbd+unix:///vm?socket=$socket"
server=
store=$WORK/store
case $ORIGIN in
  file) origin=$WORK/vm.img mark=$origin.nitro-dirty ;;
  cos) origin=cos:$store#vm mark=$store/store.nitro-vm.nitro-dirty ;;
esac

skip() { echo "$*"; exit 77; }

end() {
  [[ -z $server ]] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
}
trap end EXIT

# cos <arguments>...: a command for the store that says nothing but errors.
cos() { "$NITRO" cos "$@" >/dev/null 2>"$WORK/cos" || { cat "$WORK/cos"; return 1; }; }

# serve <options>...: serves what $WORK/vm.img holds as `vm` on $socket, with a cache of $CACHE.
serve() {
  local mode=(--mode "$MODE")
  [[ $* != *--read-only* ]] || mode=()
  if [[ $ORIGIN == cos && ! -e $store ]]; then
    cos init "$store" --size 2G
    cos import "$store" vm "$WORK/vm.img"
  fi
  # shellcheck disable=SC2086  # CACHE is a size and perhaps an option
  start --origin "$origin" --name vm --cache "$WORK/cache.img" --cache-size $CACHE --listen "unix:$socket" "${mode[@]}" "$@"
}

# start <options>...: starts a server, and waits until it is ready.
start() {
  : >"$WORK/log" # what an earlier server said is not to be taken for this one's
  "$NITRO" serve --control "$control" "$@" >"$WORK/log" 2>&1 &
  server=$!
  until grep -q '^ready' "$WORK/log"; do
    kill -0 "$server" 2>/dev/null || { cat "$WORK/log"; exit 1; }
    sleep 0.05
  done
}

# Stops the server, which must drain and exit with 0, must not have warned of anything, and must leave a store well.
stop() {
  kill "$server"
  wait "$server"
  server=
  if grep -E ' (WARN|ERROR) ' "$WORK/log"; then
    echo "the server complained"; exit 1
  fi
  if [[ -e $store ]]; then cos fsck "$store"; fi
}

# As a crash does.
kill_server() {
  kill -9 "$server"
  wait "$server" || true
  server=
}

# holds <file>: what no server serves any more is as the file.
holds() {
  if [[ $ORIGIN == file ]]; then
    cmp "$1" "$WORK/vm.img"
  else
    cos export "$store" vm "$WORK/stored.img" --force
    cmp "$1" "$WORK/stored.img"
  fi
}

# Somebody else fills $WORK/vm.img, or the object that was made of it, with noise.
change_origin() {
  dd if=/dev/urandom of="$WORK/vm.img" bs=1M count="$1" conv=notrunc status=none
  if [[ $ORIGIN == cos ]]; then
    cos delete "$store" vm
    cos import "$store" vm "$WORK/vm.img"
  fi
}

# status <expression on the status `s`>: evaluates it in python.
status() {
  "$NITRO" status --control "$control" -o json | python3 -c "import json,sys; s=json.load(sys.stdin); print($1)"
}

# A volume of $1 MiB of real files.
real_volume() {
  find /usr/bin /usr/lib -xdev -type f -size +16k -size -4M -readable -print0 2>/dev/null | LC_ALL=C sort -z |
    xargs -0 cat 2>/dev/null | head -c "$(($1 << 20))" >"$WORK/vm.img" || true
  truncate -s "$1M" "$WORK/vm.img"
}

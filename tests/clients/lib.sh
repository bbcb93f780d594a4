# shellcheck shell=bash
# What the client scenarios share. Sourced; expects NITRO (the program), WORK (a scratch directory), CACHE (its size), and
# perhaps MODE (write-through or write-back).
set -euo pipefail
: "${NITRO:?}" "${WORK:?}" "${CACHE:?}" "${MODE:=write-through}"
control=$WORK/control.sock
socket=$WORK/nbd.sock
uri="nbd+unix:///vm?socket=$socket"
server=

skip() { echo "$*"; exit 77; }

end() {
  [[ -z $server ]] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
}
trap end EXIT

# serve <options>...: serves $WORK/vm.img as `vm` on $socket, with a cache of $CACHE.
serve() {
  local mode=(--mode "$MODE")
  [[ $* != *--read-only* ]] || mode=()
  : >"$WORK/log" # what an earlier server said is not to be taken for this one's
  # shellcheck disable=SC2086  # CACHE is a size and perhaps an option
  "$NITRO" serve --origin "$WORK/vm.img" --name vm --cache "$WORK/cache.img" --cache-size $CACHE \
    --listen "unix:$socket" --control "$control" "${mode[@]}" "$@" >"$WORK/log" 2>&1 &
  server=$!
  until grep -q '^ready' "$WORK/log"; do
    kill -0 "$server" 2>/dev/null || { cat "$WORK/log"; exit 1; }
    sleep 0.05
  done
}

# Stops the server, which must drain and exit with 0, and must not have warned of anything.
stop() {
  kill "$server"
  wait "$server"
  server=
  if grep -E ' (WARN|ERROR) ' "$WORK/log"; then
    echo "the server complained"; exit 1
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

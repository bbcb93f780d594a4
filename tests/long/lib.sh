# shellcheck shell=bash
# What the long scenarios share. Sourced; expects NITRO (the program) and WORK (a scratch directory).
set -euo pipefail
: "${NITRO:?}" "${WORK:?}"
server=
control=$WORK/control.sock

# serve <options>...: serves $WORK/vm.img as `vm` from a small cache, in write-back unless told otherwise.
serve() {
  : >"$WORK/log" # the redirection below happens in the background, perhaps only after the first look for "ready"
  "$NITRO" serve --origin "$WORK/vm.img" --name vm --cache "$WORK/cache.img" --cache-size 64M --mode "${MODE:-write-back}" \
    --ram 4M --control "$control" "$@" >"$WORK/log" 2>&1 &
  server=$!
  until grep -q '^ready' "$WORK/log"; do
    kill -0 "$server" 2>/dev/null || { cat "$WORK/log"; exit 1; }
    sleep 0.05
  done
}

# Ends the server as a crash does. It must not have complained of anything before.
crash() {
  kill -9 "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  server=
  if grep -E ' ERROR |panicked' "$WORK/log"; then echo "the server complained"; exit 1; fi
}

# Ends the server in order: it must exit with 0, with the origin up to date and unmarked.
stop() {
  kill "$server"
  wait "$server" || { cat "$WORK/log"; echo "the server ended with an error"; exit 1; }
  server=
  if grep -E ' ERROR |panicked' "$WORK/log"; then echo "the server complained"; exit 1; fi
  if [[ -e $WORK/vm.img.nitro-dirty ]]; then echo "the origin is still marked as dirty"; exit 1; fi
  "$NITRO" cache fsck "$WORK/cache.img"
}

# draw <variable> <from> <to>: sets it to the next number of the seeded sequence. (A subshell would have a sequence of its own.)
draw() { printf -v "$1" %d $(($2 + (RANDOM << 15 | RANDOM) % ($3 - $2 + 1))); }

RANDOM=$((${NITRO_SEED:=$((RANDOM << 15 | RANDOM))} & 32767))
echo "seed $NITRO_SEED"
export NITRO_SEED

tidy=()
# finally <command>: run at the end, the last one first.
finally() { tidy=("$1" "${tidy[@]}"); }
end() {
  local command
  for command in "${tidy[@]}"; do eval "$command" || true; done
  [[ -z $server ]] || { kill -9 "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
}
trap end EXIT
trap 'exit 130' INT TERM

#!/bin/bash
# dm-multipath over two iSCSI sessions, in a virtual machine, with checked I/O: one path is cut, by turns, NITRO_ROUNDS times (4).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/guest-iscsid-host.sh"
rounds=${NITRO_ROUNDS:-4}
serve --listen iscsi:127.0.0.1:0 --listen iscsi:127.0.0.1:0
mapfile -t targets < <(grep -oE 'iscsi://127\.0\.0\.1:[0-9]+' "$WORK/log" | grep -oE '[0-9]+$' | sort -u)
((${#targets[@]} == 2)) || { cat "$WORK/log"; echo "the server does not listen twice"; exit 1; }

# Each listener is reached through a process of its own, which can be killed.
ports=(0 0) paths=(0 0)
# open_path <0 or 1>
open_path() {
  rm -f "$WORK/path$1"
  python3 "$folder/path.py" "${ports[$1]}" "${targets[$1]}" >"$WORK/path$1" &
  paths[$1]=$!
  ports[$1]=$(line_of "$WORK/path$1")
}
open_path 0
open_path 1
# shellcheck disable=SC2016  # expanded when it is run
finally 'kill "${paths[@]}" 2>/dev/null'

paths_are() { [[ $(grep -a '^paths:' "$WORK/console" | tail -1 | grep -oE '\b[AF]\b' | tr -d '\n') == "$1" ]]; }
start_guest "${ports[*]}" 2 -m dm_multipath -m dm_round_robin -p dmsetup
await 300 paths_are AA
for round in $(seq "$rounds"); do
  await_progress 4
  cut=$((round % 2))
  kill -9 "${paths[cut]}"
  wait "${paths[cut]}" 2>/dev/null || true
  if ((cut == 0)); then await 120 paths_are FA; else await 120 paths_are AF; fi
  # Over the other path, I/O goes on.
  await_progress 4
  open_path "$cut"
  await 120 paths_are AA
done
await_progress 4
end_guest
stop
echo "$rounds cuts; $(grep -a '^checked:' "$WORK/console" | cut -d' ' -f2-)"

#!/bin/bash
# The kernel's iSCSI initiator and iscsid in a virtual machine, with checked I/O: the server is killed with -9, NITRO_ROUNDS times (6).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/guest-iscsid-host.sh"
rounds=${NITRO_ROUNDS:-6}
# Below the ports of outgoing connections, so that it stays free while no server runs.
port=0 pause=0
draw port 20000 31999
serve --listen "iscsi:127.0.0.1:$port"
# The kernel keeps requests until the server is there again.
start_guest "$port" 600
for round in $(seq "$rounds"); do
  await_progress 4
  draw pause 0 900
  sleep "0.$(printf %03d "$pause")"
  set_epoch $((2 * round - 1))
  crash
  serve --listen "iscsi:127.0.0.1:$port"
  set_epoch $((2 * round))
done
await_progress 8
end_guest
lost=$(grep -aoE 'guest: [0-9]+ connections lost' "$WORK/console" | grep -oE '[0-9]+')
((lost >= rounds)) || { echo "the initiator lost $lost connections in $rounds kills"; exit 1; }
stop
echo "$rounds kills, $lost connections made again; $(grep -a '^checked:' "$WORK/console" | cut -d' ' -f2-)"

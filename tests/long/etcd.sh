#!/bin/bash
# Two servers of which an etcd decides which one serves: killed, stopped, cut off; etcd stopped and killed; every sector checked: NITRO_ROUNDS rounds (12).
. "$(dirname "$0")/lib.sh"
command -v etcd >/dev/null || { echo "no etcd (package etcd-server)"; exit 77; }
peer=$(dirname "$0")/../../scripts/peers/etcd
ETCD_PORT=$((20000 + RANDOM % 10000))
export ETCD_PORT no_proxy=127.0.0.1
finally '"$peer" stop "$WORK/etcd"'
eval "$("$peer" start "$WORK/etcd")"
python3 "$(dirname "$0")/etcd.py" --nitro "$NITRO" --work "$WORK" --peer "$peer" --rounds "${NITRO_ROUNDS:-12}" --seed "$NITRO_SEED"

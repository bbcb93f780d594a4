#!/bin/bash
# Images of a Ceph cluster as origins: kills with dirty data, locks broken by a second server, snapshots, growth, daemons that stop: NITRO_ROUNDS kills (5).
. "$(dirname "$0")/lib.sh"
for program in ceph-mon ceph-mgr ceph-osd rbd; do
  command -v "$program" >/dev/null || { echo "no $program (packages ceph-mon ceph-mgr ceph-osd ceph-common)"; exit 77; }
done
peer=$(dirname "$0")/../../scripts/peers/ceph
finally '"$peer" stop "$WORK/ceph"'
eval "$("$peer" start "$WORK/ceph")"
python3 "$(dirname "$0")/rbd.py" --nitro "$NITRO" --work "$WORK" --peer "$peer" --rounds "${NITRO_ROUNDS:-5}" --seed "$NITRO_SEED"

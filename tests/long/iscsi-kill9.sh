#!/bin/bash
# Killed with -9 under libiscsi, which connects again; each client has two sessions: NITRO_ROUNDS kills (8).
. "$(dirname "$0")/lib.sh"
python3 -c 'import ctypes; ctypes.CDLL("libiscsi.so.7")' 2>/dev/null ||
  { echo "no libiscsi.so.7 (package libiscsi7)"; exit 77; }
python3 "$(dirname "$0")/iscsi-kill9.py" --nitro "$NITRO" --work "$WORK" --rounds "${NITRO_ROUNDS:-8}" \
  --seed "$NITRO_SEED"

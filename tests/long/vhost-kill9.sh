#!/bin/bash
# Killed with -9 under guests over vhost-user-blk, every sector checked, and each loss told to the guest: NITRO_ROUNDS kills (40), NITRO_SEED replays one.
. "$(dirname "$0")/lib.sh"
python3 "$(dirname "$0")/vhost-kill9.py" --nitro "$NITRO" --work "$WORK" --rounds "${NITRO_ROUNDS:-40}" --seed "$NITRO_SEED"

#!/bin/bash
# Killed with -9 at random moments under random load, every sector checked: NITRO_ROUNDS kills (100), NITRO_SEED replays one.
. "$(dirname "$0")/lib.sh"
python3 "$(dirname "$0")/kill9.py" --nitro "$NITRO" --work "$WORK" --rounds "${NITRO_ROUNDS:-100}" ${NITRO_SEED:+--seed "$NITRO_SEED"}

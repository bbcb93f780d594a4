#!/bin/bash
# What the simulator says of a recorded volume, and what the volume then does live: hits and bytes written for other sizes and policies.
. "$(dirname "$0")/lib.sh"
lab=$(dirname "$NITRO")/nitro-lab
[[ -x $lab ]] || { echo "there is no $lab"; exit 77; }
python3 "$(dirname "$0")/what-if.py" --nitro "$NITRO" --lab "$lab" --work "$WORK" --seed "$NITRO_SEED"

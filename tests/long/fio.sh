#!/bin/bash
# Killed with -9 under fio: what fio wrote and synced passes its own verification after each start. NITRO_ROUNDS kills (20).
. "$(dirname "$0")/lib.sh"
rounds=${NITRO_ROUNDS:-20}
readonly REGION_MIB=12
cd "$WORK" # fio leaves its files where it stands
truncate -s $((4 * REGION_MIB))M vm.img
# Regions 0 to 2 are written in turn, synced, and verified after every start with the seed of their last writing; the last
# region and what is to be written next keep changing while the server is killed.
seeds=('' '' '')
region() { # region <number> <seed> <options>...
  local number=$1 seed=$2
  shift 2
  fio --name=region --ioengine=nbd --uri="nbd+unix:///vm?socket=$WORK/nbd.sock" --rw=randwrite --bsrange=512-64k --iodepth=16 \
    --verify=crc32c --verify_fatal=1 --offset=$((number * REGION_MIB))m --size=${REGION_MIB}m --randseed="$seed" "$@" >fio.log 2>&1
}
for ((round = 0; round < rounds; round++)); do
  MODE=write-back
  ((round % 4 != 3)) || MODE=write-through
  serve --listen "unix:$WORK/nbd.sock" --dirty-age "$((round % 2 * 60))s"
  for number in 0 1 2; do
    [[ -z ${seeds[number]} ]] || region "$number" "${seeds[number]}" --verify_only ||
      { cat fio.log; echo "round $round, $MODE: region $number is not what fio wrote and synced"; exit 1; }
  done
  number=$((round % 3))
  draw seed 1 1000000000
  region "$number" "$seed" --do_verify=0 --end_fsync=1 || { cat fio.log; echo "fio cannot write"; exit 1; }
  seeds[number]=$seed
  fio --name=churn --ioengine=nbd --uri="nbd+unix:///vm?socket=$WORK/nbd.sock" --rw=randrw --bs=4k --iodepth=32 --fsync=32 \
    --offset=$((3 * REGION_MIB))m --size=${REGION_MIB}m --randseed="$seed" --time_based --runtime=60 >churn.log 2>&1 &
  churn=$!
  draw moment 10 900
  sleep "0.$(printf %03d "$moment")"
  kill -0 "$churn" 2>/dev/null || { cat churn.log; echo "fio ended before the kill"; exit 1; }
  crash
  wait "$churn" || true
done
MODE=write-back
serve --listen "unix:$WORK/nbd.sock"
stop
echo "$rounds kills, seed $NITRO_SEED"

#!/bin/bash
# Killed with -9 while its origin is a bucket (moto) behind delays, errors, lost answers and cuts, every sector checked: NITRO_ROUNDS kills (20), NITRO_SEED replays one.
. "$(dirname "$0")/lib.sh"
peers=$(dirname "$0")/../../scripts/peers
for program in haproxy socat python3; do
  PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || { echo "$program is not installed"; exit 77; }
done
moto=$WORK/moto chaos=$WORK/chaos
MOTO_PORT=$((20000 + RANDOM % 10000)) CHAOS_PORT=$((30000 + RANDOM % 10000))
export MOTO_PORT CHAOS_PORT
eval "$("$peers/moto.sh" start "$moto")"
finally "$peers/moto.sh stop $moto"
unset AWS_ENDPOINT_URL
eval "$("$peers/s3-chaos.sh" start "http://127.0.0.1:$MOTO_PORT" "$chaos")"
finally "$peers/s3-chaos.sh stop $chaos"
unset AWS_ENDPOINT_URL
export no_proxy=127.0.0.1
python3 -c "import http.client as h; c = h.HTTPConnection('127.0.0.1', $MOTO_PORT); c.request('PUT', '/bucket'); assert c.getresponse().status == 200"
uri="s3://bucket/vm?endpoint=http://127.0.0.1:$CHAOS_PORT&region=us-east-1"
"$NITRO" s3 init "$uri" --size 36M --object-size 256K

# What the store does to requests changes every few seconds. A lost answer costs a client 15 s.
disturb() {
  while sleep 3; do
    case $((RANDOM % 4)) in
      0) set -- 0 0 0 ;;
      1) set -- 20 10 0 ;;
      2) set -- 5 30 1 ;;
      3) set -- 50 3 2 ;;
    esac
    "$peers/s3-chaos.sh" set delay "$1" "$chaos"
    "$peers/s3-chaos.sh" set e503 "$2" "$chaos"
    "$peers/s3-chaos.sh" set lost "$3" "$chaos"
  done
}
disturb &
finally "kill $! 2>/dev/null"
python3 "$(dirname "$0")/kill9.py" --nitro "$NITRO" --work "$WORK" --rounds "${NITRO_ROUNDS:-20}" --seed "$NITRO_SEED" --s3 "$uri"

#!/bin/bash
# Killed with -9 while its origin is a bucket (moto) behind delays, errors, lost answers, cuts and outages, every sector checked: NITRO_ROUNDS kills (20), NITRO_SEED replays one.
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

# What the store does to requests changes every few seconds. A lost answer costs a client 15 s, as a request that does not arrive.
disturb() {
  while sleep 3; do
    case $((RANDOM % 9)) in
      0 | 1) set -- 0 0 0 0 0 ;;
      2) set -- 20 10 0 0 0 ;;
      3) set -- 5 30 1 0 0 ;;
      4) set -- 50 3 2 0 0 ;;
      5) set -- 5 0 0 20 0 ;;
      6) set -- 0 5 0 5 2 ;;
      7) set -- 100 0 1 1 1 ;;
      8) # An outage: it answers nothing but 503, and then closes all connections.
        "$peers/s3-chaos.sh" set e503 100 "$chaos"
        sleep $((RANDOM % 10))
        set -- 0 0 0 100 0 ;;
    esac
    local value key
    for key in delay e503 lost reset cut; do
      value=$1
      shift
      "$peers/s3-chaos.sh" set "$key" "$value" "$chaos"
    done
  done
}
disturb &
finally "kill $! 2>/dev/null"
python3 "$(dirname "$0")/kill9.py" --nitro "$NITRO" --work "$WORK" --rounds "${NITRO_ROUNDS:-20}" --seed "$NITRO_SEED" --s3 "$uri"

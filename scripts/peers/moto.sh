#!/bin/bash
# moto: an S3 server in memory (Python, one process). One request at a time (moto-server.py), so that its conditional puts are atomic.
#   moto.sh start [DIR] | stop [DIR];  MOTO_PORT=17481; pip install 'moto[server]'
set -euo pipefail
wipe() { # removes only a folder that start made
    [ -e "$dir" ] || return 0
    [ -e "$dir/.peer" ] || { echo "${0##*/}: $dir exists and was not made by this script" >&2; exit 5; }
    rm -rf "$dir"
}
cmd=${1:-start}; dir=${2:-/tmp/peer-moto}; port=${MOTO_PORT:-17481}; bin=$(dirname "$(readlink -f "$0")")/moto-server.py
alive() { [ -r "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; }
case $cmd in
stop) alive && kill "$(cat "$dir/pid")" || true; wipe; exit 0;;
start) ;;
*) echo "usage: $0 start|stop [DIR]" >&2; exit 2;;
esac
alive && { echo "moto.sh: $dir already runs" >&2; exit 4; }
python3 -c "import moto.server" 2>/dev/null || { echo "moto.sh: moto is not installed: pip install 'moto[server]'" >&2; exit 3; }
wipe; mkdir -p "$dir"; touch "$dir/.peer"
"$bin" "$port" >"$dir/log" 2>&1 </dev/null & echo $! >"$dir/pid"
for i in $(seq 150); do
    alive || { cat "$dir/log" >&2; exit 1; }
    (exec 9<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break; sleep 0.2
    [ "$i" -lt 150 ] || { echo "moto.sh: no answer in 30 s; see $dir/log" >&2; exit 1; }
done
echo "export AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_ACCESS_KEY_ID=peer AWS_SECRET_ACCESS_KEY=peersecret AWS_DEFAULT_REGION=us-east-1"

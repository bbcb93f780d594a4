# shellcheck shell=bash
# What the scenarios share that run guest-iscsid.sh in a virtual machine. Sourced, after lib.sh.
folder=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")")
export PATH=$PATH:/usr/sbin:/sbin
for program in iscsid iscsiadm dmsetup; do
  command -v "$program" >/dev/null || { echo "no $program (packages open-iscsi and dmsetup)"; exit 77; }
done
cc -O1 -static -o "$WORK/checked" "$folder/checked.c"
truncate -s 64M "$WORK/vm.img"

# line_of <file>: its first line, once it is there.
line_of() {
  until [[ -s $1 ]]; do sleep 0.05; done
  head -1 "$1"
}

# set_epoch <number>: what the guest is told of crashes; see checked.c.
set_epoch() { echo "$1" >"$WORK/epoch.new" && mv "$WORK/epoch.new" "$WORK/epoch"; }
set_epoch 0
python3 "$folder/epoch.py" "$WORK/epoch" >"$WORK/epoch.port" &
finally "kill $! 2>/dev/null"
epoch_port=$(line_of "$WORK/epoch.port")

vm=
# start_guest <ports> <seconds until a lost path fails its requests> <options of vm-run>...
start_guest() {
  local ports=$1 timeout=$2
  shift 2
  "$folder/../../scripts/vm-run" -m iscsi_tcp -m sd_mod -m crc32c_generic -p iscsid -p iscsiadm -f "$WORK/checked" -e PORTS="$ports" \
    -e TIMEOUT="$timeout" -e EPOCH="$epoch_port" -e SEED="$NITRO_SEED" "$@" "$folder/guest-iscsid.sh" >"$WORK/console" 2>&1 &
  vm=$!
  finally "kill $vm 2>/dev/null"
}

# await <seconds> <command>...: until the command succeeds; the guest must run.
await() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    kill -0 "$vm" 2>/dev/null || { tail -40 "$WORK/console"; echo "the guest ended"; exit 1; }
    ((SECONDS < until)) || { tail -40 "$WORK/console"; echo "waited too long for: $*"; exit 1; }
    sleep 0.1
  done
}

progress() { grep -c '^progress' "$WORK/console" || true; }
has_progressed() { (($(progress) >= $1)); }
# await_progress <lines>: until the guest has checked so much more.
await_progress() { await 300 has_progressed $(($(progress) + $1)); }

# end_guest: the guest checks all sectors and ends.
end_guest() {
  set_epoch -1
  local code=0
  wait "$vm" || code=$?
  ((code == 0)) || { tail -40 "$WORK/console"; echo "the guest ended with $code"; exit 1; }
  grep -aE '^(guest|checked):' "$WORK/console"
}

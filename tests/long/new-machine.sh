#!/bin/bash
# A new machine (a Debian in a chroot) from the package to the upgrade, under a virtual machine: page, alerts, a dead disk, a new SSD.
# Everything an operator types is printed, and kept in target/new-machine.txt; the page is kept as target/new-machine.png.
skip() { echo "$*"; exit 77; }
[[ $(id -u) == 0 ]] || skip "needs root"
if [[ -z ${NEW_MACHINE_INSIDE:-} ]]; then
  # Mounts and a network of its own: the page is on its usual port, whatever else this machine runs.
  unshare --net --mount --propagation private true 2>/dev/null || skip "no namespace can be made here"
  NEW_MACHINE_INSIDE=yes exec unshare --net --mount --propagation private bash "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.." || exit
export PATH=$PATH:/usr/sbin:/sbin
for program in losetup prometheus promtool ip curl python3 dpkg-deb objdump; do
  command -v "$program" >/dev/null || skip "needs $program: run scripts/setup-long"
done
losetup -f >/dev/null || skip "no loop device can be had"
readonly machine=$WORK/machine transcript=$PWD/target/new-machine.txt picture=$PWD/target/new-machine.png
readonly alerts_port=9093 end_port=8000 page=http://127.0.0.1:9470
base=$(scripts/make-base) || skip "debootstrap makes no Debian here"
: >"$transcript"
ip link set lo up

step() { say "" "== $*"; }
say() { printf '%s\n' "$@" | tee -a "$transcript"; }
fail() {
  say "FAILED: $*"
  tail -n 15 "$WORK/console" "$WORK/log" 2>/dev/null | tee -a "$transcript"
  exit 1
}
inside() { chroot "$machine" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root NITRO_CONTROL=/run/nitro/nitro.control COLUMNS=100 "$@"; }
# operator COMMAND...: what the operator types, and what is said.
operator() {
  say "# $*"
  inside "$@" 2>&1 | tee "$WORK/said" | tee -a "$transcript" || fail "$1 fails"
}
# eventually SECONDS WHAT COMMAND...: waits until the command succeeds.
eventually() {
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < until)) || fail "not in time: $what"
    sleep 0.5
  done
}
background=()
# later COMMAND...: runs it until the end.
later() {
  "$@" >>"$WORK/background" 2>&1 </dev/null &
  background+=($!)
}
finally 'rm -rf --one-file-system "$machine"'
finally 'umount "$machine/proc" "$machine/sys" "$machine/dev"; losetup -d "$disk"; losetup -d "$old_ssd"; losetup -d "$new_ssd"'
finally '[[ ${#background[@]} == 0 ]] || kill "${background[@]}"; wait "${background[@]}"'
finally '[[ -z $guest ]] || { kill "$guest" && wait "$guest"; } 2>/dev/null'
finally '[[ -z $server ]] || { kill -9 "$server"; wait "$server"; server=; } 2>/dev/null'
guest='' disk='' old_ssd='' new_ssd=''

# The machine: Debian, a large slow disk and a small SSD, which are loop devices of this one.
cp -a "$base" "$machine"
mount -t tmpfs tmpfs "$machine/dev"
for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
  IFS=: read -r name major minor <<<"$node"
  mknod -m 666 "$machine/dev/$name" c "$major" "$minor"
done
mount -t proc proc "$machine/proc"
mount --bind /sys "$machine/sys"
# plug NAME DEVICE: the device is the machine's /dev/NAME.
plug() {
  rm -f "$machine/dev/$1"
  mknod -m 660 "$machine/dev/$1" b $((16#$(stat -c %t "$2"))) $((16#$(stat -c %T "$2")))
  chgrp 6 "$machine/dev/$1" # disk
}
device() { truncate -s "$2" "$WORK/$1" && losetup -f --show "$WORK/$1"; }
disk=$(device disk 256M)
old_ssd=$(device old-ssd 96M)
new_ssd=$(device new-ssd 128M)
plug sdb "$disk"
plug nvme0n1 "$old_ssd"
# sizelimit DEVICE BYTES: the device loses its sectors beyond that, and has them again with 0 (lo_sizelimit of struct loop_info64).
sizelimit() {
  python3 - "$1" "$2" <<'P'
import fcntl, struct, sys
with open(sys.argv[1], "rb", buffering=0) as device:
    info = bytearray(232)
    fcntl.ioctl(device, 0x4C05, info)
    struct.pack_into("=Q", info, 32, int(sys.argv[2]))
    fcntl.ioctl(device, 0x4C04, info)
P
}

command=$(sed -n 's/^ExecStart=//p' packaging/nitro.service)
# start: what `systemctl start nitro` does: the unit's command as the unit's user in the unit's groups.
start() {
  say "# systemctl start nitro"
  inside mkdir -p /run/nitro /var/lib/nitro
  inside chown nitro:nitro /run/nitro /var/lib/nitro
  : >"$WORK/ready"
  # shellcheck disable=SC2086  # the unit's command line has words
  chroot --userspec="$(inside id -u nitro):$(inside id -g nitro)" --groups=6 "$machine" /usr/bin/env -i PATH=/usr/bin:/bin \
    RUNTIME_DIRECTORY=/run/nitro STATE_DIRECTORY=/var/lib/nitro $command >"$WORK/ready" 2>>"$WORK/log" &
  server=$!
  eventually 60 "the server is ready" grep -q '^ready' "$WORK/ready"
  say "$(grep '^ready' "$WORK/ready")"
}
end_server() {
  say "# systemctl stop nitro"
  kill "$server"
  wait "$server" || fail "the server ends with $?"
  server=
}
figure() { inside nitro status -o json | python3 -c "import json, sys; s = json.load(sys.stdin); print($1)"; }
holds() { [[ $(figure "$1") == True ]]; }

step "Install the package"
old=$(VERSION=0.0.9 scripts/make-deb "$WORK/debs")
new=$(scripts/make-deb "$WORK/debs")
cp "$old" "$new" "$machine/root/"
operator dpkg -i "/root/$(basename "$old")"

step "Edit three lines"
cp "$machine/etc/nitro/nitro.toml" "$WORK/before.toml"
sed -i -e 's#^path = .*#path = "/dev/nvme0n1"#' -e 's#^size = .*#size = "96M"#' -e 's#^origin = .*#origin = "/dev/sdb"#' "$machine/etc/nitro/nitro.toml"
changes=$(diff "$WORK/before.toml" "$machine/etc/nitro/nitro.toml" || true)
say "$changes"
[[ $(grep -c '^>' <<<"$changes") == 3 ]] || fail "other than three lines are changed"
operator nitro check /etc/nitro/nitro.toml

step "Start"
start
operator nitro doctor /dev/sdb /dev/nvme0n1

step "Monitoring: Prometheus with the package's alerts, and somebody who gets them"
cat >"$WORK/alerts.py" <<'P'
import datetime, http.server, json, sys
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        for alert in json.loads(self.rfile.read(int(self.headers["Content-Length"]))):
            now = datetime.datetime.now(datetime.timezone.utc).isoformat()
            state = "resolved" if alert["endsAt"] < now else "firing"
            print(alert["labels"]["alertname"], alert["labels"]["severity"], state, alert["annotations"]["summary"], flush=True)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *words):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
P
cat >"$WORK/prometheus.yml" <<P
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$machine/usr/share/nitro/prometheus/nitro.rules.yml]
alerting: {alertmanagers: [{static_configs: [{targets: ["127.0.0.1:$alerts_port"]}]}]}
scrape_configs: [{job_name: nitro, static_configs: [{targets: ["127.0.0.1:9470"]}]}]
P
python3 "$WORK/alerts.py" "$alerts_port" >"$WORK/alerts" 2>&1 &
background+=($!)
later prometheus --config.file="$WORK/prometheus.yml" --storage.tsdb.path="$WORK/tsdb" --web.listen-address=127.0.0.1:9090
prometheus_has() { curl -s "http://127.0.0.1:9090/api/v1/query" --data-urlencode "query=$1" | grep -q '"value"'; }
eventually 60 "Prometheus scrapes" prometheus_has 'up{job="nitro"} == 1'
is_firing() { prometheus_has "ALERTS{alertname=\"$1\",alertstate=\"firing\"}"; }
is_quiet() { ! prometheus_has 'ALERTS{alertstate="firing"}'; }
# got NAME: waits for an alert, and shows what was sent.
got() {
  eventually 180 "alert $1" grep -q "^$1 [a-z]* firing" "$WORK/alerts"
  say "alert: $(grep -m1 "^$1 " "$WORK/alerts")"
}
say "up"

# vm STEP: the virtual machine, with the volume as its only disk; what it says goes to $WORK/console.
vm() {
  : >"$WORK/console"
  scripts/vm-run -m virtio_blk -m ext4 -p mkfs.ext4 -p fsck.ext4 -e STEP="$1" -e PORT="$end_port" -n "$machine/run/nitro/nbd.sock,vm" \
    tests/long/guest-new-machine.sh >"$WORK/console" 2>&1 &
  guest=$!
}
vm_ends() {
  local code=0
  wait "$guest" || code=$?
  guest=
  [[ $code == 0 ]] || fail "the virtual machine ends with $code"
  say "vm: $(grep -E '^(installed|checked)' "$WORK/console")"
}
rounds() { grep -c '^round' "$WORK/console" || true; }
# vm_goes_on: waits until it has done more.
vm_goes_on() {
  local target=$(($(rounds) + 4))
  for ((wait = 0; $(rounds) < target; wait++)); do
    kill -0 "$guest" 2>/dev/null || fail "the virtual machine has ended"
    ((wait < 240)) || fail "the virtual machine does not get on"
    sleep 0.5
  done
  say "vm: round $(rounds)"
}
mkdir "$WORK/signals"

step "Attach a virtual machine"
vm install
vm_ends

step "Reboot it"
later python3 -m http.server --bind 127.0.0.1 --directory "$WORK/signals" "$end_port"
before=$(figure "s['volumes'][0]['origin_reads']")
vm work
eventually 180 "booted" grep -q '^booted' "$WORK/console"
say "vm: $(grep '^booted' "$WORK/console")"
vm_goes_on
operator nitro status
[[ $(figure "s['volumes'][0]['read_hit_extents'] > 500") == True ]] || fail "the second boot hits nothing"
say "reads of the disk for the second boot: $(($(figure "s['volumes'][0]['origin_reads']") - before))"

step "See the page"
# The page in a browser; its text goes to $WORK/page.
look() {
  timeout 120 chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$WORK/chromium" --hide-scrollbars \
    --window-size=1100,1700 --virtual-time-budget=10000 "$@" "$page/" 2>>"$WORK/background"
}
see() {
  if command -v chromium >/dev/null; then
    look --dump-dom >"$WORK/dom"
    python3 -c "import html, re, sys; print(html.unescape(re.sub('<[^>]+>', ' ', re.sub('(?s)<(script|style).*?</\\\\1>', '', sys.stdin.read()))))" <"$WORK/dom" |
      tr -s ' \n' ' ' >"$WORK/page"
  else
    curl -s "$page/faults.json" >"$WORK/page"
  fi
}
curl -s "$page/" | grep -q '<!doctype html>' || fail "no page"
if command -v chromium >/dev/null; then
  see
  grep -q 'data-ready' "$WORK/dom" || fail "the page is not ready"
  grep -q 'vm' "$WORK/page" || fail "the page does not show the volume"
  look --screenshot="$picture" >/dev/null
  say "$page/ shows: $(cut -c 1-300 "$WORK/page")" "(a picture is in target/$(basename "$picture"))"
else
  say "skipped: the browser: chromium is not installed"
fi
eventually 60 "no alert" is_quiet

step "Kill the origin: the disk loses its sectors"
operator nitro warm vm
operator nitro set volume.vm.mode write-back
sizelimit "$disk" 512
vm_goes_on
got NitroDestageFailing
operator nitro status
grep -q 'destage has been failing' "$WORK/said" || fail "the status does not say it"
see
grep -q 'destage has been failing' "$WORK/page" || fail "the page does not say it: $(cut -c 1-300 "$WORK/page")"
say "page: $(grep -o 'destage has been failing[^.]*\.[^.]*\.' "$WORK/page" | head -1)"
vm_goes_on

step "The disk is back"
sizelimit "$disk" 0
eventually 120 "up to date" holds "s['volumes'][0]['destage_error'] is None and s['volumes'][0]['dirty_bytes'] < 8 << 20"
operator nitro flush vm --wait
eventually 120 "no alert" is_quiet
operator nitro set volume.vm.mode write-through
vm_goes_on

step "The SSD fails"
sizelimit "$old_ssd" 512
got NitroPassThrough
vm_goes_on
operator nitro status
grep -q 'pass-through' "$WORK/said" || fail "the status does not say it"

step "Replace it: a larger one, under the same name"
end_server
plug nvme0n1 "$new_ssd"
operator nitro set cache.fast.size 112M --file /etc/nitro/nitro.toml
start
vm_goes_on
eventually 60 "caching" holds "s['caches'][0]['health'] == 'caching' and s['caches'][0]['cached_bytes'] > 0"
operator nitro cache resize fast --size 128M --persist
grep '^size' "$machine/etc/nitro/nitro.toml" | tee -a "$transcript"
eventually 120 "no alert" is_quiet

step "Upgrade"
operator dpkg -i --force-confold "/root/$(basename "$new")"
kill -0 "$server" || fail "the upgrade ends the server"
vm_goes_on
cached=$(figure "s['caches'][0]['cached_bytes']")
end_server
operator nitro cache upgrade /dev/nvme0n1
start
eventually 60 "with its contents" holds "not s['caches'][0]['loading'] and s['caches'][0]['cached_bytes'] > $cached // 2"
vm_goes_on
operator nitro volume list

step "The end"
touch "$WORK/signals/end"
vm_ends
end_server
! grep -E ' panicked' "$WORK/log" || fail "a panic"
fsck.ext4 -f -n "$disk" >"$WORK/fsck" 2>&1 || fail "the disk without Nitro: $(cat "$WORK/fsck")"
say "the disk alone, without Nitro: a clean file system"
say "a new machine from the package to the upgrade; transcript in target/new-machine.txt"

#!/bin/bash
# Run by systemd in a container that scripts/test-package boots: the package's units under a systemd that is PID 1.
# /results is a folder of the host: what fails is in its file "log", and its file "passed" is there if nothing failed.
set -euo pipefail
exec >/results/log 2>&1
fail() {
  echo "FAILED: $*"
  systemctl status --no-pager --full nitro.service nitro.socket || true
  journalctl --no-pager -n 40 -u nitro || true
  exit 1
}
show() { systemctl show --value -p "$1" nitro.service; }
readonly uri='nbd+unix:///vm?socket=/run/nitro/nbd.sock'
# until_active RESTARTS: waits until the server is ready, after that many restarts.
until_active() {
  for _ in $(seq 300); do
    [[ $(show ActiveState) != active || $(show NRestarts) -lt $1 ]] || return 0
    sleep 0.1
  done
  fail "nitro.service is $(show ActiveState) after $(show NRestarts) restarts"
}
# A socket whose service does not start accepts connections that are never answered.
same() { timeout 60 nbdcopy "$uri" /tmp/back && cmp -n "$(stat -c %s /tmp/data)" /tmp/data /tmp/back; }

[[ $(cat /proc/1/comm) == systemd ]] || fail "PID 1 is $(cat /proc/1/comm)"
until_active 0
pid=$(show MainPID)
[[ $(stat -c %U "/proc/$pid") == nitro ]] || fail "it runs as $(stat -c %U "/proc/$pid")"
grep -q '^CapEff:\s*0*$' "/proc/$pid/status" || fail "it has capabilities"
head -c 4M /dev/urandom >/tmp/data
nbdcopy --flush /tmp/data "$uri" || fail "write"
same || fail "read"

# The watchdog: it is satisfied by a server that answers, and restarts one that does not.
sleep 5
[[ $(show NRestarts) == 0 ]] || fail "the watchdog restarted a server that works"
kill -STOP "$pid"
until_active 1
same || fail "after the watchdog"

# Killed: started again, with all that was flushed.
kill -KILL "$(show MainPID)"
until_active 2
same || fail "after SIGKILL"

# Killed while it is written to: the cache is warm, although the unit has RemoveIPC=yes.
hits() { NITRO_CONTROL=/run/nitro/nitro.control nitro status -o json | grep -m1 "\"$1\":" | tr -dc 0-9; }
NITRO_CONTROL=/run/nitro/nitro.control nitro volume set vm --mode write-through >/dev/null || fail "write-through"
for _ in 1 2; do nbdcopy "$uri" /tmp/back || fail "read"; sleep 2; done
# What was written less than 0.2 s before is read again.
head -c 16K /tmp/data >/tmp/part
nbdcopy --flush /tmp/part "$uri" || fail "write"
[[ -n $(ls /run/nitro/crash) && ! -e /dev/shm/nitro-$(id -u nitro) ]] || fail "the record of writes is not in /run/nitro"
kill -KILL "$(show MainPID)"
until_active 3
same || fail "after SIGKILL in write-through"
found=$(hits read_hit_extents) missed=$(hits read_miss_extents)
((found * 100 >= (found + missed) * 95)) || fail "$found hits and $missed misses after SIGKILL"

printf '[volume.second]\norigin = "/srv/disks/second.img"\n' >>/etc/nitro/nitro.toml
systemctl reload nitro || fail "reload"
NITRO_CONTROL=/run/nitro/nitro.control nitro volume list | grep -q second || fail "reload adds no volume"

# Stopped: the dirty data are in the origin. Then the socket starts it.
systemctl stop nitro.service || fail "stop"
[[ $(show Result) == success ]] || fail "stop: $(show Result)"
cmp -n "$(stat -c %s /tmp/data)" /tmp/data /srv/disks/guest.img || fail "the origin after the stop"
systemctl start nitro.socket || fail "start the socket"
[[ $(show ActiveState) == inactive ]] || fail "the server runs before its first client"
same || fail "socket activation"
[[ $(show ActiveState) == active ]] || fail "the socket started nothing"
touch /results/passed

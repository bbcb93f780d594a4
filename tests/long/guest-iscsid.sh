# Runs in the guest: the kernel's iSCSI initiator with iscsid, which connects again after a connection is lost, and checked.c (busybox sh).
# PORTS: the target's portals; with two, the device is a dm-multipath of both. TIMEOUT: seconds until a lost path fails its requests.
# EPOCH: the port of epoch.py. SEED: what checked.c draws from.
set -e
fail() { echo "guest: $*"; cat /tmp/iscsid; dmesg | tail -20; exit 1; }
mkdir -p /etc/iscsi /run/lock /var/lib/iscsi
ln -s /run /var/run
# iscsid obeys the user root only.
echo root:x:0:0::/:/bin/sh >/etc/passwd
echo InitiatorName=iqn.2026-11.test:guest >/etc/iscsi/initiatorname.iscsi
cat >/etc/iscsi/iscsid.conf <<C
node.startup = manual
node.session.timeo.replacement_timeout = $TIMEOUT
node.conn[0].timeo.login_timeout = 15
node.conn[0].timeo.noop_out_interval = 5
node.conn[0].timeo.noop_out_timeout = 30
C
iscsid -f >/tmp/iscsid 2>&1 &
sleep 1
for port in $PORTS; do
  node="-m node -T iqn.2026-11.nitro:vm -p 10.0.2.2:$port"
  { iscsiadm $node -o new && iscsiadm $node --login; } >/tmp/login 2>&1 || { cat /tmp/login; fail "no login at port $port"; }
done
device=/dev/sda disks=sda mode=crashes
case $PORTS in *' '*) device=/dev/dm-0 disks='sda sdb' mode=paths ;; esac
for disk in $disks; do
  for _ in $(seq 100); do [ -b "/dev/$disk" ] && break; sleep 0.2; done
  [ -b "/dev/$disk" ] || fail "no disk $disk"
done

# The kernel disables the write cache by MODE SELECT, reads the mode page again, and enables it.
type=/sys/class/scsi_disk/$(basename "$(readlink -f /sys/block/sda/device)")/cache_type
for cache in 'write through' 'write back'; do
  { echo "$cache" >"$type" && [ "$(cat "$type")" = "$cache" ]; } || fail "the write cache is set to $(cat "$type"), not $cache"
done

# As multipathd does: a path whose session is up again is used again. Prints the state of the paths when it changes.
watch_paths() {
  set +e
  last=
  while sleep 1; do
    for disk in $disks; do
      if [ "$(cat /sys/block/$disk/device/state)" = running ]; then dmsetup message paths 0 "reinstate_path $(cat /sys/block/$disk/dev)"; fi
    done
    now=$(dmsetup status paths | grep -oE '[0-9]+:[0-9]+ [AF]' | tr '\n' ' ')
    [ "$now" = "$last" ] || echo "paths: $now"
    last=$now
  done
}

if [ $mode = paths ]; then
  cmp /sys/block/sda/device/vpd_pg83 /sys/block/sdb/device/vpd_pg83 || fail "the paths lead to different units"
  echo "guest: unit $(cat /sys/block/sda/device/wwid) by two paths"
  echo "0 $(cat /sys/block/sda/size) multipath 1 queue_if_no_path 0 1 1 round-robin 0 2 1 $(cat /sys/block/sda/dev) 1 $(cat /sys/block/sdb/dev) 1" |
    dmsetup create --noudevrules --noudevsync paths || fail "no multipath device"
  watch_paths &
fi
/files/checked "$device" 10.0.2.2 "$EPOCH" $mode "$SEED" || fail "a check failed"
[ $mode = crashes ] || echo "guest: $(dmsetup status paths)"
echo "guest: $(dmesg | grep -c 'detected conn error') connections lost"

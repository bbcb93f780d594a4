#!/bin/bash
# A kernel filesystem on the volume: nbdfuse, a loop device, mkfs, a copied tree, a clean check.
. "$(dirname "$0")/lib.sh"
[[ $(id -u) == 0 ]] || skip "needs root for loop devices"
[[ -e /dev/fuse && -e /dev/loop-control ]] || skip "needs /dev/fuse and loop devices"
command -v nbdfuse >/dev/null || skip "needs nbdfuse"
mnt=$WORK/mnt fuse=$WORK/fuse loop=
mkdir -p "$mnt" "$fuse"
undo() {
  mountpoint -q "$mnt" && umount "$mnt"
  [[ -z $loop ]] || losetup -d "$loop" || true
  mountpoint -q "$fuse" && fusermount3 -u "$fuse" 2>/dev/null || umount "$fuse" 2>/dev/null
  end
}
trap 'undo || true' EXIT
truncate -s 400M "$WORK/vm.img"
serve
nbdfuse "$fuse" "$uri" &
for _ in $(seq 100); do [[ -e $fuse/nbd ]] && break; sleep 0.05; done
for fs in ext4 xfs; do
  loop=$(losetup -f --show "$fuse/nbd") || skip "no loop device can be had"
  case $fs in
    ext4) mkfs.ext4 -q -F "$loop" ;;
    xfs) grep -qw xfs /proc/filesystems || modprobe xfs 2>/dev/null || { losetup -d "$loop"; loop=; echo "no xfs in this kernel"; continue; }
      mkfs.xfs -q -f "$loop" ;;
  esac
  mount "$loop" "$mnt"
  mkdir "$mnt/tree"
  find /usr/share/doc /usr/include -xdev -type f -print0 >"$WORK/files"
  head -z -n 3000 "$WORK/files" | xargs -0 cp --parents -t "$mnt/tree"
  rm -rf "$mnt/tree/usr/include/linux"
  sync
  umount "$mnt"
  mount "$loop" "$mnt"
  diff -r "$mnt/tree/usr/share/doc" /usr/share/doc >"$WORK/diff" || true
  if grep -v '^Only in /usr/share/doc' "$WORK/diff"; then echo "$fs: files differ"; exit 1; fi
  fsx=$(command -v fsx || echo target/tools/bin/fsx)
  operations=1000
  [[ -z ${LONG:-} ]] || operations=100000
  if [[ -x $fsx ]]; then "$fsx" -q -N "$operations" -P "$WORK" "$mnt/fsx.dat"; else echo "no fsx: skipped it"; fi
  umount "$mnt"
  case $fs in
    ext4) fsck.ext4 -f -n "$loop" ;;
    xfs) xfs_repair -n "$loop" ;;
  esac
  losetup -d "$loop"
  loop=
done
umount "$fuse"
stop

#!/bin/bash
# qemu-img and qemu-io: info, compare, convert, odd offsets, discard, write-zeroes.
. "$(dirname "$0")/lib.sh"
real_volume 48
cp "$WORK/vm.img" "$WORK/before.img"
serve
qemu-img info "$uri" | grep -q 'virtual size: 48 MiB'
qemu-img compare -f raw -F raw "$WORK/before.img" "$uri"
qemu-img convert -f raw -O qcow2 "$uri" "$WORK/copy.qcow2"
qemu-img compare -f qcow2 -F raw "$WORK/copy.qcow2" "$uri"
# The same writes to a file beside it; then both must be the same.
changes=(-c 'write -P 0x11 1 1' -c 'write -P 0x22 8191 2' -c 'write -P 0x33 12345 50000' -c 'write -P 0x44 1000000 3'
  -c 'write -z 65536 65536' -c 'write -z 100001 70001' -c 'write -z -u 2097152 1048576' -c 'write -P 0x55 50331647 1'
  -c 'write -f -P 0x66 1048576 4096' -c 'aio_write -P 0x77 3145728 262144' -c 'aio_flush' -c 'flush')
checks=(-c 'read -P 0x11 1 1' -c 'read -P 0x22 8191 2' -c 'read -P 0x33 12345 50000' -c 'read -P 0 100001 70001'
  -c 'read -P 0x55 50331647 1' -c 'read -P 0x77 3145728 262144' -c 'read 50331646 2')
qemu-io -f raw "${changes[@]}" "$uri"
qemu-io -f raw "${changes[@]}" "$WORK/before.img"
for _ in 1 2; do
  qemu-io -f raw "${checks[@]}" "$uri" | tee "$WORK/checks"
  if grep -q 'verification failed' "$WORK/checks"; then exit 1; fi
  qemu-img compare -f raw -F raw "$WORK/before.img" "$uri"
done
qemu-io -f raw -c 'discard 4194304 1048576' -c 'discard 4097 5000' "$uri"
if qemu-io -f raw -c 'read 50331648 1' "$uri"; then echo "a read past the end succeeded"; exit 1; fi
stop

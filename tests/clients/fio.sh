#!/bin/bash
# fio: random reads and writes with verification over four connections, odd sizes among them.
. "$(dirname "$0")/lib.sh"
real_volume 128
serve
seconds=6
[[ -z ${LONG:-} ]] || seconds=120
cd "$WORK" # fio leaves its state files where it stands
for _ in $(seq $((${LONG:+20} + 2))); do
  fio --ioengine=nbd --uri="$uri" --verify=crc32c --verify_fatal=1 --randrepeat=0 --iodepth=16 --group_reporting \
    --size=32m \
    --name=a --offset=0 --rw=randrw --bs=8k \
    --name=b --offset=32m --rw=randwrite --bsrange=512-64k \
    --name=c --offset=64m --rw=randwrite --bs=4k \
    --name=d --offset=96m --rw=readwrite --bs=128k
done
fio --ioengine=nbd --uri="$uri" --name=mixed --rw=randrw --bs=8k --iodepth=32 --numjobs=4 --time_based \
  --runtime="$seconds" --random_distribution=zipf:1.1 --norandommap --group_reporting
[[ $(status 's["caches"][0]["corrupt_extents"]') == 0 ]]
stop

# The guest's part of scripts/bench-peers: one of the kernel's caches over /dev/vda (the volume) and /dev/vdb (the SSD);
# /dev/vdc has the contents of writes. PEER is bcache or dm-cache, MODE writethrough or writeback, STEPS names of traces,
# `restart` and `make`. The script ends without stopping the cache, as a power cut does.
META_SECTORS=4096

case $PEER in
bcache)
  make_cache() { make-bcache --wipe-bcache -b 64k -C /dev/vdb -B /dev/vda >/dev/null; }
  start_cache() {
    echo /dev/vdb >/sys/fs/bcache/register
    echo /dev/vda >/sys/fs/bcache/register
    tries=0
    while [ ! -e /dev/bcache0 ]; do
      tries=$((tries + 1)); [ $tries -lt 30 ] || { echo "no /dev/bcache0"; exit 1; }
      sleep 1
    done
    set=$(basename "$(readlink /sys/block/bcache0/bcache/cache)")
    # An emulated disk is slow enough to be taken for a congested one, which is then bypassed.
    echo 0 >/sys/fs/bcache/"$set"/congested_read_threshold_us
    echo 0 >/sys/fs/bcache/"$set"/congested_write_threshold_us
    echo "$MODE" >/sys/block/bcache0/bcache/cache_mode
    device=/dev/bcache0
  }
  stop_cache() { echo 1 >/sys/block/bcache0/bcache/stop; sleep 1; echo 1 >/sys/fs/bcache/"$set"/stop; sleep 3; }
  # Its own counters are updated every 22 seconds. Each miss reads its block from the volume, and nothing else does.
  hits() { echo 0; }
  ;;
dm-cache)
  make_cache() { dd if=/dev/zero of=/dev/vdb bs=4k count=1 conv=fsync 2>/dev/null; }
  start_cache() {
    dmsetup create meta --table "0 $META_SECTORS linear /dev/vdb 0"
    dmsetup create fast --table "0 $(($(cat /sys/block/vdb/size) - META_SECTORS)) linear /dev/vdb $META_SECTORS"
    dmsetup mknodes
    # Blocks of 32 KiB, the least.
    dmsetup create cached --table "0 $(cat /sys/block/vda/size) cache /dev/mapper/meta /dev/mapper/fast /dev/vda 64 1 $MODE smq 0"
    dmsetup mknodes
    device=/dev/mapper/cached
  }
  stop_cache() { dmsetup remove cached; dmsetup remove fast; dmsetup remove meta; }
  # start length cache metadata-block-size metadata-used/total block-size used/total read-hits ...
  hits() { dmsetup status cached | cut -d ' ' -f 8; }
  ;;
esac

tell() {
  sync; sleep 2
  echo "step $step hits $(hits) origin_read $(awk '{ print $3 * 512 }' /sys/block/vda/stat) ssd_written $(awk '{ print $7 * 512 }' /sys/block/vdb/stat)"
}

for step in $STEPS; do
  case $step in
  make) make_cache; start_cache; tell ;;
  start) start_cache; tell ;;
  restart) stop_cache; start_cache; tell ;;
  *) replay "$device" "/files/$step.trace" /dev/vdc || exit 1; tell ;;
  esac
done

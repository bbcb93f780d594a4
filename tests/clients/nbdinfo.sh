#!/bin/bash
# nbdinfo: list, sizes, contexts, the map of what is cached.
. "$(dirname "$0")/lib.sh"
real_volume 32
serve
nbdinfo --list "$uri" | tee "$WORK/list"
grep -q 'export="vm"' "$WORK/list"
[[ $(nbdinfo --size "$uri") == $((32 << 20)) ]]
nbdinfo --json "$uri" >"$WORK/info.json"
python3 - "$WORK/info.json" <<'P'
import json, sys
e = json.load(open(sys.argv[1]))["exports"][0]
assert "base:allocation" in e["contexts"] and "nitro:cache" in e["contexts"], e["contexts"]
for can in ("can_fua", "can_flush", "can_multi_conn", "can_trim", "can_zero", "can_cache", "can_df", "can_fast_zero"):
    assert e[can], can
assert not e["is_read_only"] and e["block_size_minimum"] == 1
P
# A megabyte is brought into the cache by NBD_CMD_CACHE; the map shows it.
python3 "$(dirname "$0")/nbd-cache.py" "$socket" vm 1048576 1048576
for _ in $(seq 50); do
  nbdinfo --map=nitro:cache "$uri" >"$WORK/map"
  awk '$1 == 1048576 && $2 == 1048576 && $3 != 0 { found = 1 } END { exit !found }' "$WORK/map" && break
  sleep 0.1
done
cat "$WORK/map"
awk '$1 == 1048576 && $2 == 1048576 && $3 != 0 { found = 1 } END { exit !found }' "$WORK/map"
nbdinfo --map=base:allocation --totals "$uri"
stop
serve --read-only
nbdinfo --is readonly "$uri"
stop

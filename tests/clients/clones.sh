#!/bin/bash
# Two machines' clones of one image of a store, served at once behind one cache and written to at once; kill -9 in between.
. "$(dirname "$0")/lib.sh"
[[ $ORIGIN == cos ]] || skip "only objects of a store have clones"
mib=64 written=$((48 << 20))
real_volume $mib
base=$WORK/vm.img
cos init "$store" --size 2G
cos import "$store" vm "$base"
cos snapshot "$store" vm@golden
for vm in a b; do
  cos clone "$store" vm@golden $vm
  cp "$base" "$WORK/$vm.model"
done
# Both write some of the same.
pieces=()
for at in 0 7 19 30; do
  pieces+=("$WORK/piece.$at")
  dd if="$base" of="${pieces[-1]}" bs=1M skip=$at count=1 status=none
done
head -c 65536 /dev/urandom >"$WORK/piece.noise"
pieces+=("$WORK/piece.noise")

read -r size _ weu <<<"$CACHE"
[[ -z $weu ]] || weu="weu_size = \"$weu\""
cat >"$WORK/nitro.toml" <<E
[server]
listen = ["unix:$socket"]
[cache.c]
path = "$WORK/cache.img"
size = "$size"
mode = "$MODE"
$weu
[volume.a]
origin = "cos:$store#a"
[volume.b]
origin = "cos:$store#b"
[volume.golden]
origin = "cos:$store#vm@golden"
read_only = true
E

export_of() { echo "nbd+unix:///$1?socket=$socket"; }

# both <function> <argument>...: does it for both volumes at once.
both() {
  "$@" a &
  local first=$!
  "$@" b &
  local second=$!
  wait $first
  wait $second
}

draw() { python3 "$(dirname "$0")/clones.py" commands "$1 $2" $written "${pieces[@]}" >"$WORK/$2.commands"; }

# apply <volume> <target>: what was drawn for a volume.
apply() {
  qemu-io -f raw "$2" <"$WORK/$1.commands" >"$WORK/$1.said" 2>&1
  if grep -iE 'fail|error|invalid' "$WORK/$1.said"; then echo "writing to $2 failed"; return 1; fi
}
write_volume() { apply "$1" "$(export_of "$1")"; }
write_model() { apply "$1" "$WORK/$1.model"; }

# Beside the others, where they do not write.
verify() {
  (cd "$WORK" && fio --ioengine=nbd --uri="$(export_of "$1")" --name="$1" --rw=randwrite --bsrange=512-64k --offset=$written \
    --size=$(((mib << 20) - written)) --iodepth=16 --verify=crc32c --verify_fatal=1 --randrepeat=0 >"$WORK/$1.fio")
}

# What fio wrote only fio knows.
learn() {
  nbdcopy "$(export_of "$1")" "$WORK/$1.now"
  dd if="$WORK/$1.now" of="$WORK/$1.model" bs=1M skip=$((written >> 20)) seek=$((written >> 20)) conv=notrunc status=none
}

same() {
  nbdcopy "$(export_of "$1")" "$WORK/$1.now"
  cmp "$WORK/$1.model" "$WORK/$1.now"
}

same_golden() {
  nbdcopy "$(export_of golden)" "$WORK/golden.now"
  cmp "$base" "$WORK/golden.now"
}

# round <name>: both are written to, read back, and compared with files that were written to alike.
round() {
  both draw "$1"
  both verify &
  local verifying=$!
  same_golden &
  local reading=$!
  both write_volume
  wait $verifying
  wait $reading
  both write_model
  both learn
  both same
}

# torn <volume>: of what was being written at a crash, each byte is there or not.
torn() {
  cp "$WORK/$1.model" "$WORK/$1.old"
  write_model "$1"
  nbdcopy "$(export_of "$1")" "$WORK/$1.now"
  python3 "$(dirname "$0")/clones.py" either "$WORK/$1.old" "$WORK/$1.model" "$WORK/$1.now"
  mv "$WORK/$1.now" "$WORK/$1.model"
}

for n in $(seq $((${LONG:+4} + 1))); do
  start --config "$WORK/nitro.toml"
  round "$n"
  # What was flushed is there.
  kill_server
  start --config "$WORK/nitro.toml"
  both same
  same_golden
  cos snapshot "$store" "a@$n" --control "$control"
  cp "$WORK/a.model" "$WORK/a.$n"
  both draw "torn $n"
  (both write_volume >/dev/null 2>&1 || true) &
  writing=$!
  sleep "0.$((RANDOM % 4 + 1))"
  kill_server
  wait $writing
  start --config "$WORK/nitro.toml"
  both torn
  both same
  round "again $n"
  stop
  cos scrub "$store"
done

# stored <object> <file>
stored() {
  cos export "$store" "$1" "$WORK/stored.img" --force
  cmp "$2" "$WORK/stored.img"
}

everything() {
  stored a "$WORK/a.model"
  stored vm "$base"
  stored vm@golden "$base"
  stored a@1 "$WORK/a.1"
}
everything
stored b "$WORK/b.model"
cos delete "$store" b
cos gc "$store" --alive 100
everything
cos fsck "$store"
cos scrub "$store"

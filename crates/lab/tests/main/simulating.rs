//! `nitro-lab sim`: what it prints, refuses, and takes up again.

use crate::support::Place;
use nitro_config::Config;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The SSD alone, without what the server has in front of it.
const BARE: &str = "--ram 0 --sequential-threshold 0";

/// A simulation of the SSD alone, unless the arguments give RAM.
fn json(place: &Place, arguments: &str) -> Value {
    let bare = if arguments.contains("--ram") { "" } else { BARE };
    serde_json::from_str(&place.stdout(&format!("sim -o json {bare} {arguments}"))).unwrap()
}

/// Reads of 32 MiB whose content is there twice.
fn reads(place: &Place) {
    place.stdout("trace synth random reads.parquet --working-set 32M --dedup-ratio 2 --requests 20000");
}

#[test]
fn lru_gives_the_published_misses() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/cloudphysics");
    let place = Place::new();
    for name in ["cloudPhysicsIO.csv", "cloudPhysicsIO.vscsi", "cloudPhysicsIO.oracleGeneral.bin"] {
        let path = folder.join(name);
        if !path.exists() {
            eprintln!("skipped: {} is not there", path.display());
            continue;
        }
        for (objects, misses) in [(128, 99_411), (1024, 94_816)] {
            let told = json(&place, &format!("{} --policy lru --objects {objects}", path.display()));
            assert_eq!((&told["requests"], &told["misses"]), (&113_872.into(), &misses.into()), "{name}");
        }
    }
}

#[test]
fn a_simulation_without_flags_is_the_server_without_flags() {
    let place = Place::new();
    reads(&place);
    let told: Value = serde_json::from_str(&place.stdout("sim -o json reads.parquet --cache-size 1G")).unwrap();
    let config = Config::parse("[cache.c]\npath = \"c\"\n[volume.v]\norigin = \"v\"\n").unwrap();
    let served = config.caches["c"].engine_settings(1 << 30);
    let (manager, simulated) = (served.manager, &told["settings"]);
    let numbers = [
        ("extent_bytes", manager.extent_bytes.into()),
        ("weu_bytes", manager.weu_bytes.into()),
        ("fingerprint_index_percent", manager.fingerprint_index_percent.into()),
        ("staging_bytes", served.staging_bytes),
        ("ram_bytes", served.ram_cache_bytes),
        ("readahead_ram_bytes", served.readahead_ram_bytes),
        ("sequential_bytes", manager.streams.threshold_bytes),
    ];
    numbers.iter().for_each(|(name, value)| assert_eq!(simulated[name].as_u64(), Some(*value), "{name}: {simulated}"));
    assert_eq!((&simulated["dedup"], &simulated["compress"]), (&manager.dedup.into(), &true.into()));
    // Off, it is left out.
    assert!(!manager.patterns && simulated["patterns"].is_null(), "{simulated}");
    assert_eq!(told["settings"]["variant"], "weu");
    // It is of use: what an SSD of 16 MiB holds is read again from RAM.
    let small: Value = serde_json::from_str(&place.stdout("sim -o json reads.parquet --cache-size 16M")).unwrap();
    assert!(small["ram_hits"].as_u64() > Some(1000), "{small}");
    let said = place.failure("sim reads.parquet --cache-size 1G --compress off", 2);
    assert!(said.contains("--compression") && said.contains("none"), "{said}");
    let said = place.failure("sim reads.parquet --sweep size=1G,2G --sweep compress=on,off", 2);
    assert!(said.contains("called compression now"), "{said}");
}

#[test]
fn scripts_find_what_they_rely_on() {
    let place = Place::new();
    reads(&place);
    let told = json(&place, "reads.parquet --cache-size 16M");
    let ratio = |name: &str| told[name].as_f64().unwrap();
    assert!((0.5..1.0).contains(&ratio("read_hit_ratio")) && ratio("dedup_ratio") > 1.3, "{told}");
    assert!(told["ssd_bytes_written"].as_u64() > Some(4 << 20) && told["erasures"].is_u64(), "{told}");
    assert_eq!(told, json(&place, "reads.parquet --cache-size 16M"), "two runs are identical");
    let without = json(&place, "reads.parquet --cache-size 16M --dedup off --compression none");
    assert!(without["read_hit_ratio"].as_f64() < told["read_hit_ratio"].as_f64());
    let timed = json(&place, "reads.parquet --cache-size 16M --load closed:8 --disks 7200:2");
    assert!(timed["pace"]["iops"].as_f64() > Some(100.0), "{timed}");
    assert_eq!(timed["read_hits"], told["read_hits"]);
    let table =
        place.stdout("sim reads.parquet --cache-size 16M --warmup 5s --period 5s --load open:1 --origin-kind cos");
    assert!(table.contains("read hits") && table.contains("reads took") && table.contains("begin_s"), "{table}");
    for policy in ["slru", "mru", "fifo", "clock", "arc", "s3-fifo", "belady"] {
        let told = json(&place, &format!("reads.parquet --policy {policy} --objects 1000"));
        assert!((8000..20_000).contains(&told["misses"].as_u64().unwrap()), "{policy}: {told}");
    }
}

#[test]
fn write_back_saves_the_origin_what_is_written_over() {
    let place = Place::new();
    place.stdout("trace synth zipf zipf.parquet --objects 2000 --object-size 8K --requests 20000 --writes 40");
    let back =
        |more: &str| json(&place, &format!("zipf.parquet --cache-size 32M --mode write-back --dirty-age 9d {more}"));
    for destage in ["elevator", "oldest"] {
        let told = back(&format!("--destage {destage} --dirty-start 20 --dirty-max 30"));
        let (writes, destaged) = (told["writes"].as_u64().unwrap(), told["destaged_extents"].as_u64().unwrap());
        assert!(100 < destaged && destaged < writes / 2, "{destage}: {destaged} of {writes}");
        assert!(told["destage_writes"].as_u64().unwrap() < destaged, "{told}");
        let later = back(&format!("--destage {destage} --dirty-start 50"));
        assert!(
            later["destaged_extents"].as_u64().unwrap() < destaged,
            "what may stay longer is written over more often: {later}"
        );
    }
    assert_eq!(json(&place, "zipf.parquet --cache-size 32M")["destaged_extents"], 0);
    let sweep = place.stdout("sim zipf.parquet --cache-size 32M --mode write-back --sweep dirty-start=20,50");
    assert!(sweep.contains("dirty-start"), "{sweep}");
    // Blocks that are flushed before they are full take more of the SSD.
    let written = |every: u32| back(&format!("--flush-every {every}"))["ssd_bytes_written"].as_u64().unwrap();
    assert!(written(1) > written(0) * 11 / 10, "{} {}", written(1), written(0));
}

#[test]
fn hits_in_ram_are_told_apart() {
    let place = Place::new();
    place.stdout("trace synth zipf zipf.parquet --objects 2000 --object-size 8K --requests 20000");
    let told = json(&place, "zipf.parquet --cache-size 32M --ram 4M");
    let count = |name: &str| told[name].as_u64().unwrap();
    assert!(1000 < count("ram_hits") && count("ram_hits") < count("read_extent_hits") - 1000, "{told}");
    assert_eq!((count("readahead_hits"), &told["settings"]["ram_bytes"]), (0, &(4 << 20).into()));
    let ram = "zipf.parquet --cache-size 32M --ram 4M --sequential-threshold 1M";
    let table = place.stdout(&format!("sim {ram}"));
    assert!(table.contains("RAM hits      of extents ") && table.contains("in the RAM cache"), "{table}");
    let csv = place.stdout(&format!("sim {ram} -o csv"));
    assert!(csv.contains(",ram_hits,readahead_hits,") && csv.contains(&format!(",{},0,", count("ram_hits"))), "{csv}");
    let sweep = place.stdout("sim zipf.parquet --cache-size 32M --sweep ram=0,4M --results kept.jsonl");
    assert!(sweep.contains("in_ram") && sweep.contains("0.0000") && !sweep.contains("ahead"), "{sweep}");
    let without = place.stdout(&format!("sim {BARE} zipf.parquet --cache-size 32M"));
    assert!(!without.contains("RAM hits"), "{without}");
}

#[test]
fn what_the_trace_does_not_tell_is_not_told_as_measured() {
    let place = Place::new();
    fs::write(
        place.path("plain.csv"),
        (0..4000).map(|n| format!("{n},W,{},8192\n", n % 3000 * 8192)).collect::<String>(),
    )
    .unwrap();
    let columns = "--columns time=0,op=1,offset=2,len=3,sep=comma";
    let told = json(&place, &format!("plain.csv {columns} --cache-size 16M"));
    assert_eq!((&told["dedup"], &told["dedup_ratio"]), (&"unknown".into(), &Value::Null));
    assert_eq!((&told["compression"], &told["compression_ratio"]), (&"assumed 2 : 1".into(), &Value::Null));
    let table = place.stdout(&format!("sim plain.csv {columns} --cache-size 16M --period 1000s"));
    assert!(table.contains("dedup         unknown") && table.contains("compression   assumed 2 : 1"), "{table}");
    let sweep = place.stdout(&format!("sim plain.csv {columns} --sweep size=16M,32M --results kept.jsonl -o csv"));
    assert_eq!(sweep.matches("unknown,assumed 2 : 1").count(), 2, "{sweep}");
    // What is switched off is known.
    let told = json(&place, &format!("plain.csv {columns} --cache-size 16M --dedup off --compression none"));
    assert_eq!((told["dedup_ratio"].as_f64(), told["compression_ratio"].as_f64()), (Some(1.0), Some(1.0)));
    reads(&place);
    assert!(json(&place, "reads.parquet --cache-size 16M")["dedup_ratio"].is_f64());
}

#[test]
fn any_number_of_ways_is_compared_with_its_ram() {
    let place = Place::new();
    reads(&place);
    let sweep =
        "reads.parquet --cache-size 24M --sweep variant=1-way,3-way,6-way,512-way,fully-associative --dedup off";
    let told = json(&place, &format!("{sweep} --results kept.jsonl"));
    let ram: Vec<_> =
        told.as_array().unwrap().iter().map(|point| point["ram_bytes_per_extent"].as_f64().unwrap()).collect();
    // Places that are empty at the end take RAM, too.
    assert!(
        ram[0] >= 8.0 && ram[1] > ram[0] && ram[1] <= ram[0] * 1.2 && ram[3] > ram[2] && ram[4] > ram[3],
        "{ram:?}"
    );
    let table = place.stdout(&format!("sim {sweep} --results kept.jsonl"));
    assert!(table.contains("RAM_B/ext") && table.contains("direct-mapped") && table.contains("3-way"), "{table}");
}

#[test]
fn each_block_of_a_request_can_be_an_object() {
    let place = Place::new();
    // Blocks 0 to 3, 2 to 5, and 1 in part.
    fs::write(place.path("blocks.csv"), "0,R,0,2048\n1,R,1024,2048\n2,R,700,10\n").unwrap();
    let trace = "blocks.csv --columns time=0,op=1,offset=2,len=3,sep=comma --policy lru --objects 100";
    let told = json(&place, &format!("{trace} --object-size 512"));
    assert_eq!((&told["requests"], &told["misses"]), (&9.into(), &6.into()));
    assert_eq!(json(&place, trace)["requests"], 3);
    place.failure(&format!("sim {trace} --object-size 0"), 1);
}

#[test]
fn a_sweep_that_was_killed_resumes_and_says_so() {
    let place = Place::new();
    place.stdout("trace synth zipf zipf.parquet --objects 40000 --requests 300000 --object-size 8K --writes 20");
    let sweep = "sim zipf.parquet --sweep size=16M..256M:x2 --sweep dedup=on,off --sweep compression=none,lz4 -o csv --results kept.jsonl";
    let mut first = place.command(sweep).spawn().unwrap();
    let lines = || fs::read_to_string(place.path("kept.jsonl")).map_or(0, |text| text.lines().count());
    for _ in 0..3000 {
        if lines() >= 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // It may have ended just before: what is tested then is that nothing is simulated again.
    first.kill().unwrap();
    first.wait().unwrap();
    let kept = lines();
    assert!(kept >= 2);
    let resumed = place.run(sweep);
    let said = String::from_utf8_lossy(&resumed.stderr);
    assert!(resumed.status.success() && said.contains("of 20 points were finished before"), "{said}");
    let fresh = place.stdout(&format!("{sweep} --fresh --threads 1"));
    assert_eq!(String::from_utf8_lossy(&resumed.stdout), fresh);
    assert_eq!(fresh.lines().count(), 21);
    // A table has a curve beneath it.
    let table = place.stdout(&format!("{} --parquet points.parquet", sweep.replace(" -o csv", "")));
    // One row for each point, and the head.
    assert!(table.lines().take(21).all(|line| line.chars().count() <= 120), "{table}");
    assert!(table.contains("miss ratio of reads") && table.contains("dedup off, compression lz4"), "{table}");
    assert!(fs::read(place.path("points.parquet")).unwrap().starts_with(b"PAR1"));
}

#[test]
fn a_curve_in_one_pass_is_that_of_lru() {
    let place = Place::new();
    place.stdout("trace synth zipf zipf.parquet --objects 5000 --requests 100000 --object-size 8K");
    let curve = json(&place, "zipf.parquet --mrc --sample 100");
    for point in curve["points"].as_array().unwrap().iter().step_by(20) {
        let objects = point["objects"].as_u64().unwrap();
        let told = json(&place, &format!("zipf.parquet --policy lru --objects {objects}"));
        let error = told["miss_ratio"].as_f64().unwrap() - point["miss_ratio"].as_f64().unwrap();
        assert!(error.abs() < 1e-9, "{point}: {told}");
    }
    assert!(place.stdout("sim zipf.parquet --mrc").contains("miss ratio of LRU"));
}

#[test]
fn what_makes_no_sense_is_refused_with_a_way_out() {
    let place = Place::new();
    reads(&place);
    for (arguments, words) in [
        ("reads.parquet", &["--cache-size", "--sweep size="][..]),
        ("reads.parquet --cache-size 1M", &["cache_size", "nearest valid value"]),
        ("reads.parquet --cache-size 1G --extent-size 5000", &["extent_size", "4096"]),
        ("reads.parquet --cache-size 1G --variant wau", &["--variant wau", "weu-lru-mod"]),
        ("reads.parquet --cache-size 1G --variant 4-way --dedup on", &["fully associative"]),
        ("reads.parquet --cache-size 1G --variant 3-way", &["3 does not divide", "2-way or 4-way"]),
        ("reads.parquet --cache-size 1G --variant lru --ram 64M", &["variants on an SSD"]),
        ("reads.parquet --cache-size 1G --variant 0-way", &["--variant 0-way", "N-way"]),
        ("reads.parquet --cache-size 1G --warmup soon", &["--warmup soon", "16d"]),
        ("reads.parquet --cache-size 1G --disks 5400", &["7200 or 15000"]),
        ("reads.parquet --cache-size 1G --dirty-max 30", &["--dirty-max 30", "--mode write-back"]),
        ("reads.parquet --cache-size 1G --flush-every 30", &["--flush-every 30", "--mode write-back"]),
        ("reads.parquet --cache-size 1G --mode write-back --dirty-start 70", &["destage starts below"]),
        ("reads.parquet --policy lfu --objects 10", &["--policy lfu", "slru, mru"]),
        ("- --cache-size 1G", &["standard input", "nitro-lab trace convert"]),
        ("/dev/stdin --cache-size 1G", &["a stream", "nitro-lab trace convert /dev/stdin trace.parquet"]),
        ("absent.parquet --cache-size 1G", &["absent.parquet"]),
        ("reads.parquet --sweep size=16M,32M --results reads.parquet", &["reads.parquet", "--results"]),
    ] {
        let said = place.failure(&format!("sim {arguments}"), 1);
        assert!(words.iter().all(|word| said.contains(word)), "{arguments}: {said}");
    }
    for (arguments, word) in [
        ("reads.parquet --sweep size=1G..2G", "FROM..TO:xFACTOR"),
        ("reads.parquet --sweep speed=1,2", "fingerprint-index"),
        ("reads.parquet --policy lru", "--objects"),
        ("reads.parquet --cache-size 1G --mode write-around", "write-through, write-back"),
    ] {
        let said = place.failure(&format!("sim {arguments}"), 2);
        assert!(said.contains(word), "{arguments}: {said}");
    }
}

/// Reads of `count` extents of a disk in MSR's format.
fn disk(host: &str, disk: u32, count: u64) -> String {
    let line = |n| format!("{},{host},{disk},Read,{},8192,100\n", 128_166_372_000_000_000 + n * 1000, n * 8192);
    (0..count).map(line).collect()
}

#[test]
fn traces_of_two_disks_are_the_same_in_two_files_and_in_one() {
    let place = Place::new();
    let (first, second) = (disk("hm", 0, 500), disk("hm", 1, 500));
    place.write("hm_0.csv", &first);
    place.write("hm_1.csv", &second);
    place.write("both.csv", first.clone() + &second);
    place.write("next.csv", &first);
    place.stdout("trace convert hm_0.csv zero.parquet");
    place.stdout("trace convert hm_1.csv one.parquet");
    let made: Value =
        serde_json::from_str(&place.stdout("trace convert hm_0.csv hm_1.csv both.parquet -o json")).unwrap();
    assert_eq!((&made["path"], &made["requests"]), (&"both.parquet".into(), &1000.into()), "{made}");
    let hits = |files: &str| {
        let told = json(&place, &format!("{files} --cache-size 64M"));
        let curve = json(&place, &format!("{files} --mrc"));
        let swept = json(&place, &format!("{files} --sweep size=64M --results none.jsonl"));
        assert_eq!(swept[0]["read_extent_hit_ratio"], told["read_extent_hit_ratio"], "{files}");
        (told["read_extent_hits"].as_u64().unwrap(), curve["objects"].as_u64().unwrap())
    };
    for files in ["both.csv", "hm_0.csv hm_1.csv", "zero.parquet one.parquet", "both.parquet", "zero.parquet hm_1.csv"]
    {
        assert_eq!(hits(files), (0, 1000), "{files}");
    }
    assert_eq!(hits("hm_0.csv next.csv"), (500, 500), "another day of the same disk");
    assert_eq!(hits("--same-disks file hm_0.csv next.csv"), (0, 1000));
    // Without names, each file has disks of its own, which is said.
    place.write("P1.lis", "0 16 0 0\n16 16 0 1\n");
    place.write("P2.lis", "0 16 0 0\n");
    let output = place.run("trace info -o json P1.lis P2.lis");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("object 0 is in several files") && said.contains("--same-disks numbered"), "{said}");
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["objects"], 2);
    assert_eq!(hits("P1.lis P2.lis").0, 0);
    assert_eq!(hits("P1.lis P2.lis --same-disks numbered").0, 1);
}

#[test]
fn identifiers_of_64_bits_are_simulated() {
    let place = Place::new();
    let id = |n: u64| (n % 1000).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let record = |n: u64| {
        let next = if n < 4000 { n as i64 + 1001 } else { -1 };
        [&(n as u32 / 100).to_le_bytes()[..], &id(n).to_le_bytes(), &4096u32.to_le_bytes(), &next.to_le_bytes()]
            .concat()
    };
    place.write("hash.bin", (0..5000).flat_map(record).collect::<Vec<u8>>());
    let told = json(&place, "hash.bin --cache-size 64M --extent-size 4K");
    // An identifier stands for a sector, so that objects may be in two extents.
    assert!(told["read_hit_ratio"].as_f64().is_some_and(|ratio| ratio > 0.79), "{told}");
    let curve = json(&place, "hash.bin --mrc");
    assert!((1000..=2000).contains(&curve["objects"].as_u64().unwrap()), "{curve}");
    place.stdout("sim hash.bin --sweep size=64M,128M --results kept.jsonl");
    place.stdout("sim hash.bin --cache-size 64M --load open:1 --mode write-back");
    place.stdout("trace convert hash.bin hash.parquet");
    assert_eq!(json(&place, "hash.parquet --cache-size 64M --extent-size 4K")["read_hits"], told["read_hits"]);
    assert_eq!(json(&place, "hash.bin --policy lru --objects 1000")["misses"], 1000);
}

#[test]
fn results_are_those_of_the_whole_trace() {
    let place = Place::new();
    let sweep = "sim trace.csv --sweep size=16M,32M --results kept.jsonl";
    let lines = disk("hm", 0, 40_000);
    place.write("trace.csv", &lines);
    let known = |arguments: &str| {
        let said = String::from_utf8(place.run(arguments).stderr).unwrap();
        said.contains("2 of 2 points were finished before")
    };
    assert!(!known(sweep) && known(sweep));
    // One request in the middle is another one; the size of the file stays.
    let at = lines.len() / 2 + lines[lines.len() / 2..].find("Read").unwrap();
    let mut other = lines.clone();
    other.replace_range(at..at + 4, "read");
    place.write("trace.csv", &other);
    assert!(!known(sweep), "another content");
    assert!(!known(&format!("{sweep} --same-disks file")), "read in another way");
    // Results of another version of the program.
    let kept = fs::read_to_string(place.path("kept.jsonl")).unwrap();
    let model = kept.split('"').nth(3).unwrap().to_owned();
    assert!(known(sweep) && model.len() == 16, "{model}");
    place.write("kept.jsonl", kept.replace(&model, "0123456789abcdef"));
    assert!(!known(sweep));
    place.write("kept.jsonl", "{\"model\":9,\"trace\":\"x\",\"outcome\":{}}\n");
    assert!(!known(sweep));
    let in_use = fs::File::open(place.path("kept.jsonl")).unwrap();
    in_use.lock().unwrap();
    let said = place.failure(sweep, 1);
    assert!(said.contains("another sweep is writing to it"), "{said}");
}

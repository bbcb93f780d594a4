//! `nitro-lab sim --classes`: rules, policies and hits by class.

use crate::support::Place;
use nitro_trace::parquet::ParquetWriter;
use nitro_trace::{Op, Request};
use nitro_units::ClassId;
use serde_json::Value;
use std::fmt::Write;
use std::fs;

const COLUMNS: &str =
    "--columns time=0,op=1,offset=2,len=3,sep=comma --dedup off --compression none --ram 0 --sequential-threshold 0";

/// 8 MiB of 8 KiB blocks that are read again, in no order, after each scan of 256 MiB in larger requests.
fn trace(place: &Place) {
    let (mut text, mut time) = (String::new(), 0);
    let mut request = |op: &str, offset: u64, len: u64| {
        let _ = writeln!(text, "{time},{op},{offset},{len}");
        time += 1;
    };
    for _ in 0..4 {
        (0..1024).for_each(|number| request("R", number * 301 % 1024 * 8192, 8192));
        (0..2048).for_each(|part| request("R", (1 << 30) + part * (128 << 10), 128 << 10));
        (0..16).for_each(|block| request("W", (2 << 30) + block * 8192, 8192));
    }
    fs::write(place.path("trace.csv"), text).unwrap();
}

fn json(place: &Place, arguments: &str) -> Value {
    serde_json::from_str(
        &place.stdout(&format!("sim trace.csv {COLUMNS} --cache-size 64M --weu-size 512K -o json {arguments}")),
    )
    .unwrap()
}

fn of<'a>(told: &'a Value, name: &str) -> &'a Value {
    told["classes"].as_array().unwrap().iter().find(|class| class["name"] == name).unwrap_or(&Value::Null)
}

const TABLE: &str = r#"
[class.precious]
id = 20
priority = "high"
[class.bulk]
id = 21
[class.absent]
id = 22
priority = "low"
[[rule]]
class = "precious"
offset_to = "8M"
direction = "read"
[[rule]]
class = "bulk"
request_size_min = "128K"
"#;

#[test]
fn rules_classify_a_trace_and_policies_change_its_hits() {
    let place = Place::new();
    trace(&place);
    fs::write(place.path("classes.toml"), TABLE).unwrap();
    fs::write(place.path("usual.toml"), TABLE.replace("priority = \"high\"\n", "")).unwrap();
    let told = json(&place, "--classes classes.toml");
    let (precious, bulk) = (of(&told, "precious"), of(&told, "bulk"));
    assert_eq!((&precious["id"], &precious["reads"], &precious["hits"]), (&20.into(), &4096.into(), &3072.into()));
    assert_eq!((&precious["cached_bytes"], &precious["read_hit_extents"]), (&(8 << 20).into(), &3072.into()));
    assert_eq!((&bulk["reads"], &bulk["hits"], &bulk["read_extents"]), (&8192.into(), &0.into(), &(8192 * 16).into()));
    assert_eq!((&of(&told, "unclassified")["writes"], &of(&told, "absent")["reads"]), (&64.into(), &0.into()));
    let usual = json(&place, "--classes usual.toml --admission all --eviction lru --staging 0");
    assert_eq!((&of(&usual, "precious")["reads"], &of(&usual, "precious")["hits"]), (&4096.into(), &0.into()));
    assert_eq!(json(&place, "")["classes"], Value::Array(Vec::new()));
    let table =
        place.stdout(&format!("sim trace.csv {COLUMNS} --cache-size 64M --weu-size 512K --classes classes.toml"));
    let line = table.lines().find(|line| line.starts_with("precious")).unwrap_or_default();
    assert!(line.contains("75.00 %") && line.contains("8 MiB"), "{table}");
}

#[test]
fn open_cas_tables_classify_a_trace() {
    let place = Place::new();
    trace(&place);
    let table = "IO class id,IO class name,Eviction priority,Allocation\n0,unclassified,22,1\n\
                 1,lba:lt:16384&done,1,1\n2,request_size:ge:131072&io_direction:read,10,0\n";
    fs::write(place.path("cas.csv"), table).unwrap();
    let told = json(&place, "--classes cas.csv");
    let (first, second) = (of(&told, "lba:lt:16384&done"), of(&told, "request_size:ge:131072&io_direction:read"));
    assert_eq!((&first["reads"], &first["hits"]), (&4096.into(), &3072.into()), "{told}");
    assert_eq!((&second["reads"], &second["cached_bytes"]), (&8192.into(), &0.into()), "{told}");
}

#[test]
fn a_recorded_class_stands_unless_rules_are_to_change_it() {
    let place = Place::new();
    trace(&place);
    fs::write(place.path("classes.toml"), TABLE).unwrap();
    // Parquet keeps classes: here all requests have 7.
    let mut writer = ParquetWriter::create(&place.path("classed.parquet"), &[]).unwrap();
    for line in fs::read_to_string(place.path("trace.csv")).unwrap().lines() {
        let fields: Vec<_> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<u64>().unwrap();
        let op = if fields[1] == "R" { Op::Read } else { Op::Write };
        let class = ClassId::new(7).unwrap();
        let request =
            Request { time_ns: number(0), op, offset: number(2), len: number(3), class, ..Request::default() };
        writer.write(&request).unwrap();
    }
    writer.finish().unwrap();
    let told = |more: &str| -> Value {
        let arguments = format!("sim classed.parquet --cache-size 64M --ram 0 --sequential-threshold 0 -o json {more}");
        serde_json::from_str(&place.stdout(&arguments)).unwrap()
    };
    let stands = told("--classes classes.toml");
    assert_eq!((&of(&stands, "precious")["reads"], &of(&stands, "file-256k")["reads"]), (&0.into(), &12_288.into()));
    let changed = told("--classes classes.toml --reclassify");
    assert_eq!((&of(&changed, "precious")["reads"], &of(&changed, "file-256k")["reads"]), (&4096.into(), &0.into()));
    // With classes of its own, a preset is of use.
    assert_eq!(of(&told("--classes file-server"), "file-256k")["reads"], 12_288);
}

#[test]
fn tables_that_a_trace_cannot_use_are_refused() {
    let place = Place::new();
    trace(&place);
    let cas = "IO class id,IO class name,Eviction priority,Allocation\n";
    for (name, text, words) in [
        ("m.toml", "[[rule]]\nclass = \"1\"\nmetadata = true\n".to_owned(), &["rule 1", "metadata", "m.toml"][..]),
        (
            "f.toml",
            format!("{TABLE}[[rule]]\nclass = \"5\"\nfile_size_min = \"1G\"\n"),
            &["rule 3", "file-16k", "file_size"],
        ),
        ("d.csv", format!("{cas}1,directory:/home,0,1\n"), &["line 2", "\"directory\" cannot be used"]),
        (
            "f.csv",
            format!("{cas}1,lba:lt:8|file_size:le:4096,0,1\n"),
            &["rule 1", "a trace does not contain file_size"],
        ),
        ("p.toml", "[class.bulk]\nid = 21\nmin = 95\n[[rule]]\nclass = \"bulk\"\n".to_owned(), &["minimums"]),
    ] {
        fs::write(place.path(name), text).unwrap();
        let said = place.failure(&format!("sim trace.csv {COLUMNS} --cache-size 64M --classes {name}"), 1);
        assert!(words.iter().all(|word| said.contains(word)), "{name}: {said}");
    }
    for preset in ["file-server", "database", "hypervisor"] {
        let said = place.failure(&format!("sim trace.csv {COLUMNS} --cache-size 64M --classes {preset}"), 1);
        assert!(said.contains("no request of the trace has a class") && said.contains("rules by place"), "{said}");
    }
    place.failure("sim trace.csv --policy lru --objects 5 --classes file-server", 2);
}

#[test]
fn sweeps_tell_which_variants_have_no_policies_of_classes_and_resume() {
    let place = Place::new();
    trace(&place);
    fs::write(place.path("classes.toml"), TABLE).unwrap();
    let sweep = format!(
        "sim trace.csv {COLUMNS} --classes classes.toml --sweep size=64M,96M --sweep variant=weu,lru --results kept.jsonl -o json"
    );
    let first = place.run(&sweep);
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(first.status.success() && said.contains("have no effect in lru"), "{said}");
    let told: Value = serde_json::from_slice(&first.stdout).unwrap();
    for point in told.as_array().unwrap() {
        assert_eq!(of(point, "precious")["reads"], 4096, "{point}");
    }
    let again = place.run(&sweep);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains("4 of 4 points were finished before"), "{said}");
    assert_eq!(first.stdout, again.stdout);
    // Other rules are another workload.
    fs::write(place.path("classes.toml"), TABLE.replace("8M", "4M")).unwrap();
    let other: Value = serde_json::from_slice(&place.run(&sweep).stdout).unwrap();
    assert_eq!(of(&other[0], "precious")["reads"], 2048);
}

#[test]
fn patterns_classify_what_nothing_else_does() {
    let place = Place::new();
    trace(&place);
    let table = "[class.scan]\npriority = \"low\"\n[class.random]\npriority = \"high\"\n";
    fs::write(place.path("patterns.toml"), table).unwrap();
    let policies = "--admission all --eviction lru --staging 0";
    let told = json(&place, &format!("--classes patterns.toml --patterns on {policies}"));
    // Requests are counted by their own class; contents by pattern. The blocks that are read again stay.
    assert_eq!(of(&told, "unclassified")["reads"], 4096 + 8192, "{told}");
    let cached = ["scan", "read-once", "random"].map(|name| of(&told, name)["cached_bytes"].as_u64().unwrap_or(0));
    assert!(cached[0] > 32 << 20 && cached[2] >= 8 << 20, "{cached:?}");
    let all = |told: &Value| told["read_hits"].as_u64().unwrap();
    let without = json(&place, &format!("--classes patterns.toml --patterns off {policies}"));
    assert!(all(&told) >= 2 * 1024 && all(&without) == 0, "{} hits, {} without", all(&told), all(&without));
    // A preset needs no rules, if patterns give classes.
    assert!(all(&json(&place, &format!("--classes database --patterns on {policies}"))) >= 2 * 1024);
    place.failure(&format!("sim trace.csv {COLUMNS} --cache-size 64M --patterns maybe"), 2);
}

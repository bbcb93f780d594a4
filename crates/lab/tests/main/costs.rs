//! `nitro-lab sim --cost`: what disks, LRU and classes cost for their I/O.

use crate::support::Place;
use serde_json::Value;
use std::fmt::Write;
use std::fs;

const TRACE: &str =
    "sim trace.csv --columns time=0,op=1,offset=2,len=3,sep=comma --dedup off --compression none --weu-size 512K";

/// Random reads of 8 KiB: half of them within 24 MiB, which are of a class, the others within 16 GiB.
fn place() -> Place {
    let place = Place::new();
    let (mut text, mut state) = (String::new(), 1u64);
    for time in 0..30_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = (state >> 33) % if state >> 63 == 0 { 3072 } else { 2 << 20 };
        let _ = writeln!(text, "{time},R,{},8192", block * 8192);
    }
    fs::write(place.path("trace.csv"), text).unwrap();
    let table = "[class.hot]\nid = 20\npriority = \"high\"\n[[rule]]\nclass = \"hot\"\noffset_to = \"24M\"\n";
    fs::write(place.path("classes.toml"), table).unwrap();
    place
}

fn told(place: &Place, arguments: &str) -> Value {
    serde_json::from_str(&place.stdout(&format!("{TRACE} --cost {arguments} -o json"))).unwrap()
}

fn rows(place: &Place, arguments: &str) -> Vec<Value> {
    told(place, arguments)["rows"].as_array().unwrap().clone()
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row}"))
}

#[test]
fn disks_alone_lru_and_classes_are_compared_over_sizes() {
    let place = place();
    let options = "--sweep size=32M,256M --classes classes.toml --results kept.jsonl";
    let rows = rows(&place, options);
    // For each of three kinds of disks, two of 2012 and one of 2026: alone, and three caches of two sizes.
    let (then, now) = rows.split_at(14);
    assert_eq!((now.len(), now.iter().all(|row| row["date"] == "2026-03")), (7, true), "{now:?}");
    assert_eq!(then.iter().filter(|row| row["date"] == "2012-05").count(), 14);
    for rows in then.chunks(7) {
        let caches: Vec<_> = rows.iter().map(|row| row["cache"].as_str().unwrap()).collect();
        assert_eq!(caches, ["none", "lru", "nitro", "classes", "lru", "nitro", "classes"]);
        let [none, lru, classes] = [&rows[0], &rows[1], &rows[3]];
        assert!(
            number(classes, "iops") > number(lru, "iops") && number(lru, "iops") > number(none, "iops"),
            "{rows:?}"
        );
        assert!(number(classes, "saving_over_lru") > 0.05, "{classes}");
        assert_eq!((none["read_hit_ratio"].as_f64(), &none["saving_over_lru"]), (Some(0.0), &Value::Null));
        for row in rows {
            let price = number(row, "hdd_price") + number(row, "ssd_price");
            let capacity_mb = if row["hdd"].as_str().unwrap().contains("7200") { 8e6 } else { 2.4e6 };
            let cost = price / capacity_mb / number(row, "iops");
            assert!((number(row, "price_per_mb_iops") / cost - 1.0).abs() < 1e-9, "{row}");
            let share = number(row, "cache_bytes") / 100e9 * 700.0;
            assert!((number(row, "ssd_price") - share).abs() < 1e-6, "{row}");
        }
    }
    // Finished points are kept, as of every sweep.
    let again = place.run(&format!("{TRACE} --cost {options}"));
    assert!(String::from_utf8_lossy(&again.stderr).contains("21 of 21 points were finished before"));
    let table = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(table.contains("per_mb_iops") && table.contains("classes  256 MiB") && table.contains("USD"), "{table}");
    assert!(
        table.contains("Prices of 2012-05") && table.contains("Prices of 2026-03") && table.contains("VDURA"),
        "{table}"
    );
    let csv = place.stdout(&format!("{TRACE} --cost {options} -o csv"));
    assert_eq!((csv.lines().count(), csv.starts_with("date,hdd,cache,cache_bytes,")), (22, true), "{csv}");
}

#[test]
fn prices_of_the_user_take_the_place_of_those_that_are_built_in() {
    let place = place();
    let built_in = place.stdout("sim --print-prices");
    fs::write(place.path("same.toml"), &built_in).unwrap();
    let dear = built_in.replace("price = 700", "price = 7000").replace("whole_drives = false", "whole_drives = true");
    fs::write(place.path("dear.toml"), dear).unwrap();
    let told = |prices: &str| rows(&place, &format!("--cache-size 32M --results kept.jsonl {prices}"));
    let of_2012 = |rows: Vec<Value>| rows.into_iter().filter(|row| row["date"] == "2012-05").collect::<Vec<_>>();
    assert_eq!(of_2012(told("")), told("--prices same.toml"));
    fs::write(place.path("slow.toml"), built_in.replace("random_reads = 18700", "random_reads = 100")).unwrap();
    let slow = told("--prices slow.toml");
    assert!(number(&slow[1], "iops") < number(&told("")[1], "iops") / 2.0, "{slow:?}");
    assert_eq!(slow[0], told("")[0], "disks alone need no SSD");
    let dear = told("--prices dear.toml");
    assert_eq!((number(&dear[1], "ssd_price"), number(&dear[0], "ssd_price")), (7000.0, 0.0));
    assert!(number(&dear[1], "saving_over_none") < 0.0 && number(&told("")[1], "saving_over_none") > 0.0);
}

#[test]
fn an_assumed_compression_is_named_beside_the_costs() {
    let place = place();
    let assumed =
        "sim trace.csv --columns time=0,op=1,offset=2,len=3,sep=comma --weu-size 512K --cost --cache-size 32M";
    assert!(place.stdout(assumed).contains("compression is assumed 2 : 1"));
    assert!(!place.stdout(&format!("{assumed} --compression none")).contains("assumed"));
    assert_eq!(told(&place, "--cache-size 32M")["compression"], Value::Null);
}

#[test]
fn what_has_no_cost_is_refused_with_a_way_out() {
    let place = place();
    let built_in = place.stdout("sim --print-prices");
    for (name, from, to) in [("rpm.toml", "rpm = 7200", "rpm = 5400"), ("key.toml", "price = 285", "prize = 285")] {
        fs::write(place.path(name), built_in.replace(from, to)).unwrap();
    }
    for (arguments, words) in [
        ("--cache-size 32M --prices rpm.toml", &["rpm.toml: line 17, column 7", "7200 or 15000", "--print-prices"][..]),
        ("--cache-size 32M --prices key.toml", &["key.toml: line 19, column 1", "prize"]),
        ("--cache-size 32M --prices absent.toml", &["absent.toml", "no such file", "--print-prices"]),
        ("--cache-size 32M --load open:1", &["--load open", "closed:32"]),
        ("--cache-size 32M --sweep dedup=on,off", &["--sweep dedup", "sweep size alone"]),
        ("", &["--cache-size", "--sweep size="]),
        ("--cache-size 32M --warmup 30000 --results kept.jsonl", &["no reads or writes were measured", "--warmup"]),
        ("--cache-size 1K", &["smaller than an extent"]),
    ] {
        let said = place.failure(&format!("{TRACE} --cost {arguments}"), 1);
        assert!(words.iter().all(|word| said.contains(word)), "{arguments}: {said}");
    }
    for arguments in
        ["--cost --variant lru", "--cost --disks 7200", "--prices rpm.toml --cache-size 32M", "--cost --mrc"]
    {
        place.failure(&format!("{TRACE} {arguments}"), 2);
    }
}

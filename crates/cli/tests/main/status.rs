//! `nitro status` and `nitro iostat` on a running server.

use crate::support::{Nbd, Place, noise};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

#[test]
fn status_tells_what_was_served() {
    let place = Place::new();
    let server = place.usual();
    let mut client = Nbd::connect(&place.path("run/nitro/vm.sock"), "vm");
    let once = noise(3, 8192);
    for offset in [0, 8192, 1 << 20] {
        assert_eq!(client.write(offset, &once), 0);
    }
    for _ in 0..4 {
        client.read(8192, 8192);
    }
    let status: Value = serde_json::from_str(&place.stdout("status -o json")).unwrap();
    assert_eq!(status["server"]["pid"], server.child.id());
    assert_eq!(status["server"]["connections"], 1);
    let volume = &status["volumes"][0];
    assert_eq!((&volume["reads"], &volume["writes"]), (&4.into(), &3.into()));
    assert_eq!(volume["write_latency"]["count"], 3);
    assert_eq!(status["caches"][0]["health"], "caching");
    assert!(place.stdout("status").contains("deduplication"));
    let csv = place.stdout("status -o csv");
    assert!(csv.starts_with("kind,name,metric,value\n") && csv.contains("\nvolume,vm,writes,3\n"));
}

#[test]
fn status_tells_what_a_larger_cache_would_hit() {
    let place = Place::new();
    place.file("vm.img", 128 << 20);
    let server = place.serve("--origin vm.img --cache cache.img --cache-size 32M --ram 0 --staging 0");
    assert_eq!(place.status()["caches"][0]["what_if"], serde_json::json!([]), "nothing was read");
    let mut client = place.client();
    for at in 0..80 {
        assert_eq!(client.write(at << 20, &noise(at, 1 << 20)), 0);
    }
    // Three times the cache, round and round, and not one after the other.
    for number in 0..240 {
        client.read((number * 37 % 80) << 20, 1 << 20);
    }
    // Both of one moment: what is read may still be on its way into the cache.
    let cache = place.status()["caches"][0].clone();
    let what_if = &cache["what_if"];
    let hits: Vec<_> = [0, 1, 2, 3].map(|at| what_if[at]["hit_ratio"].as_f64().unwrap()).into();
    // Reads of the first round may hit what was written last.
    assert!(hits[1] < 0.1 && hits[2] < 0.2 && hits[3] > 0.9, "{what_if}");
    let curve = cache["hit_curve"].as_array().unwrap();
    assert_eq!((curve.len(), &curve[8]["size"]), (21, &1.0.into()));
    let [at_one, at_four] = [8, 16].map(|at| curve[at]["hit_ratio"].as_f64().unwrap());
    assert!((at_one - hits[1]).abs() < 0.05 && (at_four - hits[3]).abs() < 0.05, "{curve:?} {what_if}");
    assert_eq!(what_if[3]["capacity_bytes"], 4 * cache["capacity_bytes"].as_u64().unwrap());
    assert!(place.stdout("status").contains("LRU would hit"), "{}", place.stdout("status"));
    drop(client);
    assert!(server.stop().0.success());
}

#[test]
fn iostat_prints_as_many_reports_as_asked_for() {
    let place = Place::new();
    let _server = place.usual();
    Nbd::connect(&place.path("run/nitro/vm.sock"), "vm").read(0, 8192);
    let lines: Vec<Value> =
        place.stdout("iostat 0.1 3 -o json").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["volume"], "vm");
    let since_start = place.stdout("iostat -o csv");
    assert!(since_start.starts_with("volume,time,seconds,reads_per_second,") && since_start.lines().count() == 2);
    let names = since_start.lines().next().unwrap().split(',');
    assert!(names.into_iter().all(|name| lines[0].get(name).is_some()), "{since_start} beside {}", lines[0]);
    assert_eq!(place.stdout("iostat 0.1 2").lines().count(), 3);
    assert!(place.failure("iostat 0", 2).contains("must be 0.05"));
}

#[test]
fn iostat_is_as_wide_as_the_screen() {
    let place = Place::new();
    let _server = place.usual();
    let run = |arguments: &str| {
        let output = place.command(arguments).env("COLUMNS", "72").env("LINES", "5").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let narrow = run("iostat 0.05 6");
    assert!(narrow.lines().all(|line| line.chars().count() <= 72), "{narrow}");
    assert_eq!(narrow.lines().filter(|line| line.starts_with("volume")).count(), 3, "{narrow}");
    assert!(narrow.contains("rd_p99") && !narrow.contains("drops/s"), "{narrow}");
    assert!(run("iostat -x").contains("drops/s"));
}

#[test]
fn status_says_what_is_wrong_and_what_was_not_measured() {
    let place = Place::new();
    let _server = place.usual();
    let text = place.stdout("status");
    let hits = text.lines().find(|line| line.trim_start().starts_with("read hit")).unwrap();
    assert!(hits.contains('–') && !text.contains("Needs attention"), "{text}");
    let verbose = place.stdout("status -v");
    for part in ["data of requests: request_memory", "program", "cache cache: insertion queue", "smaller parts"] {
        assert!(verbose.contains(part) && !text.contains(part), "{part} is not in {verbose}, or in {text}");
    }
    assert!(
        text.contains("RAM") && verbose.lines().any(|line| line.trim() == "256 MiB  data of requests: request_memory")
    );
    assert!(place.stdout("volume list -o csv").lines().nth(1).unwrap().ends_with(",yes"));
    place.stdout("cache detach cache vm");
    assert!(place.stdout("volume list -o csv").lines().nth(1).unwrap().ends_with(",no"));
    let text = place.stdout("status");
    assert!(text.contains("Needs attention") && text.contains("nitro cache attach attaches it again"), "{text}");
    assert!(text.contains("write-through, detached"), "{text}");
}

#[test]
fn top_needs_a_terminal() {
    let place = Place::new();
    let _server = place.usual();
    assert!(place.failure("top", 1).contains("it needs a terminal"));
}

#[test]
fn the_control_socket_answers_the_broken_and_survives_the_hostile() {
    let place = Place::new();
    let _server = place.usual();
    let mut stream = UnixStream::connect(place.path("run/nitro/vm.control")).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    for (request, answer) in [
        ("nonsense\n", "malformed request"),
        ("{\"version\":2,\"command\":\"status\"}\n", "version 2 of the control protocol is not supported"),
        ("{\"version\":1,\"command\":\"status\"}\n", "\"volumes\":["),
    ] {
        stream.write_all(request.as_bytes()).unwrap();
        let line = answers.next().unwrap().unwrap();
        assert!(line.contains(answer), "{line}");
    }
    let mut hostile = UnixStream::connect(place.path("run/nitro/vm.control")).unwrap();
    // The server hangs up once the line is too long.
    while hostile.write_all(&[b'x'; 4096]).is_ok() {}
    assert!(place.run("status").status.success());
}

#[test]
fn without_a_server_it_is_said_how_to_start_one() {
    let place = Place::new();
    assert!(place.failure("status", 1).contains("start one: nitro serve"));
    assert!(place.failure("iostat 1 --control gone", 1).contains("no server answers there"));
}

#[test]
fn of_several_servers_one_must_be_named() {
    let place = Place::new();
    let _first = place.usual();
    place.file("db.img", 1 << 20);
    let _second = place.serve("--origin db.img --cache none");
    let said = place.failure("status", 1);
    assert!(said.contains("several are running") && said.contains("db.control"), "{said}");
    assert!(place.stdout("status --control run/nitro/db.control").contains("volume db"));
}

#[test]
fn the_parts_of_the_ram_needed_are_printed_and_make_up_the_need() {
    let place = Place::new();
    let server = place.usual();
    let ram = place.status()["ram"].clone();
    let parts = ram["parts"].as_array().unwrap();
    let sum: u64 = parts.iter().map(|part| part["bytes"].as_u64().unwrap()).sum();
    assert_eq!(ram["need_bytes"], sum);
    for name in [
        "program",
        "threads",
        "connections",
        "data of requests: request_memory",
        "cache cache: indexes",
        "cache cache: insertion queue",
        "volume vm",
    ] {
        assert!(parts.iter().any(|part| part["name"] == name), "no {name} in {parts:?}");
    }
    assert!(place.stdout("status -v").contains("RAM\n"));
    let (_, said) = server.stop();
    let printed = said.lines().skip_while(|line| !line.starts_with("RAM: at most"));
    let names: Vec<_> =
        printed.skip(1).take(parts.len()).filter_map(|line| line.trim().split_once("  ")).map(|l| l.1).collect();
    let told: Vec<_> = parts.iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(names, told);
}

/// Runs `nitro status --check`; returns its exit code and what it printed.
fn check(place: &Place, options: &str) -> (Option<i32>, String) {
    let output = place.run(&format!("status --check {options}"));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// The status and the body of an answer over HTTP.
fn http(place: &Place, path: &str) -> (String, String) {
    let mut stream = std::os::unix::net::UnixStream::connect(place.path("http.sock")).unwrap();
    std::io::Write::write_all(&mut stream, format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let answer = std::io::read_to_string(stream).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
}

#[test]
fn a_check_says_in_its_exit_code_what_the_faults_are() {
    let place = Place::new();
    let (code, said) = check(&place, "");
    assert!(code == Some(3) && said.starts_with("NITRO UNKNOWN: server: none is running"), "{said}");
    place.file("vm.img", 16 << 20);
    let server = place.serve_limited("--origin vm.img --cache cache.img --cache-size 32M --http unix:http.sock");
    let mut client = place.client();
    client.read(0, 8192);
    // A notice is no warning.
    place.stdout("cache detach cache vm");
    let (code, said) = check(&place, "");
    assert!(code == Some(0) && said.starts_with("NITRO OK: volume vm: it is detached"), "{said}");
    place.stdout("cache attach cache vm");
    let (code, said) = check(&place, "");
    let (words, performance) = said.split_once(" | ").unwrap();
    assert!(code == Some(0) && words == "NITRO OK: 1 volumes, 1 caches" && said.lines().count() == 1, "{said}");
    assert!(
        performance.contains("'volume vm dirty'=0B") && performance.contains("'volume vm extents read'=1c"),
        "{said}"
    );
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(http(&place, "/health"), ("200".to_owned(), "OK\n".to_owned()));
    // The SSD takes no more writes, and the origin, at its beginning, does.
    server.limit_files(1 << 20);
    let mut at = 0;
    place.until("given up", |status| {
        at += 1;
        assert_eq!(client.write(at % 16 * 8192, &[at as u8; 8192]), 0, "the origin is well");
        status["caches"][0]["health"] == "pass-through"
    });
    let (code, said) = check(&place, "");
    assert!(code == Some(2) && said.starts_with("NITRO CRITICAL: cache cache: the SSD failed"), "{said}");
    let (code, said) = check(&place, "-o json");
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &told["state"], &told["code"]), (Some(2), &"critical".into(), &2.into()));
    assert_eq!(told["faults"][0]["subject"], "cache cache", "{told}");
    assert!(told["performance"].as_array().unwrap().iter().any(|one| one["label"] == "volume vm dirty"), "{told}");
    std::thread::sleep(std::time::Duration::from_millis(600));
    let (code, body) = http(&place, "/health");
    assert!(code == "503" && body.starts_with("CRITICAL\ncritical: cache cache: the SSD failed"), "{body}");
    assert_eq!(http(&place, "/healthz"), ("200".to_owned(), "ok\n".to_owned()), "it lives");
    server.signal(rustix::process::Signal::STOP);
    let (code, said) = check(&place, "");
    assert!(code == Some(3) && said.starts_with("NITRO UNKNOWN: control socket"), "{said}");
    server.kill();
}

#[test]
fn a_failed_origin_is_a_warning() {
    let place = Place::new();
    let _server = place.usual();
    std::fs::File::options().write(true).open(place.path("vm.img")).unwrap().set_len(1 << 20).unwrap();
    let mut client = place.client();
    client.request(0, 8 << 20, 8192, &[]);
    assert_ne!(client.reply(), 0);
    let (code, said) = check(&place, "");
    assert!(code == Some(1) && said.starts_with("NITRO WARNING: volume vm: 1 requests"), "{said}");
    assert!(place.stdout("status").contains("Check the origin and its disks"));
}

#[test]
fn a_failed_ssd_is_named_in_its_cache_and_not_blamed_on_the_origin() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let server =
        place.serve_limited("--origin vm.img --cache cache.img --cache-size 32M --mode write-back --dirty-age 1h");
    let mut client = place.client();
    server.limit_files(1 << 20);
    place.until("failed requests", |status| {
        client.write(0, &[7; 8192]);
        client.flush();
        status["volumes"][0]["errors"].as_u64().unwrap() > 0
    });
    let told: Value = serde_json::from_str(&check(&place, "-o json").1).unwrap();
    let faults = told["faults"].as_array().unwrap();
    assert!(faults.iter().any(|fault| fault["subject"] == "cache cache" && fault["severity"] == "critical"), "{told}");
    assert!(faults.iter().any(|fault| fault["what"].as_str().unwrap().contains("requests of clients")), "{told}");
    for fault in faults {
        let remedy = fault["remedy"].as_str().unwrap();
        assert!(!remedy.contains("Check the origin") && !remedy.contains("Check that the origin"), "{fault}");
    }
    let shown = place.stdout("status");
    let block = shown.split("\ncache cache: ").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(block.contains("  critical      ") && block.contains("SSD"), "{block}");
    let block = place.stdout("cache show");
    assert!(block.contains("  critical      ") && block.contains("SSD"), "{block}");
    server.kill();
}

#[test]
fn evicted_units_are_discarded_where_that_is_set() {
    for (setting, told) in [("", "off"), (" --discard evicted", "evicted"), (" --discard off", "off")] {
        let place = Place::new();
        place.file("vm.img", 64 << 20);
        let cache = "--cache cache.img --cache-size 16M --ram 0 --staging 0 --admission all --eviction lru";
        let server = place.serve(&format!("--origin vm.img {cache}{setting}"));
        let mut client = place.client();
        for at in 0..40 {
            assert_eq!(client.write(at << 20, &noise(at, 1 << 20)), 0);
        }
        let status = place.until("evicted", |status| status["caches"][0]["weus_evicted"].as_u64() >= Some(16));
        let cache = &status["caches"][0];
        assert_eq!(cache["discard"], told, "{setting}");
        assert_eq!(cache["ssd_discarded_bytes"].as_u64() > Some(0), told == "evicted", "{setting}: {cache}");
        assert!(server.stop().0.success());
    }
}

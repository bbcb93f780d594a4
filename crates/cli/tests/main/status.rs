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
    let what_if = place.status()["caches"][0]["what_if"].clone();
    let hits: Vec<_> = [0, 1, 2, 3].map(|at| what_if[at]["hit_ratio"].as_f64().unwrap()).into();
    // Reads of the first round may hit what was written last.
    assert!(hits[1] < 0.1 && hits[2] < 0.2 && hits[3] > 0.9, "{what_if}");
    assert_eq!(what_if[3]["capacity_bytes"], 4 * place.status()["caches"][0]["capacity_bytes"].as_u64().unwrap());
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
    for part in ["requests", "program", "cache cache: insertion queue", "smaller parts"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
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
        "requests",
        "cache cache: indexes",
        "cache cache: insertion queue",
        "volume vm",
    ] {
        assert!(parts.iter().any(|part| part["name"] == name), "no {name} in {parts:?}");
    }
    assert!(place.stdout("status").contains("RAM\n"));
    let (_, said) = server.stop();
    let printed = said.lines().skip_while(|line| !line.starts_with("RAM: at most"));
    let names: Vec<_> =
        printed.skip(1).take(parts.len()).filter_map(|line| line.trim().split_once("  ")).map(|l| l.1).collect();
    let told: Vec<_> = parts.iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(names, told);
}

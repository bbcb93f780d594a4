//! `nitro-lab reproduce`: what it writes, and that it goes on where it was. The figures themselves take minutes: CI has them.

use crate::support::Place;
use serde_json::Value;
use std::fs;
use std::time::Duration;

#[test]
fn a_figure_is_made_told_and_not_made_twice() {
    let place = Place::new();
    let command = "reproduce --quick --scale 0.05 --only table-1,ssd-throughput,figure-5 --folder out -o json";
    let first: Value = serde_json::from_str(&place.stdout(command)).unwrap();
    let sections = first["sections"].as_array().unwrap();
    assert_eq!(
        sections.iter().map(|s| s["id"].as_str().unwrap()).collect::<Vec<_>>(),
        ["table-1", "figure-5", "ssd-throughput"]
    );
    assert_eq!(first["failures"], Value::Array(Vec::new()));
    let verdicts: Vec<_> = sections.iter().flat_map(|s| s["verdicts"].as_array().unwrap()).collect();
    assert_eq!(verdicts.iter().map(|v| v["id"].as_str().unwrap()).collect::<Vec<_>>(), ["N7", "N13"]);
    for verdict in verdicts {
        assert_ne!(verdict["holds"], "not-judged", "{verdict}");
        assert!(verdict["holds"] == "holds" || !verdict["reason"].as_str().unwrap().is_empty(), "{verdict}");
    }
    let lines = first["sections"][1]["charts"][0]["lines"]["lines"].as_array().unwrap().clone();
    assert!(lines.len() == 3 && lines.iter().all(|line| line["points"].as_array().unwrap().len() == 5));
    let html = fs::read_to_string(place.path("out/reproduction.html")).unwrap();
    for phrase in
        ["synthetic traces", "<svg", "aria-label=\"Read-hit ratio. ", "prefers-color-scheme:dark", "N7", "<caption>"]
    {
        assert!(html.contains(phrase), "{phrase}");
    }
    assert!(!html.contains("<script") && html.len() < 500 << 10);
    assert!(fs::read_to_string(place.path("out/reproduction.md")).unwrap().contains("- **N13: "));
    // Again: nothing is simulated, and the same is found; a line that a kill cut off is made again.
    let outcomes = fs::read(place.path("out/outcomes.jsonl")).unwrap();
    let again: Value = serde_json::from_str(&place.stdout(command)).unwrap();
    assert_eq!(again["sections"], first["sections"]);
    assert_eq!(fs::read(place.path("out/outcomes.jsonl")).unwrap(), outcomes);
    fs::write(place.path("out/outcomes.jsonl"), &outcomes[..outcomes.len() - 9]).unwrap();
    let mended: Value = serde_json::from_str(&place.stdout(command)).unwrap();
    assert_eq!(mended["sections"], first["sections"]);
    assert_eq!(fs::read(place.path("out/outcomes.jsonl")).unwrap().len(), outcomes.len());
}

#[test]
fn a_run_that_was_killed_goes_on_where_it_was() {
    let place = Place::new();
    let command = "reproduce --quick --scale 0.1 --only figure-5 -o json --folder";
    let mut killed = place.command(&format!("{command} killed")).spawn().unwrap();
    let kept = || fs::read_to_string(place.path("killed/outcomes.jsonl")).unwrap_or_default();
    for _ in 0..6000 {
        if kept().lines().count() >= 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // It may have ended just before: then nothing is simulated again.
    killed.kill().unwrap();
    killed.wait().unwrap();
    let kept = kept();
    let (whole, _) = kept.rsplit_once('\n').unwrap();
    assert!(whole.lines().count() >= 2);
    let resumed: Value = serde_json::from_str(&place.stdout(&format!("{command} killed"))).unwrap();
    let all = fs::read_to_string(place.path("killed/outcomes.jsonl")).unwrap();
    assert!(all.starts_with(whole) && all.lines().count() == 30, "{}", all.lines().count());
    let fresh: Value = serde_json::from_str(&place.stdout(&format!("{command} fresh"))).unwrap();
    assert_eq!(resumed["sections"], fresh["sections"]);
}

#[test]
fn claims_are_judged_on_recorded_traces_without_measuring_what_they_lack() {
    let place = Place::new();
    let verdicts = |options: &str| {
        let command = format!("reproduce nitro --only recorded-traces --folder out -o json {options}");
        let report: Value = serde_json::from_str(&place.stdout(&command)).unwrap();
        assert_eq!((&report["failures"], report["sections"].as_array().unwrap().len()), (&Value::Array(Vec::new()), 1));
        report["sections"][0].clone()
    };
    let none = verdicts("");
    for verdict in none["verdicts"].as_array().unwrap() {
        assert_eq!(verdict["reason"], "not run: no traces given (`--traces DIR`)", "{verdict}");
    }
    // Random reads of 64 KiB in an area of 256 MiB.
    let mut state = 1_u64;
    let mut drawn = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 4096
    };
    let lines: String = (0..8192).map(|_| format!("{} 128 0 0\n", drawn() * 128)).collect();
    fs::create_dir(place.path("traces")).unwrap();
    place.write("traces/disk.lis", &lines);
    place.write("traces/notes", "What is here.\n");
    let section = verdicts("--traces traces");
    let ids: Vec<_> = section["verdicts"].as_array().unwrap().iter().map(|v| v["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["N3r", "N5r", "N8r", "N9r"]);
    for verdict in section["verdicts"].as_array().unwrap() {
        assert_ne!(verdict["holds"], "not-judged", "{verdict}");
    }
    assert!(section["verdicts"][0]["found"].as_str().unwrap().ends_with("(compression assumed)"));
    let row = section["tables"][0]["rows"][0].as_array().unwrap();
    assert_eq!((&row[0], &row[5], &row[6]), (&"disk.lis".into(), &"unknown".into(), &"assumed 2 : 1".into()));
    assert_eq!(section["tables"][4]["rows"][0][0], "notes");
    let said = place.failure("reproduce nitro --only recorded-traces --traces nowhere", 1);
    assert!(said.contains("--traces nowhere: "), "{said}");
}

#[test]
fn what_cannot_be_reproduced() {
    let place = Place::new();
    let said = place.failure("reproduce --only figure-4,figure-3", 1);
    assert!(said.contains("--only figure-3: there is no such figure; traces, table-1, figure-1"), "{said}");
    place.write("file", "");
    let said = place.failure("reproduce --quick --only table-1 --folder file", 1);
    assert!(said.contains("folder file: "), "{said}");
    place.failure("reproduce --threads 0", 2);
}

#[test]
fn what_cannot_be_reproduced_of_the_papers_on_indexes() {
    let place = Place::new();
    place.write("kept", "what somebody needs");
    let said = place.failure("reproduce clam --quick --file kept", 1);
    assert!(said.contains("file kept: it exists; name one that does not"), "{said}");
    assert_eq!(fs::read_to_string(place.path("kept")).unwrap(), "what somebody needs");
    let said = place.failure("reproduce silt --quick --ram 1000", 1);
    assert!(said.contains("--ram: ") && said.contains("nearest"), "{said}");
    place.failure("reproduce clam --entries 5", 2);
    place.failure("reproduce clam --dollars 0", 2);
    place.failure("reproduce --scale 2 silt", 2);
    for paper in ["clam", "silt"] {
        let help = place.stdout(&format!("reproduce {paper} --help"));
        assert!(help.contains("Examples:") && help.contains("--entries"), "{help}");
    }
}

#[test]
fn azors_evaluation_judges_every_claim_of_it() {
    let place = Place::new();
    let told = place.stdout("reproduce azor --quick --scale 0.5 --folder out -o json");
    let told: Value = serde_json::from_str(&told).unwrap();
    let sections = told["sections"].as_array().unwrap();
    let verdicts: Vec<_> = sections.iter().flat_map(|s| s["verdicts"].as_array().unwrap()).collect();
    assert_eq!(
        verdicts.iter().map(|v| v["id"].as_str().unwrap()).collect::<Vec<_>>(),
        ["A1", "A2", "A3", "A4", "A5", "A6"]
    );
    for verdict in verdicts {
        assert_ne!(verdict["holds"], "not-judged", "{verdict}");
        assert!(verdict["holds"] == "holds" || !verdict["reason"].as_str().unwrap().is_empty(), "{verdict}");
    }
    assert!(fs::read_to_string(place.path("out/azor.html")).unwrap().contains("<svg"));
}

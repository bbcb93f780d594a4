//! Manual pages, completions, help and the reference.

use crate::support::Place;
use std::fs;
use std::path::Path;

#[test]
fn every_command_has_a_manual_page_and_help() {
    let place = Place::new();
    place.stdout("man pages");
    for command in ["sim", "size", "trace", "index", "reproduce", "man", "completions"] {
        let page = fs::read_to_string(place.path(&format!("pages/nitro-lab-{command}.1"))).unwrap();
        assert!(page.contains(".TH"), "{page}");
        assert!(place.stdout(&format!("{command} --help")).contains("Usage: nitro-lab"));
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.stdout(&format!("completions {shell}")).contains("reproduce"));
    }
    let made = fs::read_to_string(place.path("pages/LAB.md")).unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/LAB.md");
    if std::env::var_os("NITRO_WRITE_DOCS").is_some() {
        fs::write(&kept, &made).unwrap();
    }
    let is_same = made == fs::read_to_string(&kept).unwrap();
    assert!(is_same, "docs/LAB.md: NITRO_WRITE_DOCS=1 cargo test -p nitro-lab --test main generated");
}

#[test]
fn failures_are_json_where_the_results_would_be() {
    let place = Place::new();
    for (arguments, code) in [("trace info absent -o json", 1), ("sim --no-such-option -o json", 2)] {
        let said = place.failure(arguments, code);
        let told: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        assert!(told["code"] == code && !told["error"].as_str().unwrap().is_empty(), "{said}");
    }
}

#[test]
fn the_daemons_program_says_where_the_commands_are() {
    let place = Place::new();
    let nitro = place.of("nitro");
    for name in ["sim", "size", "trace", "index", "reproduce"] {
        let said = nitro.failure(&format!("--log debug {name} some.parquet --cache-size 1G"), 2);
        assert!(said.contains(&format!("run `nitro-lab {name}`")), "{said}");
    }
    // A word that one of its own commands does not know.
    let said = nitro.failure("cache index", 2);
    assert!(!said.contains("nitro-lab"), "{said}");
}

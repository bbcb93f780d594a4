//! Manual pages, completions and help.

use crate::support::Place;
use std::fs;

#[test]
fn every_command_has_a_manual_page_and_help() {
    let place = Place::new();
    place.stdout("man pages");
    for command in ["serve", "status", "iostat", "top", "flush", "volume", "cache", "estimate", "man", "completions"] {
        let page = fs::read_to_string(place.path(&format!("pages/nitro-{command}.1"))).unwrap();
        assert!(page.contains(".TH"), "{page}");
        assert!(place.stdout(&format!("{command} --help")).contains("Usage: nitro"));
    }
    assert!(fs::read_to_string(place.path("pages/nitro.1")).unwrap().contains("nitro\\-serve"));
    assert!(place.stdout("serve --help").contains("Examples:"));
}

#[test]
fn completions_are_made_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.stdout(&format!("completions {shell}")).contains("serve"));
    }
}

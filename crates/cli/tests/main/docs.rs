//! The pages in docs/, as a book for mdBook: every page is in its table of contents, and every link leads somewhere.

use nitro_testkit::pages;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The lines of a page outside its blocks of code, without code in the lines.
fn prose(page: &str) -> Vec<String> {
    let mut fence = None;
    let mut lines = Vec::new();
    for line in page.lines() {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        if fence.is_some() || mark.is_some() {
            fence = if fence.is_none() { mark } else { fence.filter(|open| Some(*open) != mark) };
            continue;
        }
        lines.push(line.split('`').step_by(2).collect::<Vec<_>>().join("`"));
    }
    lines
}

/// The targets of a page's links and pictures.
fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(page) {
        let line = line.as_str();
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let named = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target.trim());
        found.extend(inline.chain(named).map(str::to_owned));
    }
    found
}

/// The anchors of a page's headings, as mdBook makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in page.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || "_- ".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|anchor| !found.contains(anchor));
        found.extend(free);
    }
    found
}

/// A link's path below docs/; `None` if it leads out of it.
fn resolve(from: &Path, to: &str) -> Option<PathBuf> {
    let mut path = from.parent()?.to_owned();
    for part in Path::new(to).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => path.pop().then_some(())?,
            _ => return None,
        }
    }
    Some(path)
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let pages = pages(&root());
    let mut listed = BTreeMap::new();
    for link in links(&pages[Path::new("SUMMARY.md")]) {
        *listed.entry(PathBuf::from(link)).or_insert(0) += 1;
    }
    let there: BTreeMap<_, _> =
        pages.keys().filter(|page| *page != Path::new("SUMMARY.md")).map(|page| (page.clone(), 1)).collect();
    assert_eq!(listed, there);
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let pages = pages(&root());
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for (page, text) in &pages {
        for link in links(text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { Some(page.clone()) } else { resolve(page, file) };
            let is_there = target.as_ref().is_some_and(|target| root().join(target).is_file());
            let has_anchor = || {
                let target = target.as_ref().and_then(|target| pages.get(target));
                anchor.is_empty() || target.is_some_and(|target| anchors(target).contains(anchor))
            };
            if !is_there || !has_anchor() {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "these lead nowhere, or out of docs/: {wrong:#?}");
    assert!(checked > 100, "{checked} links");
}

#[test]
fn links_and_anchors_are_found_in_prose_only() {
    let page =
        "# A `b` (c)\n[x](y.md#z) and `[not](this)`\n```\n# no\n[nor](that)\n```\n[n]: named.md\n## A b c\n# _e_-f!\n";
    assert_eq!(links(page), ["y.md#z", "named.md"]);
    assert_eq!(anchors(page).into_iter().collect::<Vec<_>>(), ["_e_-f", "a-b-c", "a-b-c-1"]);
    assert_eq!(resolve(Path::new("decisions/a.md"), "../b.md"), Some(PathBuf::from("b.md")));
    assert_eq!(resolve(Path::new("a.md"), "../b.md"), None);
}

/// The texts of all source files below a folder, with the lines of each string literal joined.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let mut joined = false;
            for line in text.lines() {
                let line = if joined { line.trim_start() } else { line };
                joined = line.ends_with('\\');
                all += line.trim_end_matches('\\');
                all.push_str(if joined { "" } else { "\n" });
            }
        }
    }
    all
}

/// The cells of the tables under the headings `chapters` of a page.
fn cells(page: &str, chapters: &[&str]) -> Vec<Vec<String>> {
    let sections = page.split("\n## ").filter(|section| chapters.iter().any(|title| section.starts_with(title)));
    let rows = sections.flat_map(|section| section.lines().filter(|line| line.starts_with('|')).skip(2));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_error_messages_of_the_reference_are_those_of_the_program() {
    let page = fs::read_to_string(root().join("ERRORS.md")).unwrap();
    let crates = root().join("../crates");
    let code: String = ["server", "config", "files", "cli", "lab", "commands", "console", "engine", "device", "log"]
        .map(|name| sources(&crates.join(name).join("src")))
        .concat();
    let rows = cells(&page, &["At the start", "Commands", "While it serves"]);
    assert!(rows.len() > 35, "{} rows", rows.len());
    for row in &rows {
        for words in row[0].split('`').skip(1).step_by(2) {
            assert!(code.contains(words), "no message has the words {words:?}");
        }
    }
}

#[test]
fn every_alert_is_in_the_reference() {
    let page = fs::read_to_string(root().join("ERRORS.md")).unwrap();
    let rules = fs::read_to_string(root().join("../packaging/prometheus/nitro.rules.yml")).unwrap();
    let named: BTreeSet<&str> = page.split('`').skip(1).step_by(2).filter(|word| word.starts_with("Nitro")).collect();
    let alerts: BTreeSet<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert_eq!(named, alerts);
}

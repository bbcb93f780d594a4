//! docs/FORMAT.md shows the tables of the source.

const DOCUMENT: &str = include_str!("../../../../docs/FORMAT.md");
const SOURCES: [&str; 5] = [
    include_str!("../../src/superblock.rs"),
    include_str!("../../src/bufferhash/epoch.rs"),
    include_str!("../../src/bufferhash/page.rs"),
    include_str!("../../src/silt/page.rs"),
    include_str!("../../src/silt/manifest.rs"),
];

#[test]
fn the_document_shows_the_tables_of_the_source() {
    let (_, indexes) = DOCUMENT.split_once("# What stands in an index of fingerprints").unwrap();
    let (indexes, _) = indexes.split_once("# What stands in a store").unwrap();
    let source = SOURCES.iter().flat_map(|s| s.lines().filter_map(|line| line.strip_prefix("//! ")));
    let rows: Vec<&str> = source.filter(|line| line.starts_with('|')).collect();
    let shown: Vec<&str> = indexes.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(shown, rows);
}

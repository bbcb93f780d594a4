//! docs/FORMAT.md shows the tables of the source.

const DOCUMENT: &str = include_str!("../../../../docs/FORMAT.md");
const SOURCES: [&str; 10] = [
    include_str!("../../src/format/superblock.rs"),
    include_str!("../../src/format/batch.rs"),
    include_str!("../../src/format/record.rs"),
    include_str!("../../src/format/region.rs"),
    include_str!("../../src/format/container.rs"),
    include_str!("../../src/format/node.rs"),
    include_str!("../../src/format/page.rs"),
    include_str!("../../src/format/ssd.rs"),
    include_str!("../../src/format/increment.rs"),
    include_str!("../../src/format/transfer.rs"),
];

#[test]
fn the_document_shows_the_tables_of_the_source() {
    let (_, store) = DOCUMENT.split_once("# What stands in a store").unwrap();
    let store = store.split("\n# ").next().unwrap();
    let source = SOURCES.iter().flat_map(|s| s.lines().filter_map(|line| line.strip_prefix("//! ")));
    let rows: Vec<&str> = source.filter(|line| line.starts_with('|')).collect();
    let shown: Vec<&str> = store.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(shown, rows);
}

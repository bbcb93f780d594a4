//! docs/FORMAT.md shows the tables of the source, and the tables have no gaps.

/// Behind this, the document shows the formats of another crate.
const INDEXES: &str = "\n# What stands in an index of fingerprints";

fn document() -> &'static str {
    let (engine, _) = include_str!("../../../../docs/FORMAT.md").split_once(INDEXES).unwrap();
    engine
}

const SOURCES: [&str; 7] = [
    include_str!("../../src/format/superblock.rs"),
    include_str!("../../src/format/weu.rs"),
    include_str!("../../src/format/duplicate.rs"),
    include_str!("../../src/format/stored.rs"),
    include_str!("../../src/format/journal.rs"),
    include_str!("../../src/format/journal/record.rs"),
    include_str!("../../src/format/write_log.rs"),
];

/// Where tables end: the sizes of superblock, WEU head, its entries and records, prefixes of stored extents, then the journal's
/// headers and records, then the write log's label, headers and records.
const STRUCTURE_BYTES: [usize; 20] = [0, 4096, 512, 48, 32, 8, 72, 63, 26, 16, 24, 9, 11, 29, 3, 4, 15, 8, 33, 64];

fn rows(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|l| l.strip_prefix("//! ").unwrap_or(l));
    lines.filter(|l| l.starts_with("| ") && !l.starts_with("| offset")).collect()
}

#[test]
fn the_document_shows_the_tables_of_the_source() {
    let source: Vec<_> = SOURCES.iter().flat_map(|s| rows(s)).collect();
    assert_eq!(rows(document()), source);
}

#[test]
fn every_field_begins_where_the_one_before_ends() {
    let mut next = 0;
    for row in rows(document()) {
        let mut columns = row.split('|').skip(1).map(str::trim);
        let mut number = || columns.next().unwrap().parse::<usize>().unwrap();
        let (offset, bytes) = (number(), number());
        assert!(offset == 0 && STRUCTURE_BYTES.contains(&next) || offset == next, "{row}");
        next = offset + bytes;
    }
}

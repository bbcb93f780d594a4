//! docs/FORMAT.md shows the tables of the source, and the tables have no gaps.

const DOCUMENT: &str = include_str!("../../../../docs/FORMAT.md");
const SOURCES: [&str; 3] = [
    include_str!("../../src/format/superblock.rs"),
    include_str!("../../src/format/weu.rs"),
    include_str!("../../src/format/stored.rs"),
];

fn rows(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|l| l.strip_prefix("//! ").unwrap_or(l));
    lines.filter(|l| l.starts_with("| ") && !l.starts_with("| offset")).collect()
}

#[test]
fn the_document_shows_the_tables_of_the_source() {
    let source: Vec<_> = SOURCES.iter().flat_map(|s| rows(s)).collect();
    assert_eq!(rows(DOCUMENT), source);
}

#[test]
fn every_field_begins_where_the_one_before_ends() {
    let mut next = 0;
    for row in rows(DOCUMENT) {
        let mut columns = row.split('|').skip(1).map(str::trim);
        let mut number = || columns.next().unwrap().parse::<usize>().unwrap();
        let (offset, bytes) = (number(), number());
        assert!(offset == 0 && [0, 8, 48, 512, 4096].contains(&next) || offset == next, "{row}");
        next = offset + bytes;
    }
}

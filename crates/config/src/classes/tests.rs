use super::*;
use nitro_cache::admission::Source;
use nitro_cache::class::{Allocation, Asked, Found};

fn class(number: u8) -> ClassId {
    ClassId::new(number).unwrap()
}

/// As the guide of Open-CAS has it, but for what cannot be known here.
const OPEN_CAS: &str = "\
IO class id,IO class name,Eviction priority,Allocation
0,unclassified,22,1.00
1,metadata&done,0,1.00
11,file_size:le:4096&done,9,1
12,file_size:le:16384&done,10,0.5
22,request_size:ge:1048576|lba:lt:2048,22,0.00
23,io_direction:write,22,1
";

#[test]
fn open_cas_tables_are_read_as_they_are() {
    let table = ClassTable::parse(OPEN_CAS).unwrap();
    let priority = |number| table.classes.of(class(number)).priority.name();
    assert_eq!([0, 1, 11, 12, 22].map(priority), ["low", "highest", "high", "normal", "low"]);
    assert_eq!(table.classes.of(class(12)).max_percent, 50);
    assert_eq!(table.classes.of(class(22)).allocation, Allocation::Never);
    assert_eq!(table.name(class(11)), "file_size:le:4096&done");
    // The last rule that holds counts, unless one is done.
    let request = |offset, len, source| table.rules.of_request(&Asked { offset, len, source });
    assert_eq!(request(0, 4096, Source::Read), Some(class(22)));
    assert_eq!(request(0, 4096, Source::Write), Some(class(23)));
    assert_eq!(request(1 << 20, 4096, Source::Read), None);
    let content = |found| table.rules.of_content(found);
    assert_eq!(content(Found::File(4096)), Some(class(11)));
    assert_eq!(content(Found::File(4097)), Some(class(12)));
    assert_eq!((content(Found::Metadata), content(Found::File(1 << 20))), (Some(class(1)), None));
    let refused = table.to_toml().unwrap_err().to_string();
    assert!(refused.contains("cannot be expressed in TOML"), "{refused}");
}

#[test]
fn faults_of_open_cas_tables_are_told_by_line_and_column() {
    for (line, told) in [
        ("1,metdata&done,0,1", "line 2: column 3: there is no condition \"metdata\""),
        ("1,file_size:lower:4&done,0,1", "line 2: column 3: \"lower\" is not a comparison; eq, ne"),
        ("1,lba:ge:x,0,1", "line 2: column 3: \"x\" is not a number; write it as in lba:le:4096"),
        ("32,metadata,0,1", "line 2: column 1: \"32\" is not a class; classes are 0 to 31"),
        ("1,metadata,256,1", "line 2: column 12: \"256\" is not a priority"),
        ("1,metadata,0,1.5", "line 2: column 14: \"1.5\" is not a share"),
        ("1,metadata,0", "line 2: column 1: 3 values where there must be 4"),
        ("1,extension:jpg,0,1", "line 2: column 3: the condition \"extension\" cannot be used; names of files"),
        ("1,wlth:eq:2,0,1", "line 2: column 3: the condition \"wlth\" cannot be used"),
        ("0,metadata,0,1", "line 2: column 3: class 0 is \"unclassified\""),
        ("1,metadata,0,1\n1,lba:ge:4,0,1", "line 3: column 1: id 1 occurs twice"),
    ] {
        let text = format!("IO class id,IO class name,Eviction priority,Allocation\n{line}\n");
        let refused = ClassTable::parse(&text).unwrap_err().to_string();
        assert!(refused.starts_with(told), "{refused}, where {told} was expected");
    }
}

#[test]
fn tables_in_toml_are_read_and_written() {
    let text = r#"
        preset = "file-server"
        [class.file-large]
        allocation = "never"
        [class.redo]
        id = 20
        priority = "high"
        max = 5
        write_allocate = false
        [[rule]]
        class = "redo"
        offset_from = "1G"
        offset_to = "2G"
        direction = "write"
        [[rule]]
        class = "journal"
        file_size_min = "100M"
    "#;
    let table = ClassTable::parse(text).unwrap();
    assert_eq!(table.classes.of(builtin::METADATA).priority.name(), "highest");
    assert_eq!(table.classes.of(builtin::of_file(u64::MAX)).allocation, Allocation::Never);
    let redo = *table.classes.of(class(20));
    assert_eq!((redo.priority.name(), redo.max_percent, redo.on_write, redo.on_read), ("high", 5, false, true));
    let asked = Asked { offset: 1 << 30, len: 4096, source: Source::Write };
    assert_eq!(table.rules.of_request(&asked), Some(class(20)));
    assert_eq!(table.rules.of_content(Found::File(200 << 20)), Some(builtin::JOURNAL));
    assert_eq!(ClassTable::parse(&table.to_toml().unwrap()).unwrap(), table);
    assert_eq!((table.named("redo").unwrap(), table.named("20").unwrap()), (class(20), class(20)));
    for preset in PRESETS {
        let table = ClassTable::open(Path::new(preset)).unwrap();
        assert_eq!(ClassTable::parse(&table.to_toml().unwrap()).unwrap(), table, "{preset}");
    }
}

#[test]
fn tables_in_toml_that_cannot_be_used_are_refused() {
    for (text, told) in [
        ("[class.metadata]\npriorty = \"low\"", "line 2: unknown key \"priorty\"; did you mean \"priority\"?"),
        (
            "[class.metadata]\npriority = \"urgent\"",
            "class.metadata: priority = \"urgent\": there is no such priority; low",
        ),
        ("[class.redo]\nmax = 5", "class.redo: it is not a built-in class and has no id"),
        ("[class.redo]\nid = 77", "class.redo.id = 77: classes are 1 to 31"),
        ("[class.redo]\nid = 1", "class.redo.id = 1: that is class \"metadata\""),
        ("[class.metadata]\nid = 2", "class.metadata.id = 2: \"metadata\" is class 1"),
        ("preset = \"vms\"", "preset = \"vms\": there is no such preset; none, file-server"),
        ("[[rule]]\nclass = \"logs\"", "class logs: there is no such class"),
        (
            "[[rule]]\nclass = \"1\"\nmetadata = true\n[[rule]]\nclass = \"2\"\nmetadata = true\ndirection = \"read\"",
            "a rule for class journal never applies: an earlier one for class metadata covers it; put the narrower rule first",
        ),
    ] {
        let refused = ClassTable::parse(text).unwrap_err().to_string();
        assert!(refused.starts_with(told), "{refused}, where {told} was expected");
    }
}

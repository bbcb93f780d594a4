//! Which objects of several traces are the same disk.

use nitro_trace::parquet::{ParquetReader, ParquetWriter, convert};
use nitro_trace::{BadRecords, Merged, ObjectName, Op, Options, Reader, Request, SameDisks, open, origins};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tempfile::TempDir;

/// Traces in files of a folder.
struct Files(TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self(folder)
    }

    fn merged(&self, names: &[&str], options: &Options, rule: SameDisks) -> Merged<Box<dyn Reader>> {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.0.path().join(name)).collect();
        let readers = paths.iter().map(|path| open(path, options).unwrap());
        Merged::new(origins(&paths).into_iter().zip(readers), rule)
    }

    /// The number of requests of each object, in the order of the objects' numbers.
    fn counts_by(&self, names: &[&str], options: &Options, rule: SameDisks) -> Vec<u32> {
        let mut merged = self.merged(names, options, rule);
        let (mut request, mut counts) = (Request::default(), BTreeMap::new());
        while merged.next(&mut request).unwrap() {
            *counts.entry(request.object).or_insert(0) += 1;
        }
        counts.into_values().collect()
    }

    fn counts(&self, names: &[&str]) -> Vec<u32> {
        self.counts_by(names, &Options::default(), SameDisks::Named)
    }

    fn convert(&self, from: &str, to: &str) {
        let to = self.0.path().join(to);
        let mut reader = open(&self.0.path().join(from), &Options::default()).unwrap();
        convert(&mut reader, ParquetWriter::create(&to, &[]).unwrap()).unwrap();
    }
}

fn msr(host: &str, disk: u32, count: u64) -> String {
    let ticks = 128_166_372_000_000_000;
    (0..count).map(|n| format!("{},{host},{disk},Read,{},8192,100\n", ticks + n, n * 8192)).collect()
}

/// Lines of blkparse with requests of device 8,0.
fn blkparse(count: u64) -> String {
    (0..count).map(|n| format!("  8,0    3 {n} {n}.000000000   697  Q   R {} + 8 [kj]\n", n * 8)).collect()
}

#[test]
fn disks_with_names_are_the_same_in_every_file_and_others_never() {
    let files = Files::new(&[
        ("hm_0.csv", &msr("hm", 0, 3)),
        ("hm_1.csv", &msr("hm", 1, 4)),
        ("next day.csv", &msr("hm", 0, 5)),
        ("other.csv", &msr("src", 0, 6)),
        ("blanks.csv", &msr(" hm", 0, 1).replace("0,Read", " 1, Read")),
    ]);
    assert_eq!(files.counts(&["hm_0.csv", "hm_1.csv"]), [3, 4]);
    assert_eq!(files.counts(&["hm_0.csv", "hm_1.csv", "next day.csv", "other.csv"]), [8, 4, 6]);
    assert_eq!(files.counts(&["blanks.csv", "hm_1.csv"]), [5], "blanks are no part of a name");
    let each = files.counts_by(&["hm_0.csv", "next day.csv"], &Options::default(), SameDisks::OfFile);
    assert_eq!(each, [3, 5]);
}

#[test]
fn names_survive_a_conversion() {
    let files = Files::new(&[
        ("a/hm.csv", &msr("hm", 0, 3)),
        ("b/hm.csv", &msr("hm", 1, 4)),
        ("c/hm.csv", &msr("hm", 0, 5)),
        ("a/sda.txt", &blkparse(2)),
        ("b/sda.txt", &blkparse(3)),
        ("P1.lis", "0 8 0 0\n8 8 0 1\n"),
        ("P2.lis", "0 8 0 0\n"),
    ]);
    for name in ["a/hm.csv", "b/hm.csv", "c/hm.csv", "a/sda.txt", "b/sda.txt", "P1.lis", "P2.lis"] {
        files.convert(name, &format!("{}.parquet", name.split('.').next().unwrap()));
    }
    assert_eq!(files.counts(&["a/hm.parquet", "b/hm.parquet", "c/hm.parquet"]), [8, 4]);
    assert_eq!(files.counts(&["a/hm.csv", "b/hm.parquet", "c/hm.parquet"]), [8, 4], "in any format");
    // The second one gets the lowest free number.
    assert_eq!(files.counts(&["a/sda.parquet", "b/sda.parquet"]), [3, 2]);
    assert_eq!(files.counts(&["P1.parquet", "P2.parquet"]), [2, 1]);
    // Merged, converted, and merged again.
    let path = files.0.path().join("both.parquet");
    let mut both = files.merged(&["a/hm.csv", "b/hm.csv"], &Options::default(), SameDisks::Named);
    convert(&mut both, ParquetWriter::create(&path, &[]).unwrap()).unwrap();
    assert_eq!(files.counts(&["both.parquet", "c/hm.parquet"]), [8, 4]);
    let reader = ParquetReader::new(std::fs::File::open(path).unwrap(), BadRecords::Fatal).unwrap();
    assert_eq!(reader.note("object.1"), Some("hm,1"), "for people");
}

#[test]
fn device_numbers_are_the_same_in_the_parts_of_one_trace() {
    let files = Files::new(&[
        ("host/web.0.txt", &blkparse(1)),
        ("host/web.1.txt", &blkparse(2)),
        ("other/web.0.txt", &blkparse(4)),
        ("mail.txt", &blkparse(8)),
    ]);
    let all = ["host/web.0.txt", "host/web.1.txt", "other/web.0.txt", "mail.txt"];
    let mut counts = files.counts(&all);
    counts.sort_unstable();
    assert_eq!(counts, [3, 4, 8]);
    let merged = files.merged(&all, &Options::default(), SameDisks::Named);
    let apart = merged.apart();
    assert_eq!(merged.requests().count(), 15);
    assert_eq!(apart.get().map(String::as_str), Some("object \"device:8:0\""));
    assert_eq!(files.counts_by(&all, &Options::default(), SameDisks::Numbered), [15]);
    // Where there are no names, files are all there is: two parts may be two disks.
    let files = Files::new(&[("w.0.lis", "0 8 0 0\n"), ("w.1.lis", "0 8 0 0\n8 8 0 0\n")]);
    assert_eq!(files.counts(&["w.0.lis", "w.1.lis"]), [1, 2]);
    assert_eq!(files.counts(&["w.1.lis", "w.1.lis"]), [4], "the same file is the same disk");
}

#[test]
fn recorded_volumes_are_recognised_by_their_uuid_and_not_by_their_name() {
    let files = Files::new(&[]);
    let record = |file: &str, names: &[ObjectName]| {
        let mut writer = ParquetWriter::create(&files.0.path().join(file), &[]).unwrap();
        for (object, name) in (0..).zip(names) {
            let request = Request { op: Op::Read, object, len: 4096, ..Request::default() };
            writer.write(&request).unwrap();
            writer.name_object(object, name);
        }
        writer.finish().unwrap();
    };
    let volume = ObjectName::of_volume;
    record("monday.parquet", &[volume("v-1", "vm"), volume("v-2", "db")]);
    record("tuesday.parquet", &[volume("v-2", "renamed")]);
    record("elsewhere.parquet", &[volume("v-3", "db")]);
    // Of versions that noted no UUID.
    record("old.parquet", &[ObjectName::Local("db".into())]);
    record("older.parquet", &[ObjectName::Local("db".into())]);
    assert_eq!(files.counts(&["monday.parquet", "tuesday.parquet", "elsewhere.parquet"]), [1, 2, 1]);
    assert_eq!(files.counts(&["old.parquet", "older.parquet", "tuesday.parquet"]), [1, 1, 1]);
    // A volume that was detached and attached again while it was recorded.
    record("twice.parquet", &[volume("v-1", "vm"), volume("v-1", "vm")]);
    assert_eq!(files.counts(&["twice.parquet", "monday.parquet"]), [3, 1]);
}

#[test]
fn words_and_large_numbers_of_a_table_are_different_objects() {
    let text = format!("sda,0\n{},0\n{},0\n7,0\n18446744073709551616,0\nsda,0\n", 1u64 << 31, u64::MAX);
    let files = Files::new(&[("a.csv", &text), ("b.csv", "sda,0\n7,0\n")]);
    let options = Options { columns: Some("object=0,offset=1".parse().unwrap()), ..Options::default() };
    assert_eq!(files.counts_by(&["a.csv"], &options, SameDisks::Named).len(), 5);
    assert_eq!(files.counts_by(&["a.csv", "b.csv"], &options, SameDisks::Named).len(), 7, "of two hosts");
    assert_eq!(files.counts_by(&["a.csv", "b.csv"], &options, SameDisks::Numbered).len(), 5);
}

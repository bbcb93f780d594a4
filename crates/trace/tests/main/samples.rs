//! Real traces, where they are at hand: each is recognised and read to its last record.

use nitro_trace::{Op, Options, Reader, Request, Split, Summary, WithoutRepeats, open, summarize};
use std::collections::HashMap;
use std::path::Path;

/// One trace in three formats: text, binary, and libCacheSim's.
pub const CLOUD_PHYSICS: [&str; 3] = [
    "cloudphysics/cloudPhysicsIO.csv",
    "cloudphysics/cloudPhysicsIO.vscsi",
    "cloudphysics/cloudPhysicsIO.oracleGeneral.bin",
];

/// A reader of a sample, or `None` where there are no samples.
pub fn reader(name: &str) -> Option<Box<dyn Reader>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    Some(open(&path, &Options::default()).unwrap())
}

fn summary(name: &str) -> Option<Summary> {
    let summary = summarize(&mut reader(name)?).unwrap();
    assert!(summary.exact && summary.skipped == 0);
    Some(summary)
}

#[test]
fn every_sample_is_read_to_its_last_record() {
    let samples = [
        ("fiu/homes-sample.blkparse", 1000, 0, 1000),
        ("fiu/web-vm-sample.blkparse", 1000, 0, 1000),
        ("fiu/smalltrace.tsv", 10_000, 8905, 1095),
        (CLOUD_PHYSICS[0], 113_872, 46_974, 66_898),
        (CLOUD_PHYSICS[1], 113_872, 46_974, 66_898),
        (CLOUD_PHYSICS[2], 113_872, 113_872, 0),
        ("msr/msr-cambridge1-sample.csv", 1000, 508, 492),
        ("systor/systor17-traces-sample.csv.gz", 999, 826, 173),
        ("tencent/cloud_storage-sample.bz2", 50_000, 24_521, 25_479),
        ("arc/P3.lis.zst", 238_578, 238_578, 0),
        ("disksim/tpcc-small.trace", 6999, 4381, 2618),
        ("disksim/DTRS1K.trace.zst", 127_043, 113_123, 13_920),
    ];
    for (name, requests, reads, writes) in samples {
        let Some(summary) = summary(name) else { return };
        assert_eq!((summary.requests, summary.reads.count, summary.writes.count), (requests, reads, writes), "{name}");
    }
}

#[test]
fn samples_are_what_their_readme_says() {
    let Some(homes) = summary("fiu/homes-sample.blkparse") else { return };
    assert_eq!(homes.prints, 8000, "one per sector");
    assert_eq!(summary("fiu/web-vm-sample.blkparse").unwrap().prints, 1000, "one per 4 KiB");
    let cloud = summary(CLOUD_PHYSICS[0]).unwrap();
    assert!((cloud.address_end as f64 / f64::from(1 << 30) - 31.3).abs() < 0.1);
    assert_eq!(summary("tencent/cloud_storage-sample.bz2").unwrap().objects, 2038);
    let mut arc = reader("arc/P3.lis.zst").unwrap();
    let first = {
        let mut request = Request::default();
        arc.next(&mut request).unwrap();
        request
    };
    assert_eq!((first.offset, first.len), (230_027 * 512, 8 * 512));
}

#[test]
fn lines_of_the_arc_trace_expand_into_their_blocks() {
    let Some(arc) = reader("arc/P3.lis.zst") else { return };
    let blocks = summarize(&mut Split::new(arc, 512)).unwrap();
    let whole = summary("arc/P3.lis.zst").unwrap();
    assert_eq!(blocks.requests, whole.reads.bytes / 512);
    assert_eq!(blocks.footprint_bytes, whole.footprint_bytes);
}

#[test]
fn repeats_of_the_mail_sample_are_left_out() {
    let Some(mail) = reader("fiu/smalltrace.tsv") else { return };
    let mut distinct = WithoutRepeats::new(mail);
    assert_eq!(summarize(&mut distinct).unwrap().requests, 9418);
    assert_eq!(distinct.repeats(), 582);
}

#[test]
fn times_are_those_of_the_records() {
    let first = |name: &str| reader(name).map(|reader| reader.requests().next().unwrap().unwrap());
    let Some(msr) = first("msr/msr-cambridge1-sample.csv") else { return };
    // 2007-02-22 17:22:09.5514663 UTC.
    assert_eq!((msr.time_ns, msr.op, msr.offset, msr.len), (1_172_164_929_551_466_300, Op::Write, 9_056_014_336, 2048));
    assert_eq!(first("systor/systor17-traces-sample.csv.gz").unwrap().time_ns, 1_456_095_145_133_076_000);
    assert_eq!(first("disksim/tpcc-small.trace").unwrap().time_ns, 938_513_000_000);
    assert_eq!(first("fiu/smalltrace.tsv").unwrap().time_ns, 89_966_811_921_625);
}

#[test]
fn the_encodings_of_one_trace_agree_request_by_request() {
    let Some(csv) = reader(CLOUD_PHYSICS[0]) else { return };
    let vscsi = reader(CLOUD_PHYSICS[1]).unwrap();
    let oracle = reader(CLOUD_PHYSICS[2]).unwrap();
    // oracleGeneral keeps the size that an object had first, no operations, and seconds as the text does.
    let mut first_sizes = HashMap::new();
    let mut count = 0;
    for ((csv, vscsi), oracle) in csv.requests().zip(vscsi.requests()).zip(oracle.requests()) {
        let (csv, vscsi, oracle) = (csv.unwrap(), vscsi.unwrap(), oracle.unwrap());
        let whole_seconds = vscsi.time_ns / 1_000_000_000 * 1_000_000_000;
        assert_eq!(csv, Request { time_ns: whole_seconds, ..vscsi }, "request {count}");
        let first_size = *first_sizes.entry(csv.offset).or_insert(oracle.len);
        assert_eq!(
            (oracle.time_ns, oracle.object, oracle.offset, oracle.len),
            (csv.time_ns, 0, csv.offset, first_size)
        );
        count += 1;
    }
    assert_eq!(count, 113_872);
}

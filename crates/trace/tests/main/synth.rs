//! Generators: what they make, measured, against what they were asked for.

use nitro_trace::synth::{BootStorm, FiuLike, RandomReads, SnapshotChain, Zipf, boot_template, recorded_boot};
use nitro_trace::{Listed, Op, Reader, Request, Summary, summarize};
use std::collections::{HashMap, HashSet};

fn near(name: &str, found: f64, target: f64, within: f64) {
    assert!((found / target - 1.0).abs() < within, "{name}: {found} instead of {target}");
}

/// A hash of every byte of a trace.
fn digest(reader: &mut dyn Reader) -> [u8; 32] {
    use sha1::Digest;
    let mut hasher = sha1::Sha1::new();
    let mut request = Request::default();
    while reader.next(&mut request).unwrap() {
        // Generators give no class, and the first digests were made of requests without.
        hasher.update(format!("{request:?}").replace("class: ClassId(0), ", ""));
    }
    let mut digest = [0; 32];
    digest[..20].copy_from_slice(&hasher.finalize());
    digest
}

fn at_most_8_kib(summary: &Summary) -> f64 {
    summary.sizes.iter().take(5).sum::<u64>() as f64 / summary.sizes.iter().sum::<u64>() as f64
}

#[test]
fn fiu_like_traces_have_the_published_figures() {
    // Volume in GB, footprint, sectors read and written, unique among written blocks, share of requests of at most 8 KiB.
    let published = [
        (
            "webvm",
            FiuLike::web_vm(0.02, 1),
            70.0,
            0.053,
            (24_931_648.0, 89_421_616.0),
            5_885_997.0 / 11_177_702.0,
            0.654,
        ),
        (
            "homes",
            FiuLike::homes(0.02, 1),
            470.0,
            0.058,
            (32_418_889.0, 136_881_792.0),
            11_356_165.0 / 17_110_237.0,
            0.846,
        ),
        (
            "mail",
            FiuLike::mail(0.002, 1),
            500.0,
            0.115,
            (410_786_016.0, 3_271_886_200.0),
            1_871_292.0 / 20_762_862.0,
            0.29,
        ),
    ];
    for (name, generator, volume_gb, footprint, (read, written), unique, small) in published {
        let summary = summarize(&mut generator.reader().unwrap()).unwrap();
        let volume = volume_gb * 1e9 * generator.scale;
        near(name, summary.reads.bytes as f64, read * 512.0 * generator.scale, 0.01);
        near(name, summary.writes.bytes as f64, written * 512.0 * generator.scale, 0.01);
        near(name, summary.footprint_bytes as f64 / volume, footprint, 0.02);
        assert!(summary.address_end as f64 <= volume, "{name}");
        near(name, summary.writes.count as f64 / summary.reads.count as f64, written / read, 0.05);
        near(name, 1.0 - summary.written_duplicate_share(), unique, 0.02);
        near(name, at_most_8_kib(&summary), small, 0.05);
        near(name, summary.span_ns() as f64 / 1e9 / 86_400.0, 21.0, 0.03);
        assert_eq!(summary.out_of_order, 0, "{name}");
    }
}

#[test]
fn records_of_fiu_like_traces_have_the_counts_and_sizes_of_the_header() {
    // Records in millions; the share that continues a stream in the public sample, in which all records have 4 KiB.
    let published = [
        (FiuLike::web_vm(0.02, 1), 14_294_158.0, 0.904),
        (FiuLike::homes(0.02, 1), 17_836_701.0, 0.602),
        (FiuLike::mail(0.002, 1), 460_334_027.0, 0.964),
    ];
    for (generator, count, sequential) in published {
        let summary = summarize(&mut generator.records().unwrap()).unwrap();
        near("records", summary.requests as f64, count * generator.scale, 0.01);
        near("records that continue", summary.sequential_share(), sequential, 0.2);
        assert_eq!(summary.out_of_order, 0);
        let requests = summarize(&mut generator.reader().unwrap()).unwrap();
        assert_eq!((summary.reads.bytes, summary.writes.bytes), (requests.reads.bytes, requests.writes.bytes));
        assert_eq!(summary.footprint_bytes, requests.footprint_bytes);
        assert_eq!(summary.unique_written_prints, requests.unique_written_prints);
    }
}

#[test]
fn records_of_a_request_are_its_blocks_in_order() {
    let like = FiuLike::homes(0.002, 1);
    let mut records = like.records().unwrap();
    let mut record = Request::default();
    for request in like.reader().unwrap().requests().map(Result::unwrap).take(2000) {
        let (mut at, mut prints) = (request.offset, Vec::new());
        while at < request.end() {
            assert!(records.next(&mut record).unwrap());
            assert_eq!((record.op, record.offset), (request.op, at));
            assert!(record.time_ns >= request.time_ns);
            prints.extend_from_slice(&record.fingerprints);
            at = record.end();
        }
        assert_eq!((at, prints), (request.end(), request.fingerprints));
    }
}

#[test]
fn mail_comes_back_to_what_it_touched_and_reads_more_places_than_it_writes() {
    let summary = summarize(&mut FiuLike::mail(0.002, 1).reader().unwrap()).unwrap();
    let touched = (summary.reads.bytes + summary.writes.bytes) as f64;
    // 57.5 GB of 1.9 TB.
    near("first touches", summary.footprint_bytes as f64 / touched, 0.0305, 0.03);
    assert!(summary.read_footprint_bytes > summary.written_footprint_bytes, "{summary:?}");
}

#[test]
fn what_a_volume_holds_before_the_trace_has_copies_of_whole_runs() {
    let mut contents = HashMap::new();
    let mut written = HashSet::new();
    for request in FiuLike::homes(0.005, 3).reader().unwrap().requests().map(Result::unwrap) {
        for (offset, print) in request.prints() {
            match request.op {
                Op::Write => drop(written.insert(offset)),
                _ if !written.contains(&offset) => drop(contents.insert(offset, *print)),
                _ => {}
            }
        }
    }
    let unique: HashSet<_> = contents.values().collect();
    // Of a copy and its original one alone may have been read.
    let ratio = contents.len() as f64 / unique.len() as f64;
    assert!((1.05..1.2).contains(&ratio), "{ratio}");
}

#[test]
fn reads_of_a_fiu_like_trace_return_what_was_written() {
    let mut contents = HashMap::new();
    for request in FiuLike::homes(0.005, 3).reader().unwrap().requests().map(Result::unwrap) {
        for (offset, print) in request.prints() {
            let before = contents.insert(offset, *print);
            assert!(request.op == Op::Write || before.is_none_or(|before| before == *print), "at {offset}");
        }
    }
}

#[test]
fn a_seed_makes_the_same_trace_and_another_one_another() {
    let zipf = |seed| Zipf { requests: 1000, write_share: 0.3, seed, ..Zipf::default() }.reader().unwrap();
    assert_eq!(digest(&mut zipf(1)), digest(&mut zipf(1)));
    assert_ne!(digest(&mut zipf(1)), digest(&mut zipf(2)));
    let mail = |seed| FiuLike::mail(0.00005, seed).reader().unwrap();
    assert_eq!(digest(&mut mail(1)), digest(&mut mail(1)));
    assert_ne!(digest(&mut mail(1)), digest(&mut mail(2)));
    let boot = |seed| BootStorm::new(boot_template(seed), 4, seed).reader().unwrap();
    assert_eq!(digest(&mut boot(1)), digest(&mut boot(1)));
    assert_ne!(digest(&mut boot(1)), digest(&mut boot(2)));
    let small = |seed| SnapshotChain { image_bytes: 8 << 20, snapshots: 5, seed, ..SnapshotChain::default() };
    assert_eq!(digest(&mut small(1).changes().unwrap()), digest(&mut small(1).changes().unwrap()));
    assert_ne!(digest(&mut small(1).changes().unwrap()), digest(&mut small(2).changes().unwrap()));
}

#[test]
fn traces_stay_what_they_were() {
    // The first bytes of the digests of traces, as they are published: whoever has figures of one can repeat them. The FIU-like ones were
    // made anew twice: when their counts became those of 21 days, and when their requests had the sizes of the samples' runs.
    let zipf = Zipf { requests: 1000, write_share: 0.3, ..Zipf::default() };
    let chain = SnapshotChain { image_bytes: 8 << 20, snapshots: 5, ..SnapshotChain::default() };
    let found = [
        digest(&mut zipf.reader().unwrap())[..4].to_vec(),
        digest(&mut FiuLike::web_vm(0.001, 1).reader().unwrap())[..4].to_vec(),
        digest(&mut BootStorm::new(boot_template(1), 3, 1).reader().unwrap())[..4].to_vec(),
        digest(&mut chain.changes().unwrap())[..4].to_vec(),
    ];
    assert_eq!(found.concat(), [19, 217, 194, 230, 212, 192, 203, 119, 139, 248, 236, 95, 9, 185, 52, 93]);
}

#[test]
fn the_three_fiu_like_traces_stay_what_they_were() {
    // The first bytes of the hashes that reports print. A change of the generator, of any kind, changes the figures of
    // every report: it is stated there, and here.
    let hex =
        |like: FiuLike| like.digest().unwrap().0[..4].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let found = [FiuLike::web_vm(1.0, 1), FiuLike::homes(1.0, 1), FiuLike::mail(1.0, 1)].map(hex);
    assert_eq!(found, ["addea15e", "7081f70e", "c123e6b7"]);
}

#[test]
fn a_hash_of_a_fiu_like_trace_tells_every_change() {
    let digest = |like: FiuLike| like.digest().unwrap();
    let mail = || FiuLike::mail(0.0005, 1);
    let usual = digest(mail());
    assert_eq!(usual, digest(mail()));
    let changed = [
        FiuLike { seed: 2, ..mail() },
        FiuLike { scale: 0.0006, ..mail() },
        // No request shows it before the initial content is read.
        FiuLike { initial_dedup: 1.3, ..mail() },
        FiuLike { own_share: 0.81, ..mail() },
        // No request shows it: records are cut from requests.
        FiuLike { record_blocks: 1.1, ..mail() },
        FiuLike { same_place_share: 0.51, ..mail() },
        FiuLike { reuse: 0.1, ..mail() },
    ];
    for (number, changed) in changed.into_iter().enumerate() {
        assert_ne!(usual, digest(changed), "{number}");
    }
}

#[test]
fn boot_storms_share_what_they_should() {
    let template = boot_template(1);
    let alone = summarize(&mut Listed::new(template.clone())).unwrap();
    near("reads", alone.read_share(), 0.99, 0.01);
    let storm = BootStorm::new(template.clone(), 60, 1);
    let mut by_machine: HashMap<u32, Vec<Request>> = HashMap::new();
    let mut before = 0;
    for request in storm.reader().unwrap().requests().map(Result::unwrap) {
        assert!(request.time_ns >= before);
        before = request.time_ns;
        by_machine.entry(request.object).or_default().push(request);
    }
    assert_eq!(by_machine.len(), 60);
    let space = template.iter().map(Request::end).max().unwrap();
    let mut shifts = Vec::new();
    let (mut same, mut all) = (0, 0);
    for (machine, requests) in by_machine {
        assert_eq!(requests.len(), template.len());
        let shift = requests[0].offset - template[0].offset;
        assert!(shift as f64 <= 0.15 * space as f64 && (machine > 0 || shift == 0));
        shifts.push(shift);
        for (request, original) in requests.iter().zip(&template).filter(|_| machine > 0) {
            assert_eq!((request.op, request.offset, request.len), (original.op, original.offset + shift, original.len));
            all += original.fingerprints.len();
            same += request.fingerprints.iter().zip(&original.fingerprints).filter(|(a, b)| a == b).count();
        }
    }
    near("overlap", same as f64 / all as f64, 0.9, 0.01);
    shifts.sort_unstable();
    assert!(shifts[59] as f64 > 0.13 * space as f64 && shifts[30] > shifts[5], "shifts are spread");
}

#[test]
fn the_boot_template_has_the_papers_figures() {
    let (mut random, mut all, mut next) = (0, 0, 0);
    let mut prints = HashMap::new();
    for request in (0..20).flat_map(boot_template).filter(|request| request.op == Op::Read) {
        all += 1;
        random += u32::from(request.offset != next);
        next = request.end();
    }
    near("random", f64::from(random) / f64::from(all), 0.14, 0.1);
    for request in boot_template(1).into_iter().filter(|request| request.op == Op::Read) {
        prints.extend(request.prints().map(|(offset, print)| (offset, *print)));
    }
    assert_eq!(prints.len(), (18 << 20) / 4096, "the kernel has 18 MB");
    let unique: HashSet<_> = prints.values().collect();
    near("dedup ratio", prints.len() as f64 / unique.len() as f64, 1.2, 0.05);
}

#[test]
fn snapshots_overlap_with_the_primary_as_in_figure_10() {
    let chain = SnapshotChain { image_bytes: 1 << 30, ..SnapshotChain::default() };
    let mean = |group: std::ops::Range<u32>| group.map(|snapshot| chain.overlap(snapshot, 99)).sum::<f64>() / 25.0;
    near("newest", mean(75..100), 0.8, 0.05);
    near("oldest", mean(0..25), 0.2, 0.1);
    let daily: f64 = (1..100).map(|day| 1.0 - chain.overlap(day - 1, day)).sum::<f64>() / 99.0;
    near("daily change", daily, 0.023, 0.05);
}

#[test]
fn backups_changes_and_restores_agree() {
    let chain = SnapshotChain { image_bytes: 33 << 20, snapshots: 12, ..SnapshotChain::default() };
    let mut image = HashMap::new();
    let mut images = Vec::new();
    let mut day = 0;
    for request in chain.changes().unwrap().requests().map(Result::unwrap) {
        let today = request.time_ns / 86_400_000_000_000;
        while day < today {
            images.push(image.clone());
            day += 1;
        }
        image.extend(request.prints().map(|(offset, print)| (offset, *print)));
    }
    images.resize(12, image);
    for request in chain.backups().unwrap().requests().map(Result::unwrap) {
        assert_eq!(request.op, Op::Write);
        for (offset, print) in request.prints() {
            assert_eq!(images[request.object as usize][&offset], *print, "snapshot {} at {offset}", request.object);
        }
    }
    let restored: Vec<_> = chain.restore(7).unwrap().requests().map(Result::unwrap).collect();
    assert_eq!(restored.len(), 66, "512 KiB at a time");
    for (offset, print) in restored.iter().flat_map(Request::prints) {
        assert_eq!(images[7][&offset], *print);
    }
    assert!(chain.restore(12).is_err());
}

#[test]
fn random_reads_have_the_working_set_and_dedup_ratio() {
    assert_eq!(RandomReads::grid(1 << 30, u64::MAX, 1).count(), 100);
    for generator in RandomReads::grid(4 << 20, 100_000, 1).step_by(7) {
        let summary = summarize(&mut generator.reader().unwrap()).unwrap();
        // Ten reads an extent leave hardly any out.
        near("working set", summary.footprint_bytes as f64, generator.working_set_bytes as f64, 0.001);
        let extents = generator.working_set_bytes as f64 / 8192.0;
        near("dedup ratio", extents / summary.unique_prints as f64, generator.dedup_ratio, 0.01);
        assert_eq!((summary.reads.count, summary.writes.count), (generator.requests, 0));
    }
}

#[test]
fn zipf_follows_its_law() {
    for exponent in [0.0, 0.6, 0.99, 1.0, 1.2, 3.0] {
        let objects = 1000u32;
        let zipf = Zipf { objects: objects.into(), exponent, requests: 200_000, scattered: false, ..Zipf::default() };
        let mut counts = vec![0.0; objects as usize];
        for request in zipf.reader().unwrap().requests() {
            counts[(request.unwrap().offset / 4096) as usize] += 1.0;
        }
        let weights: Vec<f64> = (1..=objects).map(|rank| f64::from(rank).powf(-exponent)).collect();
        let whole: f64 = weights.iter().sum();
        // Pearson's test, over ranks expected at least 5 times; the bound is exceeded once in some 10⁵ seeds.
        let expected: Vec<f64> = weights.iter().map(|weight| 200_000.0 * weight / whole).collect();
        let usual: Vec<_> = counts.iter().zip(&expected).filter(|(_, expected)| **expected >= 5.0).collect();
        let chi2: f64 = usual.iter().map(|(count, expected)| (*count - *expected).powi(2) / *expected).sum();
        let freedom = usual.len() as f64;
        assert!(chi2 < freedom + 5.0 * (2.0 * freedom).sqrt(), "exponent {exponent}: {chi2} for {freedom}");
    }
}

#[test]
fn zipf_scatters_and_writes_as_asked() {
    let zipf = Zipf { objects: 1000, requests: 50_000, write_share: 0.25, ..Zipf::default() };
    let summary = summarize(&mut zipf.reader().unwrap()).unwrap();
    near("writes", 1.0 - summary.read_share(), 0.25, 0.03);
    let mut counts = HashMap::new();
    zipf.reader().unwrap().requests().for_each(|request| *counts.entry(request.unwrap().offset).or_insert(0) += 1);
    let most = counts.iter().max_by_key(|(_, count)| **count).unwrap();
    assert_ne!(*most.0, 0, "the most popular object is somewhere");
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    assert!(Zipf { objects: 0, ..Zipf::default() }.reader().is_err());
    assert!(Zipf { exponent: f64::NAN, ..Zipf::default() }.reader().is_err());
    assert!(FiuLike::mail(0.0, 1).reader().is_err());
    assert!(FiuLike::mail(f64::INFINITY, 1).reader().is_err());
    assert!(FiuLike { reuse: -1.0, ..FiuLike::mail(0.1, 1) }.reader().is_err());
    assert!(FiuLike { sizes: [0.0; 6], ..FiuLike::mail(0.1, 1) }.reader().is_err());
    assert!(FiuLike { record_blocks: 2.0, ..FiuLike::mail(0.1, 1) }.reader().is_err());
    assert!(FiuLike { footprint_share: 1.0, ..FiuLike::mail(0.1, 1) }.reader().is_err());
    assert!(BootStorm { overlap: 2.0, ..BootStorm::new(boot_template(1), 2, 1) }.reader().is_err());
    assert!(SnapshotChain { change_bytes: 100, ..SnapshotChain::default() }.changes().is_err());
    assert!(SnapshotChain { pinned_share: 1.0, ..SnapshotChain::default() }.changes().is_err());
    let reads = RandomReads::grid(1 << 20, 10, 1).next().unwrap();
    assert!(RandomReads { dedup_ratio: 0.5, ..reads.clone() }.reader().is_err());
    assert!(RandomReads { request_bytes: 0, ..reads }.reader().is_err());
}

#[test]
fn a_boot_of_several_disks_is_refused() {
    let read = |object| Request { object, len: 4096, ..Request::default() };
    let storm = |objects: [u32; 2]| BootStorm::recorded(&mut Listed::new(objects.map(read)), 3, 1);
    assert_eq!(storm([5, 5]).unwrap().template.len(), 2);
    assert!(storm([5, 6]).unwrap_err().to_string().contains("several disks"));
}

#[test]
fn the_recorded_boot_is_one() {
    let boot = recorded_boot().unwrap();
    let storm = BootStorm::new(boot, 4, 1);
    let one = summarize(&mut BootStorm { machines: 1, ..storm.clone() }.reader().unwrap()).unwrap();
    assert_eq!((one.requests, one.reads.count, one.writes.count, one.flushes.count), (1424, 1265, 98, 61));
    assert!((60 << 20..90 << 20).contains(&one.footprint_bytes) && one.exact);
    let four = summarize(&mut storm.reader().unwrap()).unwrap();
    assert_eq!((four.requests, four.objects), (4 * 1424, 4));
    // Nine of ten blocks are those of the first machine.
    let new = (four.unique_prints - one.unique_prints) as f64 / one.unique_prints as f64 / 3.0;
    assert!((0.05..0.15).contains(&new), "{new}");
}

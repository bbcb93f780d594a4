//! Getting out of damaged devices what can be had.

use super::image::{ALPHA, EXTENT, Ram, Stopped, content, histories, settings, steps};
use super::make;
use super::verdict::{check, now, salvage_all};
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault, FaultyDevice};
use nitro_engine::format::journal::{Header, Kind};
use nitro_engine::format::superblock::{Superblock, superblock_offsets};
use nitro_engine::inspect::{self, Severity, Standing, Trust};
use nitro_engine::{Cache, Error};
use nitro_port::{Device, ErrorKind, Operation};
use nitro_testkit::VirtualTime;
use std::ops::Range;
use std::sync::Arc;

const MIB: usize = 1 << 20;

/// The batches of the half that counts, by where they stand on the device.
fn batches(image: &[u8]) -> Vec<(Range<usize>, Kind)> {
    let report = check(&Ram::new(image.to_vec())).unwrap().journal;
    let half = &report.halves[report.active_half.unwrap() as usize];
    let (mut at, end) = (half.offset as usize, (half.offset + half.used_bytes) as usize);
    let mut batches = Vec::new();
    while at < end {
        let (header, _) = Header::decode(&image[at..]).unwrap();
        batches.push((at..at + header.batch_bytes as usize, header.kind));
        at += header.batch_bytes as usize;
    }
    batches
}

fn dirty_in_full() -> Vec<u64> {
    let all = (0..).zip(histories(ALPHA));
    all.filter(|(_, history)| history.is_dirty()).map(|(extent, _)| extent).collect()
}

/// An image whose first MiB, or last, is zeroes; and where the superblock is that went with it.
fn without_end(of: usize) -> (Vec<u8>, u64) {
    let mut image = make::image();
    let len = image.len();
    image[if of == 0 { 0..MIB } else { len - MIB..len }].fill(0);
    (image, superblock_offsets(len as u64)[of])
}

#[test]
fn one_superblock_is_enough() {
    for of in 0..2 {
        let (image, lost) = without_end(of);
        let flash = Ram::new(image);
        let problems = check(&flash).unwrap().problems;
        assert_eq!(problems.iter().map(|p| (p.severity, p.offset)).collect::<Vec<_>>(), [(Severity::Metadata, lost)]);
        let (extents, salvaged) = salvage_all(&flash, ALPHA, Trust::Journal).unwrap();
        assert_eq!(extents.keys().copied().collect::<Vec<_>>(), dirty_in_full());
        assert_eq!((salvaged.unreadable, salvaged.doubtful, salvaged.older), (vec![], vec![], vec![]));
        assert_eq!(salvaged.bytes, 34 * EXTENT - 2048, "the volume ends within the last extent");
    }
}

#[test]
fn a_start_works_from_either_superblock_and_writes_the_other_again() {
    for of in 0..2 {
        let flash = Arc::new(Ram::new(without_end(of).0));
        let (_, recovered) = now(Cache::open(flash.clone(), Stopped, settings())).unwrap();
        assert_eq!((recovered.dirty_extents, recovered.lost_extents), (34, 0));
        let image = flash.image();
        let copies =
            superblock_offsets(image.len() as u64).map(|at| Superblock::decode(&image[at as usize..]).unwrap());
        assert_eq!(copies[0], copies[1]);
    }
}

#[test]
fn what_was_durable_behind_a_damaged_batch_is_got_out() {
    let mut image = make::image();
    let log: Vec<_> = batches(&image).into_iter().filter(|(_, kind)| *kind == Kind::Log).collect();
    let (damaged, _) = log[log.len() - 3].clone();
    image[damaged.start + 80] ^= 1;
    let flash = Ram::new(image.clone());
    let report = check(&flash).unwrap();
    assert_eq!((report.journal.lost_batches, report.worst()), (2, Some(Severity::DataLost)));
    let (extents, salvaged) = salvage_all(&flash, ALPHA, Trust::Journal).unwrap();
    assert_eq!(salvaged.journal.lost_batches, 2);
    let [_, behind] = steps().after_switch;
    for (extent, name) in behind {
        assert!(extents[&extent] == content(name), "extent {extent}");
    }
    let opened = now(Cache::open(flash, super::image::Stopped, settings()));
    assert!(matches!(opened, Err(Error::Damaged { .. })), "the engine refuses what lost durable batches");
}

#[test]
fn without_a_journal_headers_tell_what_may_be_dirty() {
    let mut image = make::image();
    let journal = Superblock::decode(&image).unwrap().journal;
    image[journal.offset as usize..(journal.offset + journal.len) as usize].fill(0xA5);
    let flash = Ram::new(image);
    let report = check(&flash).unwrap();
    assert_eq!((report.worst(), report.journal.unusable.is_some()), (Some(Severity::DataLost), true));
    let (extents, salvaged) = salvage_all(&flash, ALPHA, Trust::Journal).unwrap();
    assert!(extents.is_empty() && salvaged.journal.unusable.is_some());
    // The write-evict unit of dirty extents that has a header was filled before the restart.
    let (extents, salvaged) = salvage_all(&flash, ALPHA, Trust::HeadersToo).unwrap();
    assert!(salvaged.doubtful.iter().all(|range| range.standing == Standing::Possible));
    for (extent, name) in steps().before_restart {
        // Duplicates have no entry of their own.
        let is_base = extent != 21;
        assert_eq!(extents.contains_key(&extent), is_base, "extent {extent}");
        let known = if extent == 47 { EXTENT as usize / 2 } else { EXTENT as usize };
        assert!(!is_base || extents[&extent][..known] == content(name)[..known], "extent {extent}");
    }
}

#[test]
fn what_the_device_cannot_read_is_listed_and_the_rest_is_got_out() {
    let image = make::image();
    let superblock = Superblock::decode(&image).unwrap();
    let ram = RamDevice::new(image.len() as u64, 512);
    now(ram.write(0, image.into())).unwrap();
    let flash = FaultyDevice::new(ram, VirtualTime::default(), 3);
    let fail = |range| {
        flash.faults().clear();
        flash.faults().inject(Fault::new(Effect::Fail(ErrorKind::Io)).on(Operation::Read).within(range));
        let mut got = Vec::new();
        let salvaged = now(inspect::salvage(&flash, ALPHA, Trust::Journal, async |offset, _| {
            got.push(offset / EXTENT);
            Ok(())
        }));
        let mut unreadable: Vec<_> = salvaged.unwrap().unreadable.iter().map(|u| u.offset / EXTENT).collect();
        let lost = now(inspect::check(&flash, |_, _| {})).unwrap().counts.lost_extents;
        assert_eq!(lost, unreadable.len() as u64);
        unreadable.extend(got);
        unreadable.sort_unstable();
        assert_eq!(unreadable, dirty_in_full(), "each is got out, or listed");
        lost
    };
    let journal_end = superblock.journal.offset + superblock.journal.len;
    assert_eq!(fail(journal_end - 8192..journal_end), 0, "nothing stands there");
    let slots = (0..u64::from(superblock.weu_count))
        .map(|slot| superblock.data_offset + slot * u64::from(superblock.weu_bytes));
    let lost: Vec<u64> = slots.map(|at| fail(at..at + u64::from(superblock.weu_bytes))).collect();
    assert!(lost.iter().sum::<u64>() == 34 && lost.iter().filter(|lost| **lost > 0).count() >= 2, "{lost:?}");
}

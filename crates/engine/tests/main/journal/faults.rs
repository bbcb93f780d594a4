//! Devices that fail or damage what they hold.

use super::{AREA, EPOCH, FIRST, append, clean, copy, logged, now, read, recorder, recorder_of, state};
use nitro_device::faulty::{Effect, Fault, FaultyDevice};
use nitro_engine::Error;
use nitro_engine::format::FormatError;
use nitro_engine::format::journal::{Header, HeaderCrc, Kind};
use nitro_engine::journal::{AppendError, Area, Identity, Journal};
use nitro_port::{Device, ErrorKind, Operation};
use nitro_testkit::{CrashingDevice, VirtualTime};
use std::collections::BTreeMap;

#[test]
fn a_failed_append_ends_the_half() {
    let flash = recorder(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..3);
    flash.fail_once_after(0);
    assert!(matches!(now(journal.append(&flash, &[clean(3, 3)])), Err(AppendError::Device(_))));
    assert!(matches!(now(journal.append(&flash, &[clean(4, 4)])), Err(AppendError::Full)));
    assert_eq!(journal.room(), 0);
    journal.begin_snapshot();
    now(journal.finish_snapshot(&flash, &[clean(9, 9)])).unwrap();
    append(&mut journal, &flash, [10]);
    assert_eq!(state(&read(&flash)), BTreeMap::from([(9, 9), (10, 10)]));
}

#[test]
fn a_failed_part_costs_the_snapshot_and_a_failed_end_the_journal() {
    let flash = recorder(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    journal.begin_snapshot();
    flash.fail_once_after(0);
    assert!(now(journal.snapshot_part(&flash, &[clean(1, 1)])).is_err());
    let missing = now(journal.finish_snapshot(&flash, &[]));
    assert!(matches!(missing, Err(AppendError::Device(_))), "a part is missing");
    append(&mut journal, &flash, [0]);
    // Flush, end, flush, the old half made void.
    for operation in 0..4 {
        let flash = copy(&flash);
        let mut journal = read(&flash).resume(1, FIRST);
        journal.begin_snapshot();
        flash.fail_once_after(operation);
        assert!(matches!(now(journal.finish_snapshot(&flash, &[clean(7, 7)])), Err(AppendError::Device(_))));
        let again = now(journal.append(&flash, &[clean(8, 8)]));
        assert!(matches!(again, Err(AppendError::Device(_))), "nobody knows which half counts");
        journal.begin_snapshot();
        assert!(now(journal.finish_snapshot(&flash, &[])).is_err());
        let found = state(&read(&flash));
        assert!(found == BTreeMap::from([(0, 0)]) || found == BTreeMap::from([(7, 7)]));
    }
}

#[test]
fn nothing_is_written_over_a_write_that_may_be_under_way() {
    let flash = recorder(512);
    now(Journal::create(&flash, AREA, FIRST)).unwrap();
    let hanging = FaultyDevice::new(copy(&flash), VirtualTime::default(), 1);
    hanging.faults().inject(Fault::new(Effect::Hang).on(Operation::Write));
    for part in [false, true] {
        let mut journal = read(&flash).resume(0, FIRST);
        journal.begin_snapshot();
        let dropped = match part {
            true => futures_util::FutureExt::now_or_never(journal.snapshot_part(&hanging, &[])),
            false => futures_util::FutureExt::now_or_never(journal.append(&hanging, &[])),
        };
        assert!(dropped.is_none());
        journal.begin_snapshot();
        assert!(matches!(now(journal.append(&flash, &[])), Err(AppendError::Device(_))));
        assert!(matches!(now(journal.snapshot_part(&flash, &[])), Err(AppendError::Device(_))));
    }
}

#[test]
fn a_flipped_bit_ends_the_log_or_is_an_error_and_damage_is_told_from_a_tear() {
    let flash = recorder(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..2);
    journal.begin_snapshot();
    now(journal.snapshot_part(&flash, &[clean(50, 50)])).unwrap();
    now(journal.finish_snapshot(&flash, &[clean(51, 51)])).unwrap();
    append(&mut journal, &flash, 2..7);
    now(journal.append(&flash, &[clean(7, 7)])).unwrap();
    let half = AREA.offset as usize + journal.half_bytes() as usize;
    // Two batches of snapshot, four whose flush the eighth bears witness of, one that was not known to be durable.
    for byte in half..half + 8 * 512 {
        let mut image = flash.image();
        image[byte] ^= 1 << (byte % 8);
        let damaged = CrashingDevice::recorded(image, 512);
        let batch = (byte - half) / 512;
        let found = now(Journal::read(&damaged, AREA, EPOCH));
        match batch {
            0 if (8..12).contains(&(byte - half)) => {
                assert!(matches!(found, Err(Error::Format(FormatError::Version { .. }))))
            }
            0 | 1 => assert!(matches!(found, Err(Error::Format(FormatError::Checksum { .. })))),
            _ => {
                let replay = found.unwrap().unwrap();
                assert_eq!(logged(&replay), (2..batch as u64).collect::<Vec<_>>(), "byte {byte}");
                let lost = if batch < 6 { 6 - batch as u32 } else { 0 };
                assert_eq!(replay.lost_batches(), lost, "byte {byte}");
            }
        }
    }
}

#[test]
fn a_confirmation_shows_damage_and_gives_way_to_the_next_batch() {
    let flash = recorder(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..3);
    assert!(!journal.is_unconfirmed(), "nothing is known of the last batch");
    let position = journal.position();
    now(flash.flush()).unwrap();
    journal.flushed(position);
    let room = journal.room();
    assert!(journal.is_unconfirmed());
    now(journal.confirm(&flash)).unwrap();
    assert!(!journal.is_unconfirmed() && journal.room() == room);
    let replay = read(&flash);
    assert_eq!((logged(&replay), replay.lost_batches()), (vec![0, 1, 2], 0));
    let durable: Vec<_> = replay.batches().iter().map(|batch| replay.was_durable(batch)).collect();
    assert_eq!(durable, [true, true, true, true, false], "snapshot, three batches, confirmation");
    let last = AREA.offset + 3 * 512;
    for byte in last..last + 512 {
        let mut image = flash.image();
        image[byte as usize] ^= 8;
        assert_eq!(read(&CrashingDevice::recorded(image, 512)).lost_batches(), 1, "byte {byte}");
    }
    // A start continues behind it, and the writer in its place.
    let copied = copy(&flash);
    let mut resumed = replay.resume(4, FIRST);
    append(&mut resumed, &copied, [9]);
    assert_eq!(logged(&read(&copied)), [0, 1, 2, 9]);
    append(&mut journal, &flash, [3, 4]);
    let replay = read(&flash);
    assert_eq!((logged(&replay), replay.lost_batches()), (vec![0, 1, 2, 3, 4], 0));
}

#[test]
fn what_does_not_continue_the_row_ends_it() {
    let flash = recorder(512);
    let mut journal = now(Journal::create(&flash, AREA, Identity { start: 5, ..FIRST })).unwrap();
    append(&mut journal, &flash, 0..4);
    let at = AREA.offset as usize + 3 * 512;
    let (header, _) = Header::decode(&flash.image()[at..]).unwrap();
    let sound = |h: Header| h;
    let epoch = |h: Header| Header { epoch: h.epoch + 1, ..h };
    let sequence = |h: Header| Header { sequence: h.sequence + 1, ..h };
    let start = |h: Header| Header { start: h.start - 1, ..h };
    let number = |h: Header| Header { number: h.number + 1, ..h };
    let kind = |h: Header| Header { kind: Kind::SnapshotPart, ..h };
    let chain = |h: Header| Header { previous: HeaderCrc(h.previous.0 ^ 1), ..h };
    let changes: [fn(Header) -> Header; 7] = [sound, epoch, sequence, start, number, kind, chain];
    for (n, change) in changes.into_iter().enumerate() {
        let mut image = flash.image();
        change(header).encode(&mut image[at..]);
        let expected: &[u64] = if n == 0 { &[0, 1, 2, 3] } else { &[0, 1] };
        assert_eq!(logged(&read(&CrashingDevice::recorded(image, 512))), expected, "change {n}");
    }
}

#[test]
fn no_sequence_is_used_twice() {
    let flash = recorder(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    let half = journal.half_bytes() as usize;
    let sequence = |half_at| Header::decode(&flash.image()[half_at..]).unwrap().0.sequence;
    assert_eq!(sequence(AREA.offset as usize), 1);
    for expected in 2..6 {
        // Abandoned by a restart.
        journal.begin_snapshot();
        now(journal.snapshot_part(&flash, &[clean(1, 1)])).unwrap();
        assert_eq!(sequence(AREA.offset as usize + half), expected);
        journal = read(&flash).resume(0, FIRST);
    }
}

/// A start does not wait for the empty part of a large journal.
#[test]
fn a_journal_is_read_no_further_than_it_was_ever_written() {
    const MIB: u64 = 1 << 20;
    let area = Area { len: 64 * MIB, ..AREA };
    let half = area.len / 2;
    let flash = FaultyDevice::new(recorder_of(512, area.offset + area.len), VirtualTime::default(), 1);
    let mut journal = now(Journal::create(&flash, area, FIRST)).unwrap();
    let many: Vec<_> = (0..10_000).map(|n| clean(n, 1)).collect();
    let (mut written, mut batches) = (512, 0);
    while written < 6 * MIB {
        journal.flushed(journal.position());
        written += now(journal.append(&flash, &many)).unwrap().0;
        batches += 1;
    }
    let unreadable = |range: std::ops::Range<u64>| {
        let fault = Fault::new(Effect::Fail(ErrorKind::Io)).on(Operation::Read);
        flash.faults().inject(fault.within(area.offset + range.start..area.offset + range.end))
    };
    unreadable(written + 9 * MIB..half);
    unreadable(half + 4 * MIB..area.len);
    let replay = now(Journal::read(&flash, area, EPOCH)).unwrap().unwrap();
    assert_eq!((replay.log_batches(), replay.lost_batches()), (batches, 0));

    // Where a batch cannot be read, those behind it are looked for.
    flash.inner().damage(area.offset + 512, &[0xEE; 512]);
    let replay = now(Journal::read(&flash, area, EPOCH)).unwrap().unwrap();
    assert_eq!((replay.log_batches(), replay.lost_batches()), (0, batches as u32 - 1));
}

#[test]
fn other_formattings_and_other_devices_are_no_journal() {
    let flash = recorder(512);
    assert!(now(Journal::read(&flash, AREA, EPOCH)).unwrap().is_none(), "never formatted");
    now(Journal::create(&flash, AREA, FIRST)).unwrap();
    assert!(now(Journal::read(&flash, AREA, EPOCH + 1)).unwrap().is_none(), "another epoch");
    flash.fail_once_after(0);
    assert!(matches!(now(Journal::read(&flash, AREA, EPOCH)), Err(Error::Flash(_))));
    for (area, kind) in [
        (Area { offset: 4096 + 512, ..AREA }, ErrorKind::Misaligned),
        (Area { len: 4096, ..AREA }, ErrorKind::NoSpace),
        (Area { len: AREA.len * 2, ..AREA }, ErrorKind::OutOfRange),
    ] {
        assert_eq!(now(Journal::create(&flash, area, FIRST)).err().unwrap().kind, kind);
    }
}

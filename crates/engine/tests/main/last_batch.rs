//! The last batch of the journal, damaged: what a kill or a power cut had cut off is dropped, and what had been flushed is an
//! error, extent by extent, or a refusal to start.

use crate::commits::{MIB, Machine};
use bytes::Bytes;
use futures_util::FutureExt;
use nitro_device::RamDevice;
use nitro_engine::format::journal::{BATCH_UNIT_BYTES, Header};
use nitro_engine::{CrashMemory, EngineSettings, Error, ErrorKind, WriteMode};
use nitro_port::codec::Compression;
use nitro_port::{Clock, Device};
use nitro_testkit::Rng;
use std::time::Duration;

const EXTENT: u64 = 4096;
const EXTENTS: u64 = MIB / EXTENT;

/// The content of an extent.
fn content(extent: u64) -> Bytes {
    let mut rng = Rng::new(extent);
    (0..EXTENT / 8).flat_map(|_| rng.next().to_le_bytes()).collect()
}

/// When the program is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Killed {
    /// As soon as the flush has returned.
    AtOnce,
    /// A few milliseconds later.
    Later,
}

/// A machine with a cache that was killed after everything was flushed.
fn killed(when: Killed) -> Machine {
    let machine = Machine::new();
    let settings = EngineSettings { compression: Compression::None, ram_cache_bytes: 0, ..machine.settings };
    let mut machine = Machine { settings, ..machine };
    let (sim, volume) = machine.start(WriteMode::WriteBack);
    let clock = sim.clock.clone();
    sim.run(async move {
        for extent in 0..EXTENTS {
            volume.write(extent * EXTENT, content(extent), false).await.unwrap();
        }
        volume.flush().await.unwrap();
        if when == Killed::Later {
            clock.sleep(Duration::from_millis(20)).await;
        }
    });
    sim.end();
    machine
}

fn image(flash: &RamDevice) -> Bytes {
    flash.read(0, flash.geometry().size_bytes as usize).now_or_never().unwrap().unwrap()
}

/// Flips a bit of the cache.
fn flip(machine: &Machine, at: usize) {
    let block = at / 512 * 512;
    let mut bytes = image(&machine.flash)[block..block + 512].to_vec();
    bytes[at - block] ^= 4;
    machine.flash.write(block as u64, bytes.into()).now_or_never().unwrap().unwrap();
}

/// Where the stored bytes of an extent are.
fn place(machine: &Machine, extent: u64) -> usize {
    let (image, content) = (image(&machine.flash), content(extent));
    (0..image.len()).step_by(8).find(|at| image[*at..].starts_with(&content[..64])).expect("it is stored")
}

/// The batches of the journal that have records, in the order in which they were written.
fn batches(machine: &Machine) -> Vec<usize> {
    let image = image(&machine.flash);
    let places = (0..image.len()).step_by(BATCH_UNIT_BYTES);
    let mut found: Vec<_> = places.filter_map(|at| Some((Header::decode(&image[at..]).ok()?.0, at))).collect();
    found.retain(|(header, _)| header.records > 0);
    found.sort_by_key(|(header, _)| (header.sequence, header.number));
    found.into_iter().map(|(_, at)| at).collect()
}

/// What reads give after a start: how many extents are right, errors, and zeroes, as the origin has them.
fn read_all(machine: &mut Machine) -> Result<[usize; 3], Error> {
    let (sim, volume) = machine.try_start(WriteMode::WriteBack)?;
    let counts = sim.run(async move {
        let mut counts = [0; 3];
        for extent in 0..EXTENTS {
            let kind = match volume.read(extent * EXTENT, EXTENT).await {
                Ok(read) if read.concat() == content(extent) => 0,
                Ok(read) if read.concat() == [0; EXTENT as usize] => 2,
                Ok(_) => panic!("foreign bytes in extent {extent}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
                    1
                }
            };
            counts[kind] += 1;
        }
        // Named as soon as the origin is to be brought up to date.
        let destaged = volume.destage_all().await.map_err(|error| error.kind());
        assert_eq!(destaged.err(), (counts[1] > 0).then_some(ErrorKind::Lost));
        assert_eq!(volume.lost_ranges().len(), counts[1], "errors that are not counted");
        counts
    });
    sim.end();
    Ok(counts)
}

/// The memory is lost with the machine, or the program knows that it is of another start.
fn forget(machine: &mut Machine) {
    let memory = machine.settings.crash_memory.map(|memory| CrashMemory { identity: [2; 16], ..memory });
    machine.settings.crash_memory = memory;
}

const ALL: usize = EXTENTS as usize;

#[test]
fn an_unreadable_extent_of_the_last_flushed_batch_is_lost_alone() {
    for (when, remembers) in [(Killed::AtOnce, true), (Killed::Later, true), (Killed::Later, false)] {
        let mut machine = killed(when);
        if !remembers {
            forget(&mut machine);
        }
        flip(&machine, place(&machine, EXTENTS - 1) + 100);
        assert_eq!(read_all(&mut machine).unwrap(), [ALL - 1, 1, 0], "{when:?}, remembers: {remembers}");
    }
}

#[test]
fn a_batch_that_nothing_says_was_flushed_is_dropped() {
    let mut machine = killed(Killed::AtOnce);
    forget(&mut machine);
    flip(&machine, place(&machine, EXTENTS - 1) + 100);
    let [right, errors, _] = read_all(&mut machine).unwrap();
    assert!(errors == 0 && right < ALL, "{right} right, {errors} errors");
}

#[test]
fn a_damaged_batch_that_was_flushed_is_a_refusal_by_name() {
    for (when, remembers) in [(Killed::AtOnce, true), (Killed::Later, true), (Killed::Later, false)] {
        // In the header, and in the records.
        for byte in [20, 100] {
            let mut machine = killed(when);
            if !remembers {
                forget(&mut machine);
            }
            let last = *batches(&machine).last().unwrap();
            flip(&machine, last + byte);
            let refused = read_all(&mut machine).unwrap_err();
            assert!(matches!(refused, Error::Damaged { .. }), "{when:?}, byte {byte}: {refused}");
        }
    }
}

#[test]
fn without_damage_everything_is_there_whatever_is_known_of_the_flush() {
    for (when, remembers) in [(Killed::AtOnce, true), (Killed::AtOnce, false), (Killed::Later, false)] {
        let mut machine = killed(when);
        if !remembers {
            forget(&mut machine);
        }
        // A start that is killed before it commits anything of its own.
        drop(machine.start(WriteMode::WriteBack));
        assert_eq!(read_all(&mut machine).unwrap(), [ALL, 0, 0]);
    }
}

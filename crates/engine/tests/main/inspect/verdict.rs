//! What must hold of a device, whole or damaged: the engine started on it, `check`, `dirty` and `salvage` never panic,
//! and never give bytes that an extent did not have.

use super::image::{ALPHA, BETA, EXTENT, History, Ram, Stopped, VOLUME_BYTES, content, histories, origin, settings};
use futures_util::FutureExt;
use nitro_engine::inspect::{self, Report, Salvaged, Severity, Standing, Trust};
use nitro_engine::{Cache, ErrorKind, Volume, VolumeOptions, WriteMode};
use nitro_units::ObjectId;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

/// What the damage leaves to rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trusted {
    /// The journal is whole: every extent is what it was last, or known to be lost.
    Journal,
    /// The journal may seem to end early: an extent may be what it was before.
    Checksums,
    /// Checksums were made anew: nothing but that nobody panics.
    Nothing,
}

/// An extent of a volume.
type Extent = (ObjectId, u64);

/// RAM is never pending.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().unwrap()
}

/// The bytes of an extent that are within its volume.
fn len_of(object: ObjectId, extent: u64) -> usize {
    (VOLUME_BYTES[usize::from(object.0)] - extent * EXTENT).min(EXTENT) as usize
}

fn was_ever(object: ObjectId, extent: u64, history: &History, bytes: &[u8]) -> bool {
    let len = len_of(object, extent);
    // Who does not know where the volume ends gets a whole extent.
    let whole = [len, EXTENT as usize].contains(&bytes.len());
    whole && history.names.iter().any(|name| content(*name)[..len] == bytes[..len])
}

fn is_newest(object: ObjectId, extent: u64, history: &History, bytes: &[u8]) -> bool {
    history.newest()[..len_of(object, extent)] == *bytes
}

/// Starts the engine on the device and reads everything: the extents that were lost. `None`: no start.
fn read_all(flash: Ram, trusted: Trusted) -> Option<BTreeSet<Extent>> {
    let (cache, _) = now(Cache::open(flash, Stopped, settings())).ok()?;
    // It loads what is clean, then waits for the clock.
    assert!(cache.journal_worker().now_or_never().is_none());
    let mut lost = BTreeSet::new();
    for object in [ALPHA, BETA] {
        let options = VolumeOptions { object, read_only: false, mode: WriteMode::WriteBack };
        let volume = Volume::new(cache.clone(), origin(object, false), options);
        for (extent, history) in (0..).zip(&histories(object)) {
            match now(volume.read(extent * EXTENT, len_of(object, extent) as u64)) {
                Ok(pieces) if trusted == Trusted::Journal => {
                    assert!(
                        is_newest(object, extent, history, &pieces.concat()),
                        "{object:?} {extent} is old or wrong"
                    );
                }
                Ok(pieces) if trusted == Trusted::Checksums => {
                    assert!(was_ever(object, extent, history, &pieces.concat()), "{object:?} {extent} is wrong");
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Lost => drop(lost.insert((object, extent))),
                Err(error) => panic!("{object:?} {extent}: {error}"),
            }
        }
    }
    Some(lost)
}

/// Gets everything out of the device: by extent, and what was said about it.
pub fn salvage_all(flash: &Ram, object: ObjectId, trust: Trust) -> Option<(BTreeMap<u64, Vec<u8>>, Salvaged)> {
    let mut extents = BTreeMap::new();
    let mut last = None;
    let salvaged = now(inspect::salvage(flash, object, trust, async |offset, bytes| {
        assert!(last < Some(offset), "not in order");
        last = Some(offset);
        extents.insert(offset / EXTENT, bytes.to_vec());
        Ok(())
    }));
    salvaged.ok().map(|salvaged| (extents, salvaged))
}

/// Checks the device: `None` where there is no superblock.
pub fn check(flash: &Ram) -> Option<Report> {
    let mut last = (0, 0);
    let report = now(inspect::check(flash, |done, total| last = (done, total)));
    assert_eq!(last.0, last.1, "not all is done");
    report.ok()
}

/// The extents that a report calls lost.
pub fn lost_in(report: &Report) -> BTreeSet<Extent> {
    let lost = report.problems.iter().filter(|problem| problem.severity == Severity::DataLost);
    lost.filter_map(|p| p.content.as_ref()).map(|c| (ObjectId(c.object), c.offset / EXTENT)).collect()
}

/// Looks at a device in every way, and compares.
pub fn judge(image: Vec<u8>, trusted: Trusted) {
    let flash = Ram::new(image);
    let report = check(&flash);
    let mut unreadable = BTreeSet::new();
    for object in [ALPHA, BETA] {
        for trust in [Trust::Journal, Trust::HeadersToo] {
            let Some((extents, salvaged)) = salvage_all(&flash, object, trust) else { continue };
            let histories = histories(object);
            for (extent, bytes) in extents.iter().filter(|_| trusted != Trusted::Nothing) {
                let history = &histories[*extent as usize];
                assert!(was_ever(object, *extent, history, bytes), "salvaged {object:?} {extent} is wrong");
                if trusted == Trusted::Journal {
                    assert!(history.is_dirty() && is_newest(object, *extent, history, bytes), "{object:?} {extent}");
                }
            }
            if trusted == Trusted::Journal {
                let missed = (0..).zip(&histories).filter(|(n, h)| h.is_dirty() && !extents.contains_key(n));
                let missed: BTreeSet<u64> = missed.map(|(n, _)| n).collect();
                let told = salvaged.unreadable.iter().map(|u| u.offset / EXTENT).collect();
                assert_eq!(missed, told, "unreadable extents");
                unreadable.extend(missed.into_iter().map(|extent| (object, extent)));
            }
        }
    }
    if let Ok(dirty) = now(inspect::dirty(&flash, Trust::HeadersToo)) {
        let standings = dirty.volumes.iter().flat_map(|v| &v.ranges).map(|r| r.standing);
        let certain = standings.filter(|standing| *standing == Standing::Certain).count();
        assert!(trusted != Trusted::Journal || certain > 0);
    }
    assert_eq!(flash.writes(), 0, "looking at a device changes it");
    let started = read_all(flash, trusted);
    if trusted == Trusted::Journal {
        let Some(started) = started else { return assert!(report.is_none(), "the engine refuses what check does not") };
        assert_eq!(started, unreadable, "salvage gets what the engine cannot read, or does not get what it can");
        assert_eq!(lost_in(&report.unwrap()), started, "check finds other extents lost than the engine");
    }
}

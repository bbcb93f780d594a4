//! Extraction of dirty data.

use super::JournalReport;
use super::slots::{Damage, Found, Headers};
use super::view::{Target, View};
use crate::error::Error;
use crate::format::weu::Head;
use crate::recovery::{READS_AT_ONCE, State};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use nitro_port::{Device, DeviceError};
use nitro_units::{ExtentIndex, ExtentKey, ObjectId};
use serde::Serialize;
use std::collections::BTreeMap;

/// Which structures are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// The journal: extents that are dirty according to it.
    #[default]
    Journal,
    /// If the journal is damaged or unusable, also its remains, and the headers of write-evict units for dirty extents.
    /// Contents from there are possibly dirty, and possibly outdated.
    HeadersToo,
}

/// How certain it is that an extent is dirty and its content is the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The journal says so.
    Certain,
    /// Only the journal's last batch says so, and its data are incomplete: most likely it was never acknowledged as
    /// durable.
    Unflushed,
    /// Possibly dirty, possibly outdated: see [`Trust::HeadersToo`].
    Possible,
    /// An earlier start found that it is lost.
    Lost,
    /// It is in the write log, acknowledged, and newer than the content in the cache; see [`logged`](super::logged()).
    Logged,
}

/// A dirty range of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DirtyRange {
    /// First byte within the volume.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// How certain it is.
    pub standing: Standing,
}

/// A volume with dirty content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DirtyVolume {
    /// Its number in the cache.
    pub object: u16,
    /// Its name, if the journal has it.
    pub name: Option<String>,
    /// Its size in bytes, if the journal has it.
    pub origin_bytes: Option<u64>,
    /// Its dirty ranges, in order.
    pub ranges: Vec<DirtyRange>,
}

/// The dirty data of a cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dirty {
    /// The journal from which this comes.
    pub journal: JournalReport,
    /// The volumes, by number.
    pub volumes: Vec<DirtyVolume>,
}

/// A range that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// First byte within the volume.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// How certain it is that it was dirty.
    pub standing: Standing,
    /// The reason.
    pub reason: String,
}

/// The result of the extraction of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Salvaged {
    /// The journal from which the dirty data come.
    pub journal: JournalReport,
    /// Extents passed to the sink.
    pub extents: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Ranges passed to the sink that are possibly outdated, or possibly not dirty.
    pub doubtful: Vec<DirtyRange>,
    /// Ranges whose newer version is damaged, so that an older one was passed on. They are also listed in `unreadable`.
    pub older: Vec<DirtyRange>,
    /// Ranges that could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// One version of an extent.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    version: u64,
    standing: Standing,
    target: Option<Target>,
}

/// The versions of extents that may be dirty, the newest first.
type Candidates = BTreeMap<ExtentKey, Vec<Candidate>>;

/// Lists dirty extents by volume. Reads superblock, journal and headers, and the data of the journal's last batch.
///
/// # Errors
/// [`Error::Flash`] or [`Error::Format`] where no superblock is valid.
pub async fn dirty<F: Device>(flash: &F, trust: Trust) -> Result<Dirty, Error> {
    let view = View::open(flash, true).await?;
    let extent_bytes = u64::from(view.slots.superblock.extent_bytes);
    let mut ranges: BTreeMap<ObjectId, Vec<DirtyRange>> = BTreeMap::new();
    for (key, found) in candidates(&view, trust, None).await {
        let Some(first) = found.first() else { continue };
        let range = range_of(key.index(), extent_bytes, first.standing);
        push(ranges.entry(key.object()).or_default(), range);
    }
    let volumes = ranges.into_iter().map(|(object, ranges)| {
        let known = view.state.volumes.get(&object);
        let (name, origin_bytes) = (known.map(|v| v.name.clone()), known.map(|v| v.origin_bytes));
        DirtyVolume { object: object.0, name, origin_bytes, ranges }
    });
    Ok(Dirty { volumes: volumes.collect(), journal: view.journal })
}

/// Passes the dirty data of a volume to `sink`: offset within the volume and bytes, in the order of the offsets, in
/// whole extents except at the volume's end. Works with one superblock, with a damaged journal, and with damaged
/// headers whose entries are in the journal. If the newest version of an extent is damaged, an older one that may be
/// the last acknowledged version is used, if there is one.
///
/// # Errors
/// [`Error::Flash`] or [`Error::Format`] where no superblock is valid; [`Error::Origin`] with what `sink` failed with.
pub async fn salvage<F: Device>(
    flash: &F,
    object: ObjectId,
    trust: Trust,
    mut sink: impl AsyncFnMut(u64, Bytes) -> Result<(), DeviceError>,
) -> Result<Salvaged, Error> {
    let view = View::open(flash, true).await?;
    let extent_bytes = u64::from(view.slots.superblock.extent_bytes);
    let end = view.state.volumes.get(&object).map_or(u64::MAX, |volume| volume.origin_bytes);
    let candidates = candidates(&view, trust, Some(object)).await;
    let weus = candidates.values().flatten().filter_map(|c| c.target.map(|(weu, ..)| weu));
    let headers = view.slots.headers(weus.collect()).await;
    let mut salvaged = Salvaged {
        journal: view.journal.clone(),
        extents: 0,
        bytes: 0,
        doubtful: Vec::new(),
        older: Vec::new(),
        unreadable: Vec::new(),
    };
    let fetches = candidates.into_iter().map(async |(key, found)| (key, best(&view, &headers, found).await));
    let mut fetches = stream::iter(fetches).buffered(READS_AT_ONCE);
    while let Some((key, Best { content, failed })) = fetches.next().await {
        let range = |standing| range_of(key.index(), extent_bytes, standing);
        for (standing, damage) in &failed {
            let DirtyRange { offset, len, .. } = range(*standing);
            let (standing, reason) = (*standing, damage.to_string());
            salvaged.unreadable.push(Unreadable { offset, len, standing, reason });
        }
        let Some((standing, mut bytes)) = content else { continue };
        let at = range(standing);
        if standing != Standing::Certain {
            push(&mut salvaged.doubtful, at);
        }
        if !failed.is_empty() {
            push(&mut salvaged.older, at);
        }
        bytes.truncate(end.saturating_sub(at.offset).min(at.len) as usize);
        if !bytes.is_empty() {
            salvaged.extents += 1;
            salvaged.bytes += bytes.len() as u64;
            sink(at.offset, bytes).await.map_err(Error::Origin)?;
        }
    }
    Ok(salvaged)
}

/// The newest readable version, and the newer versions that cannot be read.
struct Best {
    content: Option<(Standing, Bytes)>,
    failed: Vec<(Standing, Damage)>,
}

async fn best<F: Device>(view: &View<'_, F>, headers: &Headers, candidates: Vec<Candidate>) -> Best {
    let mut failed = Vec::new();
    for Candidate { standing, target, .. } in candidates {
        let Some(target) = target else {
            failed.push((standing, Damage::Nowhere));
            continue;
        };
        match view.fetch(headers, target).await {
            Ok(bytes) => return Best { content: Some((standing, bytes)), failed },
            Err(damage) => failed.push((standing, damage)),
        }
    }
    Best { content: None, failed }
}

/// What may be dirty, of one volume or all.
async fn candidates<F: Device>(view: &View<'_, F>, trust: Trust, object: Option<ObjectId>) -> Candidates {
    let mut candidates = Candidates::new();
    let mut note = |key: ExtentKey, candidate: Candidate| {
        if object.is_none_or(|object| object == key.object()) {
            candidates.entry(key).or_default().push(candidate);
        }
    };
    let usable = view.journal.unusable.is_none();
    if usable || trust == Trust::HeadersToo {
        let standing = if usable { Standing::Certain } else { Standing::Possible };
        for (key, version, target) in view.state.dirty() {
            let standing = if target.is_none() { Standing::Lost } else { standing };
            note(key, Candidate { version, standing, target });
        }
        for (key, version, target) in view.unfinished.iter().flat_map(State::dirty) {
            if view.state.keys.get(&key).is_none_or(|(known, _)| *known < version) {
                note(key, Candidate { version, standing: Standing::Unflushed, target });
            }
        }
    }
    if trust == Trust::HeadersToo && !view.is_complete() {
        named_by_headers(view, note).await;
    }
    for found in candidates.values_mut() {
        found.sort_by_key(|candidate| std::cmp::Reverse(candidate.version));
    }
    candidates
}

/// Entries of headers that are not in the journal.
async fn named_by_headers<F: Device>(view: &View<'_, F>, mut note: impl FnMut(ExtentKey, Candidate)) {
    let horizon = if view.journal.unusable.is_some() { 0 } else { view.horizon };
    let reads = view.slots.all().map(async |weu| {
        let Found::Head(head) = view.slots.head(weu).await else { return None };
        let wanted = head.dirty && head.version >= horizon && head.generation > view.state.evicted(weu);
        if !wanted {
            return None;
        }
        view.slots.table(&head).await.ok().map(|entries| (head, entries))
    });
    let mut reads = stream::iter(reads).buffer_unordered(READS_AT_ONCE);
    while let Some(read) = reads.next().await {
        let Some((head, entries)) = read else { continue };
        for (number, entry) in (0u16..).zip(entries) {
            let Head { weu, generation, .. } = head;
            let known = view.state.keys.get(&entry.key).is_some_and(|(version, _)| *version >= entry.version);
            if entry.version >= horizon
                && !known
                && !view.state.is_void(weu, generation, number.into(), entry.key, entry.version)
            {
                let target = Some((weu, generation, number));
                note(entry.key, Candidate { version: entry.version, standing: Standing::Possible, target });
            }
        }
    }
}

fn range_of(index: ExtentIndex, extent_bytes: u64, standing: Standing) -> DirtyRange {
    DirtyRange { offset: index.0.saturating_mul(extent_bytes), len: extent_bytes, standing }
}

/// Adds a range behind the others.
fn push(ranges: &mut Vec<DirtyRange>, next: DirtyRange) {
    match ranges.last_mut() {
        Some(last) if last.standing == next.standing && last.offset.checked_add(last.len) == Some(next.offset) => {
            last.len += next.len
        }
        _ => ranges.push(next),
    }
}

//! Making a volume, and taking one over.
//!
//! A server that opens a volume for writing writes a generation of its own at once, its *opening*. Whoever wrote the generation before
//! cannot write another one from then on: its next one has the opening's number. Openings are never deleted, so that this holds for
//! ever, however late an old server wakes.

use crate::error::S3Error;
use crate::format::{
    Header, Id, MANIFEST_BYTES_MAX, MANIFESTS, Manifest, SNAPSHOTS, Segment, Snapshot, VOLUME, manifest_name,
    parse_manifest, segment_name, snapshot_name,
};
use crate::map::Map;
use crate::patient::{Claim, Patient};
use crate::runs::Runs;
use crate::store::Store;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use nitro_log::FormatError;
use nitro_port::Clock;
use std::time::Duration;

/// Attempts to read a manifest that changes meanwhile.
const ATTEMPTS: usize = 20;
/// Segments that are read at once.
const SEGMENTS_AT_ONCE: usize = 16;

/// A generation that was read, with its map.
pub(crate) struct Loaded {
    /// As the object `volume` has it.
    pub(crate) original: Header,
    /// With the size of this generation.
    pub(crate) header: Header,
    pub(crate) manifest: Manifest,
    pub(crate) map: Map,
    /// Older generations that are no openings, which nobody needs.
    pub(crate) stale: Vec<u64>,
}

fn format(name: &str) -> impl Fn(FormatError) -> S3Error + '_ {
    move |why| S3Error::Format { name: name.to_owned(), why }
}

/// Makes a volume.
///
/// # Errors
/// There is something under the prefix already, or the store refuses.
pub(crate) async fn create<S: Store, C: Clock>(store: &Patient<S, C>, header: &Header) -> Result<(), S3Error> {
    if let Some((field, value)) = header.refused() {
        let why = FormatError::Field { structure: VOLUME, field, value };
        return Err(S3Error::Format { name: VOLUME.to_owned(), why });
    }
    for folder in [MANIFESTS, crate::format::SEGMENTS, crate::format::DATA, SNAPSHOTS] {
        if let Some(found) = store.list(folder, None).await?.into_iter().next() {
            return Err(S3Error::NotEmpty(found));
        }
    }
    match store.claim(VOLUME, header.encode().into()).await? {
        Claim::Ours => Ok(()),
        Claim::Others => Err(S3Error::NotEmpty(VOLUME.to_owned())),
    }
}

/// The header of the volume.
///
/// # Errors
/// There is no volume, or it is damaged.
pub(crate) async fn header<S: Store, C: Clock>(store: &Patient<S, C>) -> Result<Header, S3Error> {
    match store.get(VOLUME, 0..Header::BYTES + 1).await? {
        Some(bytes) => Header::decode(&bytes).map_err(format(VOLUME)),
        None => Err(S3Error::NoVolume),
    }
}

/// All generations, in order.
async fn generations<S: Store, C: Clock>(store: &Patient<S, C>, after: Option<u64>) -> Result<Vec<u64>, S3Error> {
    let (mut all, mut after) = (Vec::new(), after.map(manifest_name));
    loop {
        let page = store.list(MANIFESTS, after.as_deref()).await?;
        let Some(last) = page.last().cloned() else { return Ok(all) };
        all.extend(page.iter().filter_map(|name| parse_manifest(name)));
        after = Some(last);
    }
}

/// Reads the newest generation; `None`: it was replaced meanwhile.
async fn newest<S: Store, C: Clock>(store: &Patient<S, C>, original: Header) -> Result<Option<Loaded>, S3Error> {
    let all = generations(store, None).await?;
    let Some(newest) = all.last().copied() else {
        let segments = vec![Id::HOLE; original.segments() as usize];
        let Header { uuid, .. } = original;
        let (runs, notes, grown_bytes, snapshots) = Default::default();
        let manifest = Manifest {
            uuid,
            generation: 0,
            nonce: 0,
            opened: 0,
            changed_ns: 0,
            segments,
            runs,
            notes,
            grown_bytes,
            snapshots,
        };
        let (header, map, stale) = (original, Map::empty(original), Vec::new());
        return Ok(Some(Loaded { original, header, manifest, map, stale }));
    };
    let name = manifest_name(newest);
    let Some(manifest) = manifest(store, &original, &name, newest).await? else { return Ok(None) };
    let Some(map) = map(store, &original, &manifest).await? else {
        let is_newest = generations(store, Some(newest)).await?.is_empty();
        return if is_newest { Err(S3Error::Missing(format!("a segment of {name}"))) } else { Ok(None) };
    };
    // Those of the writer of the newest one; openings stay.
    let stale = all.into_iter().filter(|found| (manifest.opened + 1..newest).contains(found)).collect();
    Ok(Some(Loaded { original, header: manifest.header(&original), manifest, map, stale }))
}

/// The manifest of a generation, in the object of this name; `None`: it is not there.
async fn manifest<S: Store, C: Clock>(
    store: &Patient<S, C>,
    original: &Header,
    name: &str,
    generation: u64,
) -> Result<Option<Manifest>, S3Error> {
    let Some(bytes) = store.get(name, 0..MANIFEST_BYTES_MAX + 1).await? else { return Ok(None) };
    let manifest = Manifest::decode(&bytes, original).map_err(format(name))?;
    let is_ours = manifest.uuid == original.uuid && manifest.generation == generation;
    if is_ours { Ok(Some(manifest)) } else { Err(S3Error::Foreign(name.to_owned())) }
}

/// The map of a manifest; `None`: a segment is not there.
async fn map<S: Store, C: Clock>(
    store: &Patient<S, C>,
    original: &Header,
    manifest: &Manifest,
) -> Result<Option<Map>, S3Error> {
    let header = manifest.header(original);
    let mut map = Map::empty(header);
    let wanted = manifest.segments.iter().copied().zip(0..).filter(|(id, _)| !id.is_hole());
    let segments = stream::iter(wanted.map(|(id, index)| async move { segment(store, &header, index, id).await }));
    let segments: Vec<Option<Segment>> = segments.buffer_unordered(SEGMENTS_AT_ONCE).try_collect().await?;
    for segment in segments {
        let Some(segment) = segment else { return Ok(None) };
        map.load(segment);
    }
    map.apply(&manifest.changes(), |_, _| {});
    Ok(Some(map))
}

/// What a snapshot has, without its segments.
pub(crate) struct Held {
    pub(crate) header: Header,
    pub(crate) segments: Vec<Id>,
    pub(crate) runs: Runs,
}

/// What a snapshot of the volume has; `None`: its manifest is not there.
pub(crate) async fn held<S: Store, C: Clock>(
    store: &Patient<S, C>,
    original: &Header,
    snapshot: &Snapshot,
) -> Result<Option<Held>, S3Error> {
    let manifest = manifest(store, original, &snapshot_name(snapshot.id), snapshot.generation).await?;
    Ok(manifest.map(|manifest| Held {
        header: manifest.header(original),
        runs: manifest.changes(),
        segments: manifest.segments,
    }))
}

/// Reads a snapshot of the volume, without taking it over.
///
/// # Errors
/// As [`load`], or there is no such snapshot.
pub(crate) async fn load_snapshot<S: Store, C: Clock>(store: &Patient<S, C>, name: &str) -> Result<Loaded, S3Error> {
    for _ in 0..ATTEMPTS {
        let Loaded { original, manifest: newest, .. } = load(store).await?;
        let Some(snapshot) = newest.snapshots.into_iter().find(|snapshot| snapshot.name == name) else {
            return Err(S3Error::NoSnapshot(name.to_owned()));
        };
        // If it is not there, it was deleted meanwhile.
        if let Some(manifest) = manifest(store, &original, &snapshot_name(snapshot.id), snapshot.generation).await?
            && let Some(map) = map(store, &original, &manifest).await?
        {
            return Ok(Loaded { original, header: manifest.header(&original), manifest, map, stale: Vec::new() });
        }
        store.pause(Duration::from_millis(200)).await;
    }
    Err(S3Error::Missing(format!("an object of the snapshot {name}")))
}

/// A segment; `None`: it is not there.
pub(crate) async fn segment<S: Store, C: Clock>(
    store: &Patient<S, C>,
    header: &Header,
    index: u64,
    id: Id,
) -> Result<Option<Segment>, S3Error> {
    let name = segment_name(index, id);
    let Some(bytes) = store.get(&name, 0..Segment::BYTES_MAX + 1).await? else { return Ok(None) };
    let segment = Segment::decode(&bytes, header, index).map_err(format(&name))?;
    if segment.uuid == header.uuid { Ok(Some(segment)) } else { Err(S3Error::Foreign(name)) }
}

/// Reads the newest generation of the volume, without taking it over.
///
/// # Errors
/// There is no volume, it is damaged, or the store refuses.
pub(crate) async fn load<S: Store, C: Clock>(store: &Patient<S, C>) -> Result<Loaded, S3Error> {
    let header = header(store).await?;
    for _ in 0..ATTEMPTS {
        if let Some(loaded) = newest(store, header).await? {
            return Ok(loaded);
        }
        store.pause(Duration::from_millis(200)).await;
    }
    Err(S3Error::Busy)
}

/// Takes the volume over: from now on, no other server can write to it.
///
/// # Errors
/// As [`load`], or another server takes it over at the same time.
pub(crate) async fn take_over<S: Store, C: Clock>(store: &Patient<S, C>) -> Result<Loaded, S3Error> {
    for _ in 0..ATTEMPTS {
        let mut loaded = load(store).await?;
        let (before, its_opening) = (loaded.manifest.generation, loaded.manifest.opened);
        let opening = &mut loaded.manifest;
        opening.generation += 1;
        (opening.opened, opening.nonce) = (opening.generation, store.random());
        let claim = store.claim(&manifest_name(opening.generation), opening.encode().into()).await?;
        if claim == Claim::Others {
            continue;
        }
        // This server may have slept since it read the list: then the number may have been used, and deleted again.
        let newer = generations(store, Some(opening.generation)).await?;
        if let Some(generation) = newer.first().copied() {
            return Err(S3Error::Fenced { generation });
        }
        if before != its_opening {
            loaded.stale.push(before);
        }
        return Ok(loaded);
    }
    Err(S3Error::Busy)
}

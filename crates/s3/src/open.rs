//! Making a volume, and taking one over.
//!
//! A server that opens a volume for writing writes a generation of its own at once, its *opening*. Whoever wrote the generation before
//! cannot write another one from then on: its next one has the opening's number. Openings are never deleted, so that this holds for
//! ever, however late an old server wakes.

use crate::error::S3Error;
use crate::format::{
    Header, Id, MANIFEST_BYTES_MAX, MANIFESTS, Manifest, Segment, VOLUME, manifest_name, parse_manifest, segment_name,
};
use crate::map::Map;
use crate::patient::{Claim, Patient};
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
    for folder in [MANIFESTS, crate::format::SEGMENTS, crate::format::DATA] {
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
async fn newest<S: Store, C: Clock>(store: &Patient<S, C>, header: Header) -> Result<Option<Loaded>, S3Error> {
    let all = generations(store, None).await?;
    let mut map = Map::empty(header);
    let Some(newest) = all.last().copied() else {
        let segments = vec![Id::HOLE; header.segments() as usize];
        let Header { uuid, .. } = header;
        let (runs, notes) = (Vec::new(), Default::default());
        let manifest = Manifest { uuid, generation: 0, nonce: 0, opened: 0, changed_ns: 0, segments, runs, notes };
        return Ok(Some(Loaded { header, manifest, map, stale: Vec::new() }));
    };
    let name = manifest_name(newest);
    let Some(bytes) = store.get(&name, 0..MANIFEST_BYTES_MAX + 1).await? else { return Ok(None) };
    let manifest = Manifest::decode(&bytes, &header).map_err(format(&name))?;
    if manifest.uuid != header.uuid || manifest.generation != newest {
        return Err(S3Error::Foreign(name));
    }
    let wanted = manifest.segments.iter().copied().zip(0..).filter(|(id, _)| !id.is_hole());
    let segments = stream::iter(wanted.map(|(id, index)| async move { segment(store, &header, index, id).await }));
    let segments: Vec<Option<Segment>> = segments.buffer_unordered(SEGMENTS_AT_ONCE).try_collect().await?;
    for segment in segments {
        let Some(segment) = segment else {
            let is_newest = generations(store, Some(newest)).await?.is_empty();
            return if is_newest { Err(S3Error::Missing(format!("a segment of {name}"))) } else { Ok(None) };
        };
        map.load(segment);
    }
    map.apply(&manifest.changes(), |_, _| {});
    // Those of the writer of the newest one; openings stay.
    let stale = all.into_iter().filter(|found| (manifest.opened + 1..newest).contains(found)).collect();
    Ok(Some(Loaded { header, manifest, map, stale }))
}

/// A segment; `None`: it is not there.
async fn segment<S: Store, C: Clock>(
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

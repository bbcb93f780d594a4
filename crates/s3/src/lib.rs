//! A volume that is kept as objects of an S3 bucket, as a [`Device`](nitro_port::Device).
//!
//! Data are in objects of a chunk each, whose names are never used twice. Which objects make up the volume is in numbered
//! *generations* of a manifest; a generation is written with `If-None-Match: *` alone, so that one server writes it, and a server that
//! has lost the volume notices with its next one. docs/FORMAT.md has the tables.
//!
//! The logic ([`Volume`]) is over a small [`Store`], and names no runtime: tests run it against a store with faults, in virtual time.
//! [`start`] runs it on a thread of its own, with `object_store`.
#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod aws;
mod bill;
mod counters;
#[cfg(feature = "client")]
mod credentials;
mod device;
mod error;
mod format;
mod map;
mod open;
mod overlay;
mod patient;
mod probe;
mod runs;
mod store;
#[cfg(feature = "client")]
mod thread;
mod volume;

#[cfg(feature = "client")]
pub use aws::{Bucket, Place};
pub use bill::{Bill, Prices};
pub use counters::{S3Counters, S3Metrics};
pub use device::{Change, Jobs, S3Disk, S3Notes, serve};
pub use error::{S3Error, StoreError};
pub use format::{
    Header, Id, MANIFEST_BYTES_MAX, Manifest, NOTE_BYTES_MAX, NOTES, RUNS_MAX, Run, SEGMENT_CHUNKS, SNAPSHOT_NAME_MAX,
    SNAPSHOTS_MAX, Segment, Snapshot,
};
pub use store::{Put, Store};
#[cfg(feature = "client")]
pub use thread::{create as create_at, list as list_at, start};
pub use volume::{Options, Volume};

use nitro_port::Clock;
use patient::Patient;
use std::rc::Rc;

/// Makes a volume in a store, after the store was probed. `seed` is random.
///
/// # Errors
/// There is something already, or the store refuses or cannot keep a volume.
pub async fn create<S: Store, C: Clock>(
    store: S,
    clock: C,
    label: &str,
    seed: u64,
    header: &Header,
) -> Result<(), S3Error> {
    let store = Patient::new(store, clock, label, seed);
    probe::probe(&store).await?;
    open::create(&store, header).await
}

/// Opens a volume. For writing, the store is probed, and the volume is taken over from whoever had it. `seed` is random.
///
/// # Errors
/// There is no volume, or it is damaged, or the store refuses or cannot keep a volume.
pub async fn open<S: Store, C: Clock>(
    store: S,
    clock: C,
    label: &str,
    seed: u64,
    options: Options,
    is_read_only: bool,
) -> Result<Volume<S, C>, S3Error> {
    let store = Rc::new(Patient::new(store, clock, label, seed));
    let loaded = if is_read_only {
        open::load(&store).await?
    } else {
        // First: a prefix without a volume is left alone.
        open::header(&store).await?;
        probe::probe(&store).await?;
        open::take_over(&store).await?
    };
    Ok(Volume::new(store, loaded, options))
}

/// Opens a snapshot of a volume, for reading. `seed` is random.
///
/// # Errors
/// There is no volume, or no such snapshot, or it is damaged, or the store refuses.
pub async fn open_snapshot<S: Store, C: Clock>(
    store: S,
    clock: C,
    (label, name): (&str, &str),
    seed: u64,
    options: Options,
) -> Result<Volume<S, C>, S3Error> {
    let store = Rc::new(Patient::new(store, clock, label, seed));
    let loaded = open::load_snapshot(&store, name).await?;
    Ok(Volume::new(store, loaded, options))
}

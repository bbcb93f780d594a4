//! The journal: the state that a restart needs in addition to the WEU headers.
//!
//! An area of the cache device is divided into two halves. A half is a sequence of *batches*: a snapshot of the whole
//! state, then a log of the changes since. One half is active. When its log is full, a snapshot is written into the
//! other half, while the log continues in the old one; once the snapshot is complete and durable, the other half is
//! active. A crash at any time leaves one complete half. docs/FORMAT.md describes the format.
//!
//! Batches are chained by their headers' checksums, and no pair of a half's sequence and a start number is ever used
//! twice, so that bytes behind the end, from a crash, a failed write or an earlier use of the half, never continue the
//! log.

mod area;
mod budget;
mod replay;
mod tail;

pub use crate::format::journal::{DEAD_BYTES_MAX, LogPosition, Record, VERSION_MAX, VOLUME_NAME_BYTES_MAX};
pub use crate::format::superblock::Area;
pub(crate) use area::Halves;
pub use area::{Counts, SNAPSHOT_PART_BYTES};
pub use budget::Budget;
pub(crate) use budget::{DIRTY_BYTES, UNSEALED_BYTES};
pub(crate) use replay::Half;
pub use replay::{Batch, Replay};

use crate::error::Error;
use crate::format::journal::Kind;
use nitro_port::{Device, DeviceError, ErrorKind, Operation};
use tail::Tail;

/// A snapshot's first part is not smaller than this share of a half, nor than so many bytes.
const FIRST_PART_SHARE: u64 = 8;
const FIRST_PART_BYTES_MIN: u64 = 4096;

/// The identity of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The cache's formatting: random, never used before on this device.
    pub epoch: u64,
    /// How often the cache has been started; see [`Replay::next_start`].
    pub start: u32,
}

/// Bytes that a batch took on the device, header and padding included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct AppendedBytes(pub u64);

/// Why an append to the journal failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The active half has no room for the batch; a snapshot makes room. A half in which an append failed counts as
    /// full, because that batch may still appear in it.
    #[error("half the journal is full")]
    Full,
    /// The snapshot is larger than a half, and abandoned; the active half stays. This never happens in a cache that
    /// keeps to its [`Budget`].
    #[error(
        "the state of the cache does not fit into half its journal ({half_bytes} bytes); the device is sound, this is an \
         error of Nitro: please report it"
    )]
    SnapshotTooLarge {
        /// Bytes of a half.
        half_bytes: u64,
    },
    /// The device failed. What was to be appended may or may not be there after a restart.
    #[error("cache device: journal: {0}")]
    Device(#[from] DeviceError),
}

/// Counters since the journal was created or resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalCounters {
    /// Log batches.
    pub log_batches: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// Snapshots that became active.
    pub snapshots: u64,
    /// Bytes of snapshot batches, those of abandoned snapshots included.
    pub snapshot_bytes: u64,
}

/// A position in the log; see [`Journal::flushed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    sequence: u64,
    batches: u32,
}

/// How far the journal was flushed, as one word for memory that outlives the program: the lower half of the sequence of the
/// active half, then the number of its durable batches. 0: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Witness(pub(crate) u64);

impl Witness {
    const fn sequence(self) -> u32 {
        (self.0 >> 32) as u32
    }

    const fn batches(self) -> u32 {
        self.0 as u32
    }
}

/// A snapshot that is being written; after an error it can only be begun again.
struct Snapshot {
    tail: Tail,
    failed: Option<AppendError>,
}

/// The journal's write side; one task owns it. If a future of its methods is dropped before its end, its write may
/// still be in progress, so every later call fails.
pub struct Journal {
    halves: Halves,
    identity: Identity,
    active: Tail,
    snapshot: Option<Snapshot>,
    /// Above every sequence of this start and of the batches that it found.
    next_sequence: u64,
    counters: JournalCounters,
    /// It is unknown what a restart would find: nothing may be written.
    poisoned: Option<DeviceError>,
}

impl Journal {
    /// Creates a new journal, whose first half is active and has an empty snapshot. It is durable when this returns.
    ///
    /// # Errors
    /// [`DeviceError`]; [`ErrorKind::NoSpace`]: the area is too small; [`ErrorKind::Misaligned`]: it does not begin at
    /// a multiple of 4096.
    pub async fn create<F: Device>(flash: &F, area: Area, identity: Identity) -> Result<Self, DeviceError> {
        let halves = Halves::new(area, &flash.geometry(), Operation::Write)?;
        for half in 0..2 {
            flash.write(halves.offset(half), halves.zero_block()).await?;
        }
        flash.flush().await?;
        let mut journal = Self::new(halves, identity, Tail::new(1, 0), 1);
        journal.begin_snapshot();
        match journal.finish_snapshot(flash, &[]).await {
            Ok(_) => Ok(journal),
            Err(AppendError::Device(error)) => Err(error),
            Err(_) => Err(DeviceError::new(ErrorKind::NoSpace, Operation::Write, area.offset, area.len)),
        }
    }

    /// Reads the journal of the formatting `epoch`. `None`: there is none.
    ///
    /// Takes RAM for the part of the area that was ever written. See [`Replay`] for what must be done with the result.
    ///
    /// # Errors
    /// [`Error::Flash`]: the device cannot be read. [`Error::Format`]: the journal has another format version, or there
    /// are batches but no complete half, so the journal is damaged.
    pub async fn read<F: Device>(flash: &F, area: Area, epoch: u64) -> Result<Option<Replay>, Error> {
        replay::read(flash, area, epoch).await
    }

    fn new(halves: Halves, identity: Identity, active: Tail, next_sequence: u64) -> Self {
        let counters = JournalCounters::default();
        Self { halves, identity, active, snapshot: None, next_sequence, counters, poisoned: None }
    }

    /// Bytes left in the active half, for batches with header and padding.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.active.room(&self.halves)
    }

    /// Bytes that the active half has for the log, behind its snapshot.
    #[must_use]
    pub const fn log_bytes(&self) -> u64 {
        self.halves.half_bytes - self.active.log_at
    }

    /// Bytes of one half.
    #[must_use]
    pub const fn half_bytes(&self) -> u64 {
        self.halves.half_bytes
    }

    /// A good size in bytes of a snapshot's first part: less than [`SNAPSHOT_PART_BYTES`] in a small journal, so that
    /// commits get their turn there too.
    #[must_use]
    pub fn first_part_bytes(&self) -> u64 {
        (self.halves.half_bytes / FIRST_PART_SHARE).clamp(FIRST_PART_BYTES_MIN, SNAPSHOT_PART_BYTES)
    }

    /// Bytes that a batch of `payload_bytes` of records takes; see [`Record::encoded_bytes`].
    #[must_use]
    pub fn batch_bytes(&self, payload_bytes: u64) -> u64 {
        self.halves.batch_bytes(payload_bytes)
    }

    /// The start number that batches bear.
    #[must_use]
    pub const fn start(&self) -> u32 {
        self.identity.start
    }

    /// What was written.
    #[must_use]
    pub const fn counters(&self) -> JournalCounters {
        self.counters
    }

    /// Appends one batch to the log: after a crash, all of `records` are there or none. It is durable with the caller's
    /// next flush of the device. A crash may lose a batch together with all batches behind it.
    ///
    /// # Errors
    /// [`AppendError`]. After a failed append this half counts as full.
    ///
    /// # Panics
    /// If a record cannot be encoded; see [`Record::encode`].
    pub async fn append<F: Device>(&mut self, flash: &F, records: &[Record]) -> Result<AppendedBytes, AppendError> {
        self.enter()?;
        let written = self.active.write(flash, &self.halves, self.identity, Kind::Log, records).await;
        self.poisoned = None;
        let written = written?;
        self.counters.log_batches += 1;
        self.counters.log_bytes += written.0;
        Ok(written)
    }

    /// The present position of the log: to be taken before a flush, for [`flushed`](Self::flushed).
    #[must_use]
    pub const fn position(&self) -> Position {
        Position { sequence: self.active.sequence, batches: self.active.batches }
    }

    /// Notes that a flush which began at `position` has succeeded. Later batches record this, so that a reader can
    /// distinguish a damaged journal from one that ends there; see [`Replay::lost_batches`] and
    /// [`Replay::was_durable`].
    pub fn flushed(&mut self, position: Position) {
        if position.sequence == self.active.sequence {
            self.active.durable = self.active.durable.max(position.batches);
        }
    }

    /// What is known to be durable.
    pub(crate) const fn witness(&self) -> Witness {
        Witness(self.active.sequence << 32 | self.active.durable as u64)
    }

    /// Whether all batches are durable, and nothing on the device says so of the last one.
    #[must_use]
    pub const fn is_unconfirmed(&self) -> bool {
        self.active.durable == self.active.batches && self.active.confirmed < self.active.durable && !self.active.broken
    }

    /// Writes behind the last batch that it is durable, for a reader that finds it, or the data that it speaks of,
    /// unreadable. What is written is an empty batch without a flush of its own; the next batch, which says the same, takes
    /// its place.
    ///
    /// # Errors
    /// [`AppendError::Device`]. The half counts as full then.
    pub async fn confirm<F: Device>(&mut self, flash: &F) -> Result<AppendedBytes, AppendError> {
        self.enter()?;
        let written = self.active.confirm(flash, &self.halves, self.identity).await;
        self.poisoned = None;
        written
    }

    /// Begins a snapshot in the other half, or begins it again.
    pub fn begin_snapshot(&mut self) {
        let tail = Tail::new(1 - self.active.half, self.next_sequence);
        self.next_sequence = self.next_sequence.saturating_add(1);
        self.snapshot = Some(Snapshot { tail, failed: None });
    }

    /// Writes a part of the snapshot; [`first_part_bytes`](Self::first_part_bytes), then [`SNAPSHOT_PART_BYTES`], are good sizes. Appends may come between parts.
    ///
    /// # Errors
    /// [`AppendError::SnapshotTooLarge`] or [`AppendError::Device`]; the snapshot is abandoned then, and the active
    /// half stays as it was. Further calls fail until [`begin_snapshot`](Self::begin_snapshot).
    ///
    /// # Panics
    /// If no snapshot was begun; see also [`append`](Self::append).
    pub async fn snapshot_part<F: Device>(
        &mut self,
        flash: &F,
        records: &[Record],
    ) -> Result<AppendedBytes, AppendError> {
        self.enter()?;
        let written = self.write_snapshot(flash, Kind::SnapshotPart, records).await;
        self.poisoned = None;
        written
    }

    /// Ends the snapshot and makes its half the active one. `carry`: the records appended since the snapshot was begun
    /// that its parts do not contain. Flushes the device before and after the end; everything that was written before
    /// (snapshot, carried records and data) is durable when this returns.
    ///
    /// # Errors
    /// As [`snapshot_part`](Self::snapshot_part). After a device error in the end itself, or in a flush, it is unknown
    /// which half a restart would find: every later call fails with that error.
    ///
    /// # Panics
    /// If no snapshot was begun; see also [`append`](Self::append).
    pub async fn finish_snapshot<F: Device>(
        &mut self,
        flash: &F,
        carry: &[Record],
    ) -> Result<AppendedBytes, AppendError> {
        self.enter()?;
        if let Err(error) = self.check_snapshot(carry) {
            self.poisoned = None;
            return Err(error);
        }
        let written = self.end_snapshot(flash, carry).await;
        self.poisoned = match &written {
            Err(AppendError::Device(error)) => Some(error.clone()),
            _ => None,
        };
        written
    }

    async fn end_snapshot<F: Device>(&mut self, flash: &F, carry: &[Record]) -> Result<AppendedBytes, AppendError> {
        flash.flush().await?;
        let written = self.write_snapshot(flash, Kind::SnapshotEnd, carry).await?;
        flash.flush().await?;
        let old = self.active.half;
        if let Some(Snapshot { mut tail, .. }) = self.snapshot.take() {
            (tail.durable, tail.log_at) = (tail.batches, tail.at);
            self.active = tail;
        }
        self.counters.snapshots += 1;
        // Should the new half be damaged one day, the old one must not pass for the present state. This is durable no
        // later than the first log batch of the new half, before which both say the same.
        flash.write(self.halves.offset(old), self.halves.zero_block()).await?;
        Ok(written)
    }

    async fn write_snapshot<F: Device>(
        &mut self,
        flash: &F,
        kind: Kind,
        records: &[Record],
    ) -> Result<AppendedBytes, AppendError> {
        self.check_snapshot(records)?;
        let Some(snapshot) = &mut self.snapshot else { panic!("no snapshot was begun") };
        let written = snapshot.tail.write(flash, &self.halves, self.identity, kind, records).await;
        match &written {
            Ok(bytes) => self.counters.snapshot_bytes += bytes.0,
            Err(error) => snapshot.failed = Some(error.clone()),
        }
        written
    }

    /// Refuses calls after an error with unknown effect. It sets such an error until the caller removes it again: this
    /// is the error of a dropped future.
    fn enter(&mut self) -> Result<(), AppendError> {
        let dropped = DeviceError::new(ErrorKind::Io, Operation::Write, self.halves.offset(0), 0);
        match &self.poisoned {
            Some(error) => Err(AppendError::Device(error.clone())),
            None => {
                self.poisoned = Some(dropped);
                Ok(())
            }
        }
    }

    fn check_snapshot(&mut self, records: &[Record]) -> Result<(), AppendError> {
        let Some(snapshot) = &mut self.snapshot else { panic!("no snapshot was begun") };
        if snapshot.failed.is_none() && !snapshot.tail.fits(&self.halves, records) {
            snapshot.failed = Some(AppendError::SnapshotTooLarge { half_bytes: self.halves.half_bytes });
        }
        snapshot.failed.clone().map_or(Ok(()), Err)
    }
}

//! Attaching and closing an SSD: its content is kept only if it belongs to the current state of the store.

use super::stats::{SsdState, Tallies};
use super::timely::Timely;
use super::{Flash, Inner, PieceKind, SEALED_MAX, Short, Ssd, SsdOptions, piece};
use crate::Error;
use crate::format::ssd::{COPIES_AT, ENTRY_BYTES, Entry, SsdSuperblock, UnitTable};
use crate::format::superblock::Superblock;
use crate::format::{BLOCK_BYTES, checksum};
use bytes::Bytes;
use futures_util::future::join_all;
use hashbrown::HashSet;
use nitro_cache::weu::layout::{ENTRIES_MAX, HEAD_BYTES, PREFIX_BYTES, UNIT_BYTES};
use nitro_cache::weu::{Position, Stored};
use nitro_cache::{CacheManager, RestoredEntry};
use nitro_port::{Clock, Device};
use nitro_units::{ExtentKey, Generation, WeuId};
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of units whose headers or tables are read concurrently.
const READ_AT_ONCE: usize = 32;

/// An SSD for a store.
pub struct SsdSource {
    pub(crate) flash: Box<dyn Flash>,
    pub(crate) options: SsdOptions,
}

impl SsdSource {
    /// An SSD with its options. Its content is overwritten unless it belongs to this store.
    pub fn new(device: impl Device, options: SsdOptions) -> Self {
        Self { flash: Box::new(device), options }
    }

    /// The same SSD, but it is no longer used after an operation that takes longer than `limit`. Without this, the store
    /// waits for an SSD that hangs.
    #[must_use]
    pub fn within(self, clock: impl Clock, limit: Duration) -> Self {
        Self { flash: Box::new(Timely::new(self.flash, clock, limit)), ..self }
    }
}

impl std::fmt::Debug for SsdSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SsdSource").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The state of a store, which the content of an SSD may belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Session {
    /// The store was closed and not changed since; with the checksum of its last checkpoint.
    Closed(u64),
    /// The store is in use already.
    Open,
}

impl Ssd {
    /// Opens an SSD for a store. Its content is kept if the store is in the state in which both were closed.
    pub(crate) async fn open(source: SsdSource, store: &Superblock, session: Session) -> Result<Self, Error> {
        let SsdSource { flash, options } = source;
        let units = options.units(flash.geometry().size_bytes)?;
        let (found, why) = match read_superblock(&*flash).await {
            Ok(found) => (Some(found), why_empty(&found, store, session, (units, options))),
            Err(error @ Error::Device(_)) => return Err(error),
            Err(error) => (None, Some(error.to_string())),
        };
        let superblock = SsdSuperblock {
            unit_bytes: options.unit_bytes,
            identity: store.identity,
            session: 0,
            filling: match (found, &why) {
                (Some(found), None) => found.filling,
                _ => new_filling(store, found.map_or(0, |found| found.filling)),
            },
            units,
            extent_bytes: store.chunk_bytes,
            lz4: options.lz4,
            short_pages: options.short_pages(store),
        };
        let keys = piece::key_seed(store.seed, superblock.filling);
        let settings = options.manager(units, store, keys);
        let manager = CacheManager::new(settings).map_err(|error| Error::Setting {
            what: error.name,
            given: error.value,
            why: error.reason,
        })?;
        let short = Some(superblock.short_pages).filter(|pages| *pages > 0);
        let ram_need_bytes = SsdOptions::ram_bytes(&settings)
            + short.map_or(0, |pages| Short::ram_bytes_max(pages, store))
            + (PieceKind::ALL.len() + SEALED_MAX) as u64 * u64::from(options.unit_bytes);
        let ssd = Self {
            flash,
            options,
            superblock,
            keys,
            started: why.map_or(SsdState::Kept, |why| SsdState::Emptied { why }),
            inner: Mutex::new(Inner { manager, open: [None, None, None], sealed: Vec::new() }),
            failed: OnceLock::new(),
            closed: AtomicBool::new(false),
            troubles: AtomicU64::new(0),
            tallies: Tallies::default(),
            short: short.map(|pages| Short::new(pages, store)),
            ram_need_bytes,
        };
        // From here on, the SSD is in use: after a crash, its content is not valid.
        ssd.write_superblock(0).await?;
        if ssd.started == SsdState::Kept {
            ssd.restore().await;
        }
        Ok(ssd)
    }

    async fn write_superblock(&self, session: u64) -> Result<(), Error> {
        let page = SsdSuperblock { session, ..self.superblock }.encode().freeze();
        for at in COPIES_AT {
            self.flash.write(at, page.clone()).await?;
            self.flash.flush().await?;
        }
        Ok(())
    }

    /// Enters the content of the units in the manager, newest first. A unit with a damaged table counts as empty.
    async fn restore(&self) {
        let units: Vec<u32> = (0..self.superblock.units).collect();
        let mut heads = Vec::new();
        for some in units.chunks(READ_AT_ONCE) {
            heads.extend(join_all(some.iter().map(|unit| self.read_head(*unit))).await);
        }
        heads.sort_by_key(|head| std::cmp::Reverse(head.version));
        let newest = heads.first().map_or(0, |head| head.version);
        self.inner.lock().manager.begin_restore(newest);
        for some in heads.chunks(READ_AT_ONCE) {
            let tables = join_all(some.iter().map(|head| self.read_table(head))).await;
            let manager = &mut self.inner.lock().manager;
            for (head, entries) in some.iter().zip(tables) {
                let weu = WeuId(head.unit);
                match entries.filter(|entries| !entries.is_empty()) {
                    Some(entries) => drop(manager.restore_weu(weu, head.generation, &entries)),
                    None => manager.restore_free(weu, head.generation),
                }
            }
        }
        self.inner.lock().manager.end_restore();
    }

    async fn read_head(&self, unit: u32) -> Head {
        let at = self.unit_at(WeuId(unit));
        let empty = Head { unit, generation: Generation(0), version: 0, head: Bytes::new(), table: None };
        let Ok(head) = self.flash.read(at, BLOCK_BYTES).await else { return empty };
        let filling = self.superblock.filling;
        let Some(table) = UnitTable::place(&head, (unit, self.superblock.unit_bytes), filling) else { return empty };
        let (generation, version) = UnitTable::of_head(&head);
        // A copy, because there may be many, and each would keep a whole block in RAM.
        let head = Bytes::copy_from_slice(&head[..crate::format::ssd::HEAD_BYTES]);
        Head { unit, generation: Generation(generation), version, head, table: Some(table) }
    }

    /// The pieces of a unit, if its table is valid.
    async fn read_table(&self, head: &Head) -> Option<Vec<RestoredEntry>> {
        let (start, len) = head.table?;
        let from = start / BLOCK_BYTES * BLOCK_BYTES;
        let end = (start + len).next_multiple_of(BLOCK_BYTES).min(self.superblock.unit_bytes as usize);
        let at = self.unit_at(WeuId(head.unit)) + from as u64;
        let bytes = self.flash.read(at, end - from).await.ok()?;
        let table = bytes.get(start - from..start - from + len)?;
        let table = UnitTable::decode(&head.head, table, self.superblock.filling)?;
        restored(&table, self.superblock.unit_bytes, self.superblock.extent_bytes, self.short.is_some())
    }

    /// Closes the SSD with the store. Its content is used at the next start if the store is then in the state
    /// `session`.
    pub(crate) async fn close(&self, session: u64) {
        self.detach();
        if self.failed.get().is_some() || session == 0 {
            return;
        }
        let sealed: Vec<_> = {
            let mut inner = self.inner.lock();
            PieceKind::ALL.into_iter().filter_map(|kind| inner.seal(kind, self.superblock.filling)).collect()
        };
        for unit in sealed {
            self.write(unit).await;
        }
        if self.failed.get().is_some() {
            return;
        }
        let closed = async {
            self.flash.flush().await?;
            self.write_superblock(session).await
        };
        if let Err(error) = closed.await {
            self.fail(format!("closing failed: {}", reason(&error)));
        }
    }

    /// Whether it was closed or detached.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }
}

/// Why an operation on the SSD failed.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        // Its message is about the store's disk.
        Error::Device(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// The header of a unit.
struct Head {
    unit: u32,
    generation: Generation,
    version: u64,
    head: Bytes,
    /// The offset and length of the table.
    table: Option<(usize, usize)>,
}

async fn read_superblock(flash: &dyn Flash) -> Result<SsdSuperblock, Error> {
    let mut first = None;
    for at in COPIES_AT {
        match flash.read(at, BLOCK_BYTES).await.map_err(Error::from).and_then(|page| SsdSuperblock::decode(&page)) {
            Ok(found) => return Ok(found),
            Err(error) => drop(first.get_or_insert(error)),
        }
    }
    Err(first.unwrap_or_else(|| Error::NotAStore("the SSD has no superblock of a store's SSD".to_owned())))
}

/// The reason why the content of an SSD is not used; `None` if it is used.
fn why_empty(
    found: &SsdSuperblock,
    store: &Superblock,
    session: Session,
    (units, options): (u32, SsdOptions),
) -> Option<String> {
    let shape = (found.units, found.unit_bytes, found.extent_bytes);
    if found.identity != store.identity {
        return Some("it was the SSD of another store".to_owned());
    }
    if shape != (units, options.unit_bytes, store.chunk_bytes) {
        return Some("its size, or that of its units or the store's chunks, has changed".to_owned());
    }
    if found.lz4 != options.lz4 {
        return Some("the compression of its chunks has changed".to_owned());
    }
    if found.short_pages != options.short_pages(store) {
        return Some("what it caches of the fingerprint index has changed".to_owned());
    }
    match session {
        Session::Open => Some("it was attached while the store was in use".to_owned()),
        Session::Closed(_) if found.session == 0 => Some("the store was not closed after its last use".to_owned()),
        Session::Closed(session) if found.session == session => None,
        Session::Closed(_) => Some("the store has been used without it".to_owned()),
    }
}

/// A new filling number, different from the previous one of this SSD.
fn new_filling(store: &Superblock, before: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    checksum(&[before.to_le_bytes(), now.to_le_bytes()].concat(), store.seed, store.identity)
}

/// The entries of a table for the manager; `has_short`: pages of class `fpi` are of short fingerprints. `None` if they are not valid for a unit.
pub(crate) fn restored(
    table: &UnitTable,
    unit_bytes: u32,
    extent_bytes: u32,
    has_short: bool,
) -> Option<Vec<RestoredEntry>> {
    let mut raw_start = unit_bytes;
    let mut packed_end = HEAD_BYTES;
    if table.entries.len() > ENTRIES_MAX as usize {
        return None;
    }
    // A page of short fingerprints may have been replaced within the unit: the last one counts.
    let mut later = HashSet::new();
    let mut replaced: Vec<bool> = table.entries.iter().rev().map(|entry| !later.insert(entry.key)).collect();
    let restored = table.entries.iter().zip(0..).map(|(entry, number)| {
        let is_replaced = replaced.pop().unwrap_or_default();
        let Entry { key, offset, stored_bytes, check, class, raw } = *entry;
        let stored = if raw {
            raw_start = raw_start.checked_sub(extent_bytes)?;
            ((offset, stored_bytes) == (raw_start, extent_bytes))
                .then_some(Stored::Raw { bytes: stored_bytes, crc: check })?
        } else {
            let is_right = offset >= packed_end && offset.is_multiple_of(UNIT_BYTES) && stored_bytes > PREFIX_BYTES;
            packed_end = is_right.then(|| offset.checked_add(stored_bytes)).flatten()?;
            (stored_bytes <= SPAN_BYTES_MAX).then_some(Stored::Packed(stored_bytes - PREFIX_BYTES))?
        };
        (packed_end <= raw_start).then_some(())?;
        Some(RestoredEntry {
            key: ExtentKey::from_raw(key),
            position: Position::new(offset, stored_bytes),
            stored,
            fingerprint: None,
            class: PieceKind::of(class)?.class(),
            version: table.version.saturating_sub(table.entries.len() as u64 - number),
            // The index may change while the SSD is not attached; short fingerprints are checked when they are used.
            void: is_replaced || PieceKind::of(class) == Some(PieceKind::Fpi) && !has_short,
            doubtful: false,
        })
    });
    restored.collect()
}

/// The maximum size of a packed piece, in bytes.
const SPAN_BYTES_MAX: u32 = 200 << 10;
const _: () = assert!(ENTRY_BYTES <= nitro_cache::weu::layout::ENTRY_BYTES as usize);

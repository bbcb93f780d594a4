//! The SSD of a store, which caches recipe blocks (FMD in the paper), pages of the fingerprint index (FPI) and chunks
//! that are read at random. It consists of write-evict units that the cache manager allocates (Allu et al., USENIX ATC
//! 2018).
//!
//! All pieces are also on the store's disk. An SSD that is lost, out of date, damaged or of another store causes
//! neither wrong data nor errors: each piece is checked when it is read, and a piece that fails the check is read from
//! the disk.

mod attach;
mod flash;
mod hostile;
mod index;
mod keep;
mod options;
mod piece;
mod short;
mod start;
mod stats;
mod timely;
mod unit;

pub(crate) use hostile::{sample_short_page, sample_unit, take_short_page, take_unit};
pub(crate) use index::{IndexDevice, SsdSlot};
pub use options::{Fpi, SsdOptions};
pub(crate) use piece::{Piece, PieceKind};
pub use short::{ShortStats, short_spot};
pub use start::SsdSource;
pub(crate) use start::{Session, reason};
pub use stats::{SsdPieces, SsdState, SsdStats};

use crate::chunks::compress;
use crate::format::SECTOR_BYTES;
use crate::format::ssd::{PREFIX_BYTES, SsdSuperblock};
use crate::place::Reference;
use bytes::Bytes;
use flash::Flash;
use nitro_cache::weu::Stored;
use nitro_cache::{Append, CacheManager, Location};
use nitro_log::u32_at;
use nitro_port::ErrorKind;
use nitro_port::codec::{Compression, Encoding};
use nitro_units::WeuId;
use parking_lot::Mutex;
use short::Short;
use stats::Tallies;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use unit::OpenUnit;

/// The maximum size of a piece.
const PIECE_BYTES_MAX: usize = 128 << 10;
/// Bytes of the length before compression.
const LEN_BYTES: usize = 4;
/// The maximum number of units that are being written; a piece that would need another one is not cached.
const SEALED_MAX: usize = 4;
/// After this number of failed or wrong reads, the SSD is no longer used.
const TROUBLES_MAX: u64 = 16;

/// A store's SSD.
pub(crate) struct Ssd {
    flash: Box<dyn Flash>,
    options: SsdOptions,
    superblock: SsdSuperblock,
    /// The seed of keys.
    keys: u64,
    started: SsdState,
    inner: Mutex<Inner>,
    /// The failure after which it is no longer used.
    failed: OnceLock<String>,
    /// Whether it was closed or detached.
    closed: AtomicBool,
    troubles: AtomicU64,
    tallies: Tallies,
    /// Short fingerprints, if it has them.
    short: Option<Short>,
    ram_need_bytes: u64,
}

/// The state under one lock.
struct Inner {
    manager: CacheManager,
    /// The units that are being filled, by kind of piece.
    open: [Option<OpenUnit>; PieceKind::ALL.len()],
    /// Units that are being written.
    sealed: Vec<(WeuId, Bytes)>,
}

/// A unit that has to be written.
type Sealed = (WeuId, Bytes);

impl Inner {
    /// The bytes at a location, if its unit is in RAM.
    fn in_ram(&self, location: &Location) -> Option<Bytes> {
        let open = self.open.iter().flatten().find(|open| open.weu == location.weu);
        if let Some(open) = open {
            return open.read(location).map(nitro_port::buf::BufMut::freeze);
        }
        let span = location.span();
        let (_, bytes) = self.sealed.iter().find(|(weu, _)| *weu == location.weu)?;
        bytes.get(span.start as usize..span.end as usize).map(Bytes::copy_from_slice)
    }

    /// Evicts units so that free ones are available in advance.
    fn make_room(&mut self) {
        while self.manager.wants_eviction() {
            let Some(evicted) = self.manager.begin_eviction(false) else { break };
            while self.manager.evict_step(evicted.weu) {}
        }
        while self.manager.clean_step() {}
    }

    /// Closes the open unit of a kind; the caller must write it.
    fn seal(&mut self, kind: PieceKind, filling: u64) -> Option<Sealed> {
        let unit = self.open[kind.index()].take()?;
        let weu = unit.weu;
        self.manager.seal(weu);
        let bytes = unit.finish(self.manager.version(), filling);
        self.sealed.push((weu, bytes.clone()));
        Some((weu, bytes))
    }

    /// Removes a unit whose write failed; its slot is not used again.
    fn retire(&mut self, weu: WeuId) {
        self.sealed.retain(|(sealed, _)| *sealed != weu);
        self.manager.begin_retiring(weu);
        while self.manager.evict_step(weu) {}
    }
}

/// A unit that is being written to the SSD. If the write is cancelled, the slot is not used again.
struct Writing<'a> {
    ssd: &'a Ssd,
    weu: WeuId,
    is_done: bool,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.ssd.inner.lock().retire(self.weu);
        }
    }
}

impl Ssd {
    /// Whether it caches pieces of this kind at present.
    pub(crate) fn keeps(&self, kind: PieceKind) -> bool {
        self.options.keeps(kind) && self.is_used()
    }

    fn is_used(&self) -> bool {
        self.failed.get().is_none() && !self.closed.load(Relaxed)
    }

    /// The piece of a chunk or a recipe block in the container with this sequence number.
    pub(crate) fn chunk(&self, kind: PieceKind, reference: &Reference, sequence: u64) -> Piece {
        Piece::chunk(kind, reference, sequence, self.keys)
    }

    /// The piece of a page of the fingerprint index.
    pub(crate) fn page(&self, number: u64) -> Piece {
        Piece::page(number, self.keys)
    }

    /// Reads a piece, if it is cached.
    pub(crate) async fn get(&self, piece: &Piece) -> Option<Bytes> {
        if !self.keeps(piece.kind) {
            return None;
        }
        let found = self.find(piece, true).await;
        self.tallies.looked_up(piece.kind, found.is_some());
        found
    }

    /// `is_use`: its unit counts as used, and is evicted later.
    async fn find(&self, piece: &Piece, is_use: bool) -> Option<Bytes> {
        let (location, in_ram) = {
            let mut inner = self.inner.lock();
            let location = if is_use { inner.manager.lookup(piece.key)? } else { inner.manager.peek(piece.key)? };
            let in_ram = location.in_ram.then(|| inner.in_ram(&location));
            (location, in_ram)
        };
        let bytes = match in_ram {
            Some(bytes) => bytes?,
            None => self.read(piece, &location).await?,
        };
        // While it was read, it may have been evicted and its unit filled again.
        if !self.inner.lock().manager.is_current(location.weu, location.generation) {
            return None;
        }
        let checked = checked(piece, &location, &bytes);
        let checked = checked.and_then(|bytes| self.decoded(piece, location.raw_crc.is_some(), bytes));
        if checked.is_none() {
            self.tallies.damaged.fetch_add(1, Relaxed);
            self.trouble(piece, "a piece failed its check");
        }
        checked
    }

    /// Reads the bytes at a location, in whole blocks of the device.
    async fn read(&self, piece: &Piece, location: &Location) -> Option<Bytes> {
        let block = self.flash.geometry().block_bytes.max(SECTOR_BYTES as u32);
        let span = location.span();
        let (start, end) = (span.start / block * block, span.end.next_multiple_of(block));
        let len = (end - start) as usize;
        let read = self.flash.read(self.unit_at(location.weu) + u64::from(start), len).await;
        match read {
            Ok(bytes) if bytes.len() == len => {
                Some(bytes.slice((span.start - start) as usize..(span.end - start) as usize))
            }
            Ok(_) => {
                self.trouble(piece, "a read was short");
                None
            }
            Err(error) => {
                self.tallies.read_errors.fetch_add(1, Relaxed);
                match error.kind {
                    ErrorKind::TimedOut => self.fail(format!("a read had {error}")),
                    _ => self.trouble(piece, &error.to_string()),
                }
                None
            }
        }
    }

    /// Handles a failed read of a piece: removes it. After several such failures, the SSD is no longer used.
    fn trouble(&self, piece: &Piece, why: &str) {
        self.inner.lock().manager.invalidate(piece.key);
        if self.troubles.fetch_add(1, Relaxed) + 1 >= TROUBLES_MAX {
            self.fail(format!("{TROUBLES_MAX} reads failed, the last one since {why}"));
        }
    }

    fn fail(&self, why: String) {
        let first = self.failed.set(why).is_ok();
        if let Some(why) = self.failed.get().filter(|_| first) {
            tracing::warn!("the store's SSD is no longer used, and everything is read from the disk: {why}");
        }
    }

    /// Removes a piece.
    pub(crate) fn forget(&self, piece: &Piece) {
        self.inner.lock().manager.invalidate(piece.key);
    }

    /// Caches a piece, unless it is cached already.
    pub(crate) async fn put(&self, piece: &Piece, bytes: &[u8]) {
        self.put_if(piece, bytes, || true).await;
    }

    /// As [`put`](Self::put), if `is_right` returns true under the lock that [`forget`](Self::forget) takes.
    pub(crate) async fn put_if(&self, piece: &Piece, bytes: &[u8], is_right: impl FnOnce() -> bool) {
        if !self.keeps(piece.kind) || bytes.len() > PIECE_BYTES_MAX || bytes.is_empty() {
            return;
        }
        let encoded = if self.packs(piece) {
            if self.inner.lock().manager.peek(piece.key).is_some() {
                return;
            }
            self.encoded(bytes)
        } else {
            None
        };
        let sealed = {
            let mut inner = self.inner.lock();
            if !is_right() || inner.manager.peek(piece.key).is_some() {
                return;
            }
            let is_raw = encoded.is_none() && bytes.len() == self.superblock.extent_bytes as usize;
            self.append(&mut inner, piece, encoded.as_deref().unwrap_or(bytes), is_raw)
        };
        if let Some(sealed) = sealed {
            self.write(sealed).await;
        }
    }

    /// Caches a packed piece in the place of the previous one, or removes it if there are no bytes. It may be lost.
    async fn replace(&self, piece: &Piece, bytes: &[u8]) {
        let sealed = {
            let mut inner = self.inner.lock();
            inner.manager.invalidate(piece.key);
            match bytes {
                [] => None,
                _ if self.keeps(piece.kind) => self.append(&mut inner, piece, bytes, false),
                _ => None,
            }
        };
        if let Some(sealed) = sealed {
            self.write(sealed).await;
        }
    }

    /// Bytes that a piece takes on the SSD, if it is cached.
    fn piece_bytes(&self, piece: &Piece) -> u64 {
        self.inner.lock().manager.peek(piece.key).map_or(0, |location| location.span().len() as u64)
    }

    /// Whether the packed bytes of a piece begin with its length before compression.
    fn packs(&self, piece: &Piece) -> bool {
        self.options.lz4 && piece.kind == PieceKind::Data
    }

    /// The packed bytes of a chunk; `None`: it is stored as it is, in whole blocks.
    fn encoded(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (encoding, payload) = compress(Compression::Lz4, &Bytes::copy_from_slice(bytes));
        let len = match encoding {
            Encoding::Raw if bytes.len() == self.superblock.extent_bytes as usize => return None,
            Encoding::Raw => 0,
            _ => bytes.len() as u32,
        };
        Some([&len.to_le_bytes()[..], &payload].concat())
    }

    /// The bytes of a piece as they were before they were packed.
    fn decoded(&self, piece: &Piece, is_raw: bool, bytes: Bytes) -> Option<Bytes> {
        if is_raw || !self.packs(piece) {
            return Some(bytes);
        }
        let len = u32_at(bytes.get(..LEN_BYTES)?, 0) as usize;
        let payload = bytes.slice(LEN_BYTES..);
        match len {
            0 => Some(payload),
            1..=PIECE_BYTES_MAX => nitro_port::codec::decode(Encoding::Lz4, payload, len),
            _ => None,
        }
    }

    /// Puts a piece into the open unit of its kind; `is_raw`: as it is, in whole blocks. Returns the previous unit if it
    /// was full; the caller must write it.
    fn append(&self, inner: &mut Inner, piece: &Piece, bytes: &[u8], is_raw: bool) -> Option<Sealed> {
        let mut sealed = None;
        loop {
            if inner.open[piece.kind.index()].is_none() {
                inner.make_room();
                let (weu, generation) = inner.manager.open_weu_in(piece.kind.shelf())?;
                let unit = OpenUnit::new(weu, generation, self.options.unit_bytes);
                inner.open[piece.kind.index()] = Some(unit);
            }
            let Some(unit) = inner.open[piece.kind.index()].as_mut() else { return sealed };
            let check = piece.check(bytes, unit.generation.0);
            let stored = match is_raw {
                true => Stored::Raw { bytes: bytes.len() as u32, crc: check },
                false => Stored::Packed(bytes.len() as u32),
            };
            match inner.manager.append(unit.weu, piece.key, None, stored) {
                Append::At(location) => {
                    inner.manager.classify(&location, piece.class);
                    unit.put(&location, piece, stored, (check, bytes));
                    self.tallies.stored(piece.kind, bytes.len());
                    return sealed;
                }
                Append::Full if unit.is_empty() || sealed.is_some() || inner.sealed.len() >= SEALED_MAX => {
                    return sealed;
                }
                Append::Full => sealed = inner.seal(piece.kind, self.superblock.filling),
            }
        }
    }

    fn unit_at(&self, weu: WeuId) -> u64 {
        (u64::from(weu.0) + 1) * u64::from(self.options.unit_bytes)
    }

    async fn write(&self, (weu, bytes): Sealed) {
        let mut writing = Writing { ssd: self, weu, is_done: false };
        let written = bytes.len() as u64;
        match self.flash.write(self.unit_at(weu), bytes).await {
            Ok(()) => {
                writing.is_done = true;
                self.tallies.written_bytes.fetch_add(written, Relaxed);
                let mut inner = self.inner.lock();
                inner.sealed.retain(|(sealed, _)| *sealed != weu);
                inner.manager.stored(weu);
            }
            Err(error) => self.fail(format!("writing failed: {error}")),
        }
    }

    /// Detaches the SSD: it is no longer read or written.
    pub(crate) fn detach(&self) {
        self.closed.store(true, Relaxed);
    }

    /// Whether less than half of it is filled: then chunks beyond the requested ones are cached, too.
    pub(crate) fn is_cold(&self) -> bool {
        let stats = self.inner.lock().manager.stats();
        stats.weus_free * 2 > stats.weus
    }
}

/// The data of a piece from the bytes at its location; `None` if the check fails.
fn checked(piece: &Piece, location: &Location, bytes: &Bytes) -> Option<Bytes> {
    let (data, check) = match location.raw_crc {
        Some(check) => (bytes.clone(), check),
        None => {
            let start = location.offset as usize % SECTOR_BYTES;
            let prefix = bytes.get(start..start + PREFIX_BYTES)?;
            let (len, check) = (u32_at(prefix, 0) as usize, u32_at(prefix, 4));
            let from = start + PREFIX_BYTES;
            let end = from.checked_add(len).filter(|end| *end <= bytes.len())?;
            (bytes.slice(from..end), check)
        }
    };
    (piece.check(&data, location.generation.0) == check).then_some(data)
}

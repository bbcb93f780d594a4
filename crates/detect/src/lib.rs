//! Classifies the blocks of a volume by their content: which blocks are file-system metadata, and for data blocks, the
//! size of their file. In Differentiated Storage Services (SOSP 2011, §4), the file system passes this information with
//! each request. The detector needs no change to the client: it reads the inodes that are read and written through the
//! cache.
//!
//! The bytes come from a client and are not trusted: on any input, this crate does not panic and stays within its limit
//! of RAM. A client can only affect the classification of its own volume.
#![forbid(unsafe_code)]

mod btrfs;
mod bytes;
mod ext;
mod journal;
mod mode;
mod ntfs;
mod partitions;
mod ranges;
mod scan;
mod xfs;

use btrfs::{Btrfs, Room};
use ext::Ext;
use ntfs::Ntfs;
use partitions::Partitions;
pub use partitions::{Table, table_in};
use ranges::{Known, Ranges, Stamp};
use scan::Scan;
use std::collections::BTreeMap;
use std::ops::Range;
use xfs::Xfs;

/// The granularity of classification, in bytes.
pub const PIECE_BYTES: u64 = 1 << 10;

/// The part of the RAM that btrfs chunks and parts of nodes may take: one in this many.
const ROOM_PART: u64 = 8;
/// The part of the remaining RAM that a scan may take: one in this many.
const SCAN_PART: u64 = 16;

/// The classification of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Found {
    /// Metadata of the file system other than directories and the journal: superblocks, bitmaps, inodes, trees.
    Metadata,
    /// Directories.
    Directory,
    /// The file system's journal.
    Journal,
    /// Data of a file of this size in bytes.
    File(u64),
}

/// The result of reading a part of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sighting {
    /// The classification of the part, if known. If its blocks differ, the one that is first in [`Found`].
    pub found: Option<Found>,
    /// Classifications of other ranges of the volume that were learned from it, in bytes.
    pub learned: Vec<(Range<u64>, Found)>,
}

/// Counters of a detector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of file systems found.
    pub systems: u64,
    /// The number of inodes read.
    pub inodes: u64,
    /// The number of ranges with a known classification.
    pub ranges: u64,
    /// The number of ranges that were dropped for lack of RAM.
    pub forgotten: u64,
    /// RAM in bytes.
    pub ram_bytes: u64,
}

/// Classifies the blocks of one volume.
#[derive(Debug)]
pub struct Detector {
    partitions: Partitions,
    /// The file systems, by their first byte.
    systems: BTreeMap<u64, System>,
    ranges: Ranges,
    inodes: u64,
    room: Room,
    scan: Option<Scan>,
    /// The limit of RAM for everything but `room`, in bytes.
    ram_bytes_max: u64,
}

/// A file system of any kind.
#[derive(Debug)]
enum System {
    Ext(Box<Ext>),
    Xfs(Box<Xfs>),
    Btrfs(Box<Btrfs>),
    Ntfs(Box<Ntfs>),
}

impl System {
    /// The file system's range of the volume, in bytes.
    fn bounds(&self) -> Range<u64> {
        match self {
            Self::Ext(ext) => ext.bounds(),
            Self::Xfs(xfs) => xfs.bounds(),
            Self::Btrfs(btrfs) => btrfs.bounds(),
            Self::Ntfs(ntfs) => ntfs.bounds(),
        }
    }

    fn block_bytes(&self) -> u64 {
        match self {
            Self::Ext(ext) => ext.block_bytes(),
            Self::Xfs(xfs) => xfs.block_bytes(),
            Self::Btrfs(btrfs) => btrfs.block_bytes(),
            Self::Ntfs(ntfs) => ntfs.block_bytes(),
        }
    }

    /// Reads a block, or a part of one; returns its classification.
    fn look(&mut self, at: u64, block: &[u8], view: &mut View<'_>) -> Option<Found> {
        match self {
            Self::Ext(ext) => ext.look(at, block, view),
            Self::Xfs(xfs) => xfs.look(at, block, view),
            Self::Btrfs(btrfs) => btrfs.look(at, block, view),
            Self::Ntfs(ntfs) => ntfs.look(at, block, view),
        }
    }
}

/// The parts of the detector that the code of a file system may read and change.
struct View<'a> {
    ranges: &'a mut Ranges,
    learned: &'a mut Vec<(Range<u64>, Found)>,
    inodes: &'a mut u64,
    room: &'a mut Room,
    scan: Option<&'a mut Scan>,
    /// The age of the block that is being read.
    stamp: Stamp,
}

/// Whether a change from `was` to `is` is too small to be reported. Otherwise, a growing file would be reported again
/// and again.
const fn is_alike(was: Found, is: Found) -> bool {
    match (was, is) {
        (Found::File(was), Found::File(is)) => (was | 1).ilog2() == (is | 1).ilog2(),
        (Found::Metadata, Found::Metadata)
        | (Found::Directory, Found::Directory)
        | (Found::Journal, Found::Journal) => true,
        _ => false,
    }
}

impl View<'_> {
    /// Records the classification of a range of the volume.
    fn learn(&mut self, range: Range<u64>, known: Known) {
        let Self { ranges, learned, scan, stamp, .. } = self;
        ranges.insert(range, known, *stamp, |news, was| {
            if let Some(scan) = scan
                && known.found() == Found::Metadata
            {
                scan.note(news.clone());
            }
            if let Known::Is(found) = known
                && !was.is_some_and(|was| is_alike(was.found(), found))
            {
                learned.push((news, found));
            }
        });
    }
}

impl Detector {
    /// A detector that uses at most `ram_bytes_max` bytes of RAM.
    #[must_use]
    pub fn new(ram_bytes_max: u64) -> Self {
        let room = ram_bytes_max / ROOM_PART;
        Self {
            partitions: Partitions::default(),
            systems: BTreeMap::new(),
            ranges: Ranges::new(ram_bytes_max - room),
            inodes: 0,
            room: Room::new(room),
            scan: None,
            ram_bytes_max: ram_bytes_max - room,
        }
    }

    /// As [`new`](Self::new), for a volume with logical blocks of this size in bytes (otherwise 512), in which its partition
    /// table counts.
    #[must_use]
    pub fn with_blocks(mut self, block_bytes: u32) -> Self {
        self.partitions.set_block_bytes(block_bytes.into());
        self
    }

    /// Reads a part of the volume that a client read or wrote. `offset` is in bytes and must be a multiple of
    /// [`PIECE_BYTES`].
    pub fn look(&mut self, offset: u64, bytes: &[u8]) -> Sighting {
        let mut sighting = Sighting::default();
        let Some(end) = offset.checked_add(bytes.len() as u64) else { return sighting };
        self.partitions.look(offset, bytes);
        self.find_system(offset..end, bytes, &mut sighting.learned);
        let Self { systems, ranges, inodes, room, scan, .. } = self;
        let Some((_, system)) = systems.range_mut(..end).next_back() else { return sighting };
        let mut view =
            View { ranges, learned: &mut sighting.learned, inodes, room, scan: scan.as_mut(), stamp: Stamp(0) };
        let bounds = system.bounds();
        // The part is read block by block; a block that is larger than the part is read in parts.
        view.ranges.open(offset..end);
        let step = (system.block_bytes() as usize).min(bytes.len()).max(PIECE_BYTES as usize);
        for (at, block) in (offset..).step_by(step).zip(bytes.chunks(step)) {
            let seen = if bounds.contains(&at) { system.look(at, block, &mut view) } else { None };
            sighting.found = [sighting.found, seen].into_iter().flatten().min();
        }
        sighting
    }

    /// The classification of a range of the volume by the blocks read so far, in bytes. If its blocks differ, the one
    /// that is first in [`Found`]. `None`: not known; blocks that name themselves are not remembered by all file systems.
    #[must_use]
    pub fn found_in(&self, range: Range<u64>) -> Option<Found> {
        let found = range.step_by(PIECE_BYTES as usize).filter_map(|at| self.ranges.find(at));
        found.map(|(_, known)| known.found()).min()
    }

    /// Whether a file system was found.
    #[must_use]
    pub fn knows_any(&self) -> bool {
        !self.systems.is_empty()
    }

    /// The ranges to read first, in bytes of the volume: partition tables and superblocks, or, once file systems are
    /// known, the blocks that describe their layout.
    #[must_use]
    pub fn worth_reading(&self) -> Vec<Range<u64>> {
        if self.systems.is_empty() {
            return self.partitions.worth_reading();
        }
        let of = |system: &System| match system {
            System::Ext(ext) => vec![ext.descriptors()],
            System::Xfs(_) => Vec::new(),
            System::Btrfs(btrfs) => btrfs.chunk_root(),
            System::Ntfs(ntfs) => vec![ntfs.first_records()],
        };
        self.systems.values().flat_map(of).collect()
    }

    /// Begins a scan of a volume of `volume_bytes`: it collects the ranges that must be read to know all files. See
    /// [`next_to_scan`](Self::next_to_scan).
    pub fn scan(&mut self, volume_bytes: u64) {
        let room = self.ram_bytes_max / SCAN_PART;
        self.ranges.limit(self.ram_bytes_max - room);
        let mut scan = Scan::new(volume_bytes, room);
        self.worth_reading().into_iter().for_each(|range| scan.note(range));
        self.ranges.own().for_each(|range| scan.note(range));
        self.scan = Some(scan);
    }

    /// The next range to pass to [`look`](Self::look), in bytes of the volume; it may extend beyond the end. `None`:
    /// the scan is complete, or none was begun.
    pub fn next_to_scan(&mut self) -> Option<Range<u64>> {
        let next = self.scan.as_mut()?.next();
        if next.is_none() {
            self.scan = None;
            self.ranges.limit(self.ram_bytes_max);
        }
        next
    }

    /// Bytes that remain to be scanned, as far as known.
    #[must_use]
    pub fn bytes_to_scan(&self) -> u64 {
        self.scan.as_ref().map_or(0, Scan::bytes_left)
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            systems: self.systems.len() as u64,
            inodes: self.inodes,
            ranges: self.ranges.len() as u64,
            forgotten: self.ranges.forgotten() + self.scan.as_ref().map_or(0, Scan::forgotten),
            ram_bytes: self.ranges.ram_bytes() + self.room.bytes() + self.scan.as_ref().map_or(0, Scan::ram_bytes),
        }
    }

    /// Finds superblocks at the beginning of the volume or of a partition. Elsewhere, a superblock may be part of a
    /// file.
    fn find_system(&mut self, range: Range<u64>, bytes: &[u8], learned: &mut Vec<(Range<u64>, Found)>) {
        for start in self.partitions.starts_at(range.clone()) {
            let from = |at: u64| at.checked_sub(range.start).and_then(|at| bytes.get(usize::try_from(at).ok()?..));
            if let Some(ext) = from(start.saturating_add(ext::SUPERBLOCK_AT)).and_then(|bytes| Ext::read(start, bytes))
            {
                self.note(start, System::Ext(Box::new(ext)), learned);
            } else if let Some(xfs) = from(start).and_then(|bytes| Xfs::read(start, bytes)) {
                self.note(start, System::Xfs(Box::new(xfs)), learned);
            } else if let Some(ntfs) = from(start).and_then(|bytes| Ntfs::read(start, bytes)) {
                self.note(start, System::Ntfs(Box::new(ntfs)), learned);
            } else if let Some(btrfs) =
                from(start.saturating_add(btrfs::SUPERBLOCK_AT)).and_then(|bytes| Btrfs::read(start, bytes))
            {
                self.note(start, System::Btrfs(Box::new(btrfs)), learned);
            }
        }
    }

    fn note(&mut self, start: u64, mut system: System, learned: &mut Vec<(Range<u64>, Found)>) {
        let is_known = match (self.systems.get(&start), &system) {
            (Some(System::Ext(known)), System::Ext(ext)) => known.is_same(ext),
            (Some(System::Xfs(known)), System::Xfs(xfs)) => known.is_same(xfs),
            (Some(System::Btrfs(known)), System::Btrfs(btrfs)) => known.is_same(btrfs),
            (Some(System::Ntfs(known)), System::Ntfs(ntfs)) => known.is_same(ntfs),
            _ => false,
        };
        if is_known {
            return;
        }
        // The file system was created again: the state of the old one is no longer valid.
        let end = self.systems.range(start + 1..).next().map_or(u64::MAX, |(next, _)| *next);
        self.ranges.forget(start..end);
        if let Some(System::Btrfs(known)) = self.systems.remove(&start) {
            self.room.release(&known);
        }
        let Self { ranges, inodes, room, scan, .. } = self;
        let mut view = View { ranges, learned, inodes, room, scan: scan.as_mut(), stamp: Stamp(0) };
        match &mut system {
            System::Ext(ext) => ext.begin(&mut view),
            System::Xfs(xfs) => xfs.begin(&mut view),
            System::Btrfs(btrfs) => btrfs.begin(&mut view),
            System::Ntfs(ntfs) => ntfs.begin(&mut view),
        }
        self.systems.insert(start, system);
    }
}

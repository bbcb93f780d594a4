//! The results of [`check`](super::check).

use serde::Serialize;

/// The consequence of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Clean content is damaged: it is read from the origin.
    CostsAMiss,
    /// A structure is damaged, or contradicts another one; dependent data are reported separately.
    Metadata,
    /// Dirty content is damaged.
    DataLost,
}

/// A range of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VolumeRange {
    /// The volume's number in the cache.
    pub object: u16,
    /// Its name, if the journal has it.
    pub volume: Option<String>,
    /// First byte within the volume.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A problem that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Its consequence.
    pub severity: Severity,
    /// A description, on one line.
    pub what: String,
    /// Its position: first byte on the device.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The write-evict unit, if it is in one.
    pub weu: Option<u32>,
    /// The range of the volume, if content is affected.
    pub content: Option<VolumeRange>,
}

/// One copy of the superblock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SuperblockReport {
    /// First byte on the device.
    pub offset: u64,
    /// The start number in this copy; `None`: it is not valid.
    pub start: Option<u32>,
    /// Why it is not valid.
    pub refused: Option<String>,
}

/// One half of the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HalfReport {
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Its sequence; `None`: it begins with no batch.
    pub sequence: Option<u64>,
    /// Batches that continue one another from its start.
    pub batches: u64,
    /// Whether they begin with a whole snapshot.
    pub snapshot_whole: bool,
    /// Bytes that they take.
    pub used_bytes: u64,
    /// Bytes that could not be read.
    pub unreadable_bytes: u64,
    /// Why there are no batches.
    pub refused: Option<String>,
}

/// The journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct JournalReport {
    /// Its halves.
    pub halves: Vec<HalfReport>,
    /// The active half.
    pub active_half: Option<u32>,
    /// Why a start would refuse it.
    pub unusable: Option<String>,
    /// Records of the active half.
    pub records: u64,
    /// Batches that had been durable and cannot be read.
    pub lost_batches: u32,
    /// The UUID of the write log in use: it may hold writes that are not in the cache.
    pub write_log: Option<String>,
}

/// How much was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// WEU slots.
    pub slots: u64,
    /// Slots with a valid header.
    pub weus: u64,
    /// Slots with the header of an evicted filling.
    pub evicted_weus: u64,
    /// WEUs without a header that the journal knows: a crash happened before they were full.
    pub unsealed_weus: u64,
    /// Stored extents that were checked, including void ones.
    pub extents: u64,
    /// Their stored bytes.
    pub stored_bytes: u64,
    /// Of the extents, those that are void.
    pub void_extents: u64,
    /// Extents with a wrong checksum, including void ones.
    pub damaged_extents: u64,
    /// Records of duplicates, including void ones and those whose content is gone.
    pub duplicates: u64,
    /// Of them, those that the journal calls void.
    pub void_duplicates: u64,
    /// Keys with dirty content.
    pub dirty_extents: u64,
    /// Of them, those that cannot be read.
    pub lost_extents: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        self.slots += other.slots;
        self.weus += other.weus;
        self.evicted_weus += other.evicted_weus;
        self.unsealed_weus += other.unsealed_weus;
        self.extents += other.extents;
        self.stored_bytes += other.stored_bytes;
        self.void_extents += other.void_extents;
        self.damaged_extents += other.damaged_extents;
        self.duplicates += other.duplicates;
        self.void_duplicates += other.void_duplicates;
        self.dirty_extents += other.dirty_extents;
        self.lost_extents += other.lost_extents;
    }
}

/// The contents of a cache device, and its problems.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The copies of the superblock.
    pub superblocks: Vec<SuperblockReport>,
    /// The journal.
    pub journal: JournalReport,
    /// How much was found.
    pub counts: Counts,
    /// The problems, in the order of the device; at most 1000 of those that cost a miss.
    pub problems: Vec<Problem>,
    /// Problems that cost a miss and are not listed.
    pub problems_left_out: u64,
    /// Notes on findings that are not damage, such as traces of a crash.
    pub notes: Vec<String>,
}

/// How many problems that cost no more than a miss are listed.
const MISSES_LISTED: usize = 1000;

impl Report {
    /// The worst of the problems; `None` if there is none.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.problems.iter().map(|problem| problem.severity).max()
    }

    pub(super) fn add(&mut self, problem: Problem) {
        let misses = || self.problems.iter().filter(|p| p.severity == Severity::CostsAMiss).count();
        if problem.severity == Severity::CostsAMiss && self.problems.len() >= MISSES_LISTED && misses() >= MISSES_LISTED
        {
            self.problems_left_out += 1;
        } else {
            self.problems.push(problem);
        }
    }
}

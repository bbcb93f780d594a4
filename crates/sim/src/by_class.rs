//! Counts by class: requests, hits and cached bytes.

use nitro_units::ClassId;
use serde::{Deserialize, Serialize};
use std::ops::{Index, IndexMut};

/// The running counts of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClassCounts {
    pub(crate) reads: u64,
    pub(crate) hits: u64,
    pub(crate) read_bytes: u64,
    pub(crate) read_extents: u64,
    pub(crate) read_hit_extents: u64,
    pub(crate) writes: u64,
    pub(crate) write_bytes: u64,
}

impl ClassCounts {
    const fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            hits: self.hits - before.hits,
            read_bytes: self.read_bytes - before.read_bytes,
            read_extents: self.read_extents - before.read_extents,
            read_hit_extents: self.read_hit_extents - before.read_hit_extents,
            writes: self.writes - before.writes,
            write_bytes: self.write_bytes - before.write_bytes,
        }
    }
}

/// The running counts of all classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ByClass([ClassCounts; ClassId::COUNT]);

impl Index<ClassId> for ByClass {
    type Output = ClassCounts;

    fn index(&self, class: ClassId) -> &ClassCounts {
        &self.0[class.index()]
    }
}

impl IndexMut<ClassId> for ByClass {
    fn index_mut(&mut self, class: ClassId) -> &mut ClassCounts {
        &mut self.0[class.index()]
    }
}

/// The requests of one class in a window of the trace, and the cached data of the class at the end of the window. The
/// fields have the same names as in the server's status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassMeasures {
    /// The number of the class; 0: not classified.
    pub id: u8,
    /// The number of read requests.
    pub reads: u64,
    /// The number of read requests for which all extents were cached.
    pub hits: u64,
    /// `hits` over `reads`; 0 without reads.
    pub read_hit_ratio: f64,
    /// Bytes read by requests.
    pub read_bytes: u64,
    /// The number of extents read.
    pub read_extents: u64,
    /// The number of these that were cached, found by their key or content.
    pub read_hit_extents: u64,
    /// Their share of the extents read; 0 without reads.
    pub read_extent_hit_ratio: f64,
    /// The number of write requests.
    pub writes: u64,
    /// Bytes written by requests.
    pub write_bytes: u64,
    /// Bytes of volumes that are cached, by the class that inserted them; `None` if the variant does not record
    /// classes.
    pub cached_bytes: Option<u64>,
}

/// The differences between two moments, of each class with any activity; empty if no request and no content had a
/// class.
pub(crate) fn between(
    (begin, end): (&ByClass, &ByClass),
    cached_extents: Option<&[u64; ClassId::COUNT]>,
    extent_bytes: u32,
) -> Vec<ClassMeasures> {
    let measures = |class: ClassId| {
        let counts = end[class].since(&begin[class]);
        let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        ClassMeasures {
            id: class.number(),
            reads: counts.reads,
            hits: counts.hits,
            read_hit_ratio: ratio(counts.hits, counts.reads),
            read_bytes: counts.read_bytes,
            read_extents: counts.read_extents,
            read_hit_extents: counts.read_hit_extents,
            read_extent_hit_ratio: ratio(counts.read_hit_extents, counts.read_extents),
            writes: counts.writes,
            write_bytes: counts.write_bytes,
            cached_bytes: cached_extents.map(|extents| extents[class.index()] * u64::from(extent_bytes)),
        }
    };
    let is_there = |m: &ClassMeasures| m.reads + m.writes + m.cached_bytes.unwrap_or(0) > 0;
    let all: Vec<_> = ClassId::all().map(measures).filter(is_there).collect();
    if all.iter().any(|measures| measures.id > 0) { all } else { Vec::new() }
}

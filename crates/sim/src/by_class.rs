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
    pub(crate) write_extents: u64,
    pub(crate) offered_extents: u64,
    pub(crate) around_extents: u64,
    pub(crate) around_while_clean: u64,
    pub(crate) taken_while_dirty: u64,
    pub(crate) evicted_extents: u64,
    pub(crate) evicted_early: u64,
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
            write_extents: self.write_extents - before.write_extents,
            offered_extents: self.offered_extents - before.offered_extents,
            around_extents: self.around_extents - before.around_extents,
            around_while_clean: self.around_while_clean - before.around_while_clean,
            taken_while_dirty: self.taken_while_dirty - before.taken_while_dirty,
            evicted_extents: self.evicted_extents - before.evicted_extents,
            evicted_early: self.evicted_early - before.evicted_early,
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
    /// The number of extents written, at least in part.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub write_extents: u64,
    /// In write-back with restrictions of classes: the number of written extents that were not dirty already, so that
    /// their class decided whether they enter the cache.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub offered_extents: u64,
    /// The number of these that their class kept out of the cache.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub around_extents: u64,
    /// The number of the latter while more than 15 % of the cache was clean.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub around_while_clean: u64,
    /// The number of offered extents that entered while at most 15 % of the cache was clean.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub taken_while_dirty: u64,
    /// The number of extents of the class that evictions dropped, if the variant counts them.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub evicted_extents: u64,
    /// The number of these that were dropped although a unit that could have been evicted held extents
    /// of a lower band.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub evicted_early: u64,
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
            write_extents: counts.write_extents,
            offered_extents: counts.offered_extents,
            around_extents: counts.around_extents,
            around_while_clean: counts.around_while_clean,
            taken_while_dirty: counts.taken_while_dirty,
            evicted_extents: counts.evicted_extents,
            evicted_early: counts.evicted_early,
            cached_bytes: cached_extents.map(|extents| extents[class.index()] * u64::from(extent_bytes)),
        }
    };
    let is_there = |m: &ClassMeasures| m.reads + m.writes + m.cached_bytes.unwrap_or(0) > 0;
    let all: Vec<_> = ClassId::all().map(measures).filter(is_there).collect();
    if all.iter().any(|measures| measures.id > 0) { all } else { Vec::new() }
}

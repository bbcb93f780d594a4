//! Where each chunk of a volume is, in RAM: 16 bytes for each chunk of a segment that has any.

use crate::format::{Header, Id, Run, SEGMENT_CHUNKS, Segment};
use crate::runs::Runs;

/// The map of a generation.
#[derive(Debug)]
pub(crate) struct Map {
    header: Header,
    /// `None`: nothing but holes.
    segments: Vec<Option<Box<[Id]>>>,
}

impl Map {
    /// The map of a volume without any content.
    pub(crate) fn empty(header: Header) -> Self {
        Self { header, segments: (0..header.segments()).map(|_| None).collect() }
    }

    /// Takes the content of a segment.
    pub(crate) fn load(&mut self, segment: Segment) {
        if let Some(slot) = self.segments.get_mut(segment.index as usize) {
            *slot = Some(segment.chunks);
        }
    }

    /// Makes it larger: its header has a larger size from now on. What is new are holes.
    pub(crate) fn grow(&mut self, header: Header) {
        let last = self.header.segments() - 1;
        if let Some(Some(chunks)) = self.segments.get_mut(last as usize) {
            let mut longer = std::mem::take(chunks).into_vec();
            longer.resize(header.segment_chunks(last) as usize, Id::HOLE);
            *chunks = longer.into();
        }
        self.segments.resize_with(header.segments() as usize, || None);
        self.header = header;
    }

    /// The object of a chunk.
    pub(crate) fn get(&self, chunk: u64) -> Id {
        let segment = self.segments.get((chunk / SEGMENT_CHUNKS) as usize).and_then(Option::as_ref);
        segment.and_then(|chunks| chunks.get((chunk % SEGMENT_CHUNKS) as usize)).copied().unwrap_or(Id::HOLE)
    }

    /// Makes changes; `replaced` gets the objects that no chunk has any more.
    pub(crate) fn apply(&mut self, runs: &Runs, mut replaced: impl FnMut(u64, Id)) {
        for run in runs.iter() {
            for (segment, part) in parts(run) {
                let begin = segment * SEGMENT_CHUNKS;
                let Some(slot) = self.segments.get_mut(segment as usize) else { continue };
                let count = self.header.segment_chunks(segment);
                if run.id.is_hole() && slot.is_none() {
                    continue;
                }
                let chunks = slot.get_or_insert_with(|| vec![Id::HOLE; count as usize].into());
                let first = (part.first - begin) as usize;
                for (at, id) in chunks[first..first + part.count as usize].iter_mut().enumerate() {
                    let old = std::mem::replace(id, run.id);
                    if !old.is_hole() && old != run.id {
                        replaced(part.first + at as u64, old);
                    }
                }
                if run.id.is_hole() && part.count == count {
                    *slot = None;
                }
            }
        }
    }

    /// A segment with changes; `None`: nothing but holes.
    pub(crate) fn segment(&self, index: u64, changes: &Runs) -> Option<Segment> {
        let begin = index * SEGMENT_CHUNKS;
        let chunk = |chunk| changes.get(chunk).unwrap_or_else(|| self.get(chunk));
        let chunks: Box<[Id]> = (begin..begin + self.header.segment_chunks(index)).map(chunk).collect();
        let segment = Segment { uuid: self.header.uuid, index, chunks };
        segment.chunks.iter().any(|id| !id.is_hole()).then_some(segment)
    }

    /// The bytes of RAM that the map of such a volume takes at most.
    pub(crate) fn ram_bytes_max(header: &Header) -> u64 {
        header.chunks() * size_of::<Id>() as u64
    }
}

/// The segments that a run touches, each with its part of the run.
pub(crate) fn parts(run: Run) -> impl Iterator<Item = (u64, Run)> {
    let end = run.first + run.count;
    (run.first / SEGMENT_CHUNKS..end.div_ceil(SEGMENT_CHUNKS)).map(move |segment| {
        let first = run.first.max(segment * SEGMENT_CHUNKS);
        let count = end.min((segment + 1) * SEGMENT_CHUNKS) - first;
        (segment, Run { first, count, ..run })
    })
}

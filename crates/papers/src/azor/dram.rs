//! The buffer cache in front of the block cache: the DRAM of the machine that runs the benchmark.

use nitro_cache::admission::is_metadata;
use nitro_sim::policies::{Policy, PolicyKind};
use nitro_trace::{Op, Reader, Request, TraceError};
use std::collections::VecDeque;

/// A page of the buffer cache.
const PAGE_BYTES: u64 = 4096;

/// A buffer cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dram {
    /// Its size in bytes.
    pub(super) bytes: u64,
    /// Whether metadata is never evicted, whatever its size; otherwise, all pages are replaced in LRU order.
    pub(super) keeps_metadata: bool,
}

/// Pages of one level that were read, and those of them that were in DRAM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reads {
    pub(super) pages: u64,
    pub(super) hits: u64,
}

impl Reads {
    /// The share of reads that were hits, in percent.
    pub(super) fn hit_percent(self) -> f64 {
        if self.pages == 0 { 0.0 } else { self.hits as f64 / self.pages as f64 * 100.0 }
    }
}

/// The requests of a trace that reach the disks behind a buffer cache: reads of pages that it does not have, and all writes.
pub(super) struct Behind<R> {
    reader: R,
    pages: Box<dyn Policy + Send>,
    /// The pages of metadata, if they are kept apart.
    metadata: Option<hashbrown::HashSet<u64>>,
    passed: VecDeque<Request>,
    /// Reads of data, and of metadata.
    pub(super) data: Reads,
    pub(super) first_level: Reads,
}

impl<R: Reader> Behind<R> {
    pub(super) fn new(reader: R, dram: Dram) -> Self {
        let pages = u32::try_from((dram.bytes / PAGE_BYTES).max(1)).unwrap_or(u32::MAX - 1);
        Self {
            reader,
            pages: PolicyKind::Lru.build(pages),
            metadata: dram.keeps_metadata.then(hashbrown::HashSet::new),
            passed: VecDeque::new(),
            data: Reads::default(),
            first_level: Reads::default(),
        }
    }

    /// Looks a page up, and keeps it.
    fn access(&mut self, page: u64, is_first_level: bool) -> bool {
        match self.metadata.as_mut().filter(|_| is_first_level) {
            Some(kept) => !kept.insert(page),
            None => self.pages.access(page),
        }
    }

    /// Passes on the runs of pages of a read that are not in DRAM.
    fn read(&mut self, request: &Request) {
        let is_first_level = is_metadata(request.class);
        for page in request.blocks(PAGE_BYTES) {
            let hit = self.access(page, is_first_level);
            let reads = if is_first_level { &mut self.first_level } else { &mut self.data };
            reads.pages += 1;
            reads.hits += u64::from(hit);
            if hit {
                continue;
            }
            let offset = page * PAGE_BYTES;
            match self.passed.back_mut().filter(|last| last.end() == offset) {
                Some(last) => last.len += PAGE_BYTES,
                None => self.passed.push_back(Request { offset, len: PAGE_BYTES, ..request.clone() }),
            }
        }
    }
}

impl<R: Reader> Reader for Behind<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        loop {
            if let Some(next) = self.passed.pop_front() {
                *request = next;
                return Ok(true);
            }
            if !self.reader.next(request)? {
                return Ok(false);
            }
            if request.op != Op::Read {
                let is_first_level = is_metadata(request.class);
                for page in request.blocks(PAGE_BYTES) {
                    self.access(page, is_first_level);
                }
                return Ok(true);
            }
            self.read(request);
        }
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_cache::builtin;
    use nitro_trace::Listed;
    use nitro_units::ClassId;

    fn passed(requests: &[(Op, u64, u64, ClassId)], keeps_metadata: bool) -> Vec<(u64, u64)> {
        let of = |(op, page, pages, class): &(Op, u64, u64, ClassId)| Request {
            op: *op,
            offset: page * PAGE_BYTES,
            len: pages * PAGE_BYTES,
            class: *class,
            ..Request::default()
        };
        let script = Listed::new(requests.iter().map(of).collect::<Vec<_>>());
        let behind = Behind::new(script, Dram { bytes: 4 * PAGE_BYTES, keeps_metadata });
        let pages = |r: Request| (r.offset / PAGE_BYTES, r.len / PAGE_BYTES);
        behind.requests().filter_map(Result::ok).map(pages).collect()
    }

    #[test]
    fn reads_of_what_dram_has_do_not_reach_the_disks() {
        let data = ClassId::UNCLASSIFIED;
        let requests =
            [(Op::Write, 1, 1, data), (Op::Read, 0, 4, data), (Op::Read, 0, 4, data), (Op::Read, 9, 1, data)];
        assert_eq!(passed(&requests, false), [(1, 1), (0, 1), (2, 2), (9, 1)]);
    }

    #[test]
    fn metadata_is_kept_if_so_chosen() {
        let metadata = (Op::Read, 50, 1, builtin::METADATA);
        let requests = [metadata, (Op::Read, 0, 8, ClassId::UNCLASSIFIED), metadata];
        assert_eq!(passed(&requests, true), [(50, 1), (0, 8)]);
        assert_eq!(passed(&requests, false), [(50, 1), (0, 8), (50, 1)]);
    }
}

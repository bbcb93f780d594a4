//! What a volume may read as: for each sector, what was written to it, in order, by each server that had the volume.

use bytes::Bytes;

pub const SECTOR: usize = 512;

/// The content of sectors, all of one stamp.
pub fn stamped(stamp: u64, sectors: usize) -> Bytes {
    stamp.to_le_bytes().repeat(sectors * SECTOR / 8).into()
}

/// The stamps of sectors; a torn one fails.
pub fn stamps(data: &[u8]) -> Vec<u64> {
    let sectors = data.chunks(SECTOR).map(|sector| {
        let stamp = u64::from_le_bytes(sector[..8].try_into().unwrap());
        assert!(sector.chunks(8).all(|part| part == stamp.to_le_bytes()), "a sector is torn");
        stamp
    });
    sectors.collect()
}

/// What one server knows of the volume that it has.
pub struct Owner {
    /// The generation with which it opened the volume.
    pub opened: u64,
    /// What each sector had when it was opened.
    pub snapshot: Vec<u64>,
    /// What was written to each sector since, in order, the snapshot first.
    written: Vec<Vec<u64>>,
    /// How many of them have been acknowledged.
    acknowledged: Vec<usize>,
    /// The first of them that may be found after a crash.
    flushed: Vec<usize>,
}

impl Owner {
    pub fn new(opened: u64, snapshot: Vec<u64>) -> Self {
        let written = snapshot.iter().map(|stamp| vec![*stamp]).collect();
        let (acknowledged, flushed) = (vec![1; snapshot.len()], vec![0; snapshot.len()]);
        Self { opened, snapshot, written, acknowledged, flushed }
    }

    /// A write begins.
    pub fn begin(&mut self, first: usize, count: usize, stamp: u64) {
        self.written[first..first + count].iter_mut().for_each(|sector| sector.push(stamp));
    }

    /// The last write to these sectors was acknowledged.
    pub fn end(&mut self, first: usize, count: usize) {
        for sector in first..first + count {
            self.acknowledged[sector] = self.written[sector].len();
        }
    }

    /// What a flush, or a read, that begins now has at least.
    pub fn mark(&self) -> Vec<usize> {
        self.acknowledged.iter().map(|count| count - 1).collect()
    }

    /// A flush that began at a mark has succeeded.
    pub fn flushed(&mut self, mark: &[usize]) {
        for (flushed, mark) in self.flushed.iter_mut().zip(mark) {
            *flushed = (*flushed).max(*mark);
        }
    }

    /// Checks a read that began at a mark.
    pub fn check_read(&self, mark: &[usize], first: usize, found: &[u64]) {
        for (at, stamp) in found.iter().enumerate() {
            let may = &self.written[first + at][mark[first + at]..];
            assert!(may.contains(stamp), "sector {} reads as {stamp:#x}, not one of {may:x?}", first + at);
        }
    }

    /// Checks what the next server has found.
    pub fn check_next(&self, next: &Self) {
        self.check_read(&self.flushed, 0, &next.snapshot);
    }
}

//! The content of a device: durable sectors, and a volatile cache of the sectors written since the last flush.

use crate::Rng;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Bytes of a sector: the unit that a device writes atomically.
pub const SECTOR_BYTES: usize = 512;

/// Identifies a write to a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

struct Version {
    ticket: Ticket,
    data: Bytes,
}

/// A write that has not returned.
struct UnderWay {
    first: u64,
    data: Bytes,
    /// Number of its sectors that are in the volatile cache.
    applied: u64,
}

/// The writes that a flush makes durable: those that had returned when the flush began.
pub struct FlushMark {
    next: u64,
    under_way: BTreeSet<Ticket>,
}

impl FlushMark {
    fn covers(&self, ticket: Ticket) -> bool {
        ticket.0 < self.next && !self.under_way.contains(&ticket)
    }
}

/// What a power failure does to sectors that are not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Each sector independently keeps its durable version or takes any newer one.
    Shuffled,
    /// Only durable data survive.
    All,
    /// All writes that returned survive, and a front part of each write under way.
    None,
    /// As `Shuffled`, and a sector may be torn as well: its front is new, its back is old.
    Torn,
    /// Each sector of each write is lost with a probability of this number of eighths.
    Eighths(u64),
}

impl Loss {
    /// A random share of the sectors; sometimes all of them survive, or none.
    pub fn some(random: &mut Rng) -> Self {
        Self::Eighths([0, 1, 4, 7, 8][random.below(5) as usize])
    }
}

/// A device's sectors.
pub struct Medium {
    durable: Vec<u8>,
    volatile: BTreeMap<u64, Vec<Version>>,
    under_way: BTreeMap<Ticket, UnderWay>,
    next: u64,
}

impl Medium {
    /// A medium full of zeroes.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        Self::of(vec![0; size_bytes as usize])
    }

    /// A medium that durably holds `image`.
    #[must_use]
    pub fn of(image: Vec<u8>) -> Self {
        Self { durable: image, volatile: BTreeMap::new(), under_way: BTreeMap::new(), next: 0 }
    }

    /// The content that reads return now.
    #[must_use]
    pub fn image(&self) -> Vec<u8> {
        let mut image = vec![0; self.durable.len()];
        self.read(0, &mut image);
        image
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.durable.len() as u64
    }

    /// Begins a write at the sector `first`.
    pub fn begin(&mut self, first: u64, data: Bytes) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.under_way.insert(ticket, UnderWay { first, data, applied: 0 });
        ticket
    }

    /// Makes the first `sectors` sectors of a write visible to reads.
    pub fn apply(&mut self, ticket: Ticket, sectors: u64) {
        let Some(write) = self.under_way.get_mut(&ticket) else { return };
        let to = sectors.min((write.data.len() / SECTOR_BYTES) as u64);
        for n in write.applied..to {
            let data = sector_of(&write.data, n);
            self.volatile.entry(write.first + n).or_default().push(Version { ticket, data });
        }
        write.applied = write.applied.max(to);
    }

    /// Ends a write: with all of its sectors applied or, if `applied_only`, with an error and only the sectors applied
    /// before.
    pub fn end(&mut self, ticket: Ticket, applied_only: bool) {
        if !applied_only {
            self.apply(ticket, u64::MAX);
        }
        self.under_way.remove(&ticket);
    }

    /// Begins a flush, which covers the writes that have returned.
    #[must_use]
    pub fn flush_begins(&self) -> FlushMark {
        FlushMark { next: self.next, under_way: self.under_way.keys().copied().collect() }
    }

    /// Ends a flush: the writes that it covers are durable.
    pub fn flush_ends(&mut self, mark: &FlushMark) {
        let Self { durable, volatile, .. } = self;
        volatile.retain(|sector, versions| {
            if let Some(last) = versions.iter().rposition(|v| mark.covers(v.ticket)) {
                durable[span(*sector)].copy_from_slice(&versions[last].data);
                versions.drain(..=last);
            }
            !versions.is_empty()
        });
    }

    /// Reads sectors, beginning with the sector `first`.
    pub fn read(&self, first: u64, out: &mut [u8]) {
        let start = first as usize * SECTOR_BYTES;
        out.copy_from_slice(&self.durable[start..start + out.len()]);
        let sectors = first..first + (out.len() / SECTOR_BYTES) as u64;
        for (sector, versions) in self.volatile.range(sectors) {
            let at = (sector - first) as usize * SECTOR_BYTES;
            out[at..at + SECTOR_BYTES].copy_from_slice(&versions[versions.len() - 1].data);
        }
    }

    /// Flips a bit of a sector durably, without a write request.
    pub fn rot(&mut self, sector: u64, bit: usize) {
        let at = sector as usize * SECTOR_BYTES + bit / 8;
        self.durable[at] ^= 1 << (bit % 8);
        if let Some(version) = self.volatile.get_mut(&sector).and_then(|v| v.last_mut()) {
            let mut data = version.data.to_vec();
            data[bit / 8] ^= 1 << (bit % 8);
            version.data = data.into();
        }
    }

    /// Changes bytes durably, without a write request.
    pub fn damage(&mut self, offset: u64, bytes: &[u8]) {
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        self.durable[start..end].copy_from_slice(bytes);
        let sectors = (start / SECTOR_BYTES) as u64..end.div_ceil(SECTOR_BYTES) as u64;
        for (sector, versions) in self.volatile.range_mut(sectors) {
            let Some(version) = versions.last_mut() else { continue };
            let place = span(*sector);
            let (from, to) = (start.max(place.start), end.min(place.end));
            let mut data = version.data.to_vec();
            data[from - place.start..to - place.start].copy_from_slice(&bytes[from - start..to - start]);
            version.data = data.into();
        }
    }

    /// Sets sectors to zeroes at once, durably.
    pub fn discard(&mut self, sectors: Range<u64>) {
        for sector in sectors {
            self.volatile.remove(&sector);
            self.durable[span(sector)].fill(0);
        }
    }

    /// Flips a random bit of a random sector from `first` on, if its durable content is not all zeroes and it has no
    /// newer version.
    pub fn rot_at_rest(&mut self, rng: &mut Rng, first: u64) {
        let sectors = self.size_bytes() / SECTOR_BYTES as u64 - first;
        let sector = first + rng.below(sectors);
        let written = self.durable[span(sector)].iter().any(|byte| *byte != 0);
        if written && !self.volatile.contains_key(&sector) {
            self.rot(sector, rng.below(SECTOR_BYTES as u64 * 8) as usize);
        }
    }

    /// Simulates a power failure. Afterwards all remaining data are durable.
    pub fn lose_power(&mut self, rng: &mut Rng, loss: Loss) {
        if loss == Loss::All {
            self.under_way.clear();
            return self.volatile.clear();
        }
        let in_order = loss == Loss::None;
        self.stop_writes(rng, in_order);
        if let Loss::Eighths(lost) = loss {
            return self.lose_sectors(rng, lost);
        }
        for (sector, versions) in std::mem::take(&mut self.volatile) {
            let chosen = if in_order { versions.len() as u64 } else { rng.below(versions.len() as u64 + 1) };
            let Some(version) = chosen.checked_sub(1).map(|n| &versions[n as usize]) else { continue };
            let torn = loss == Loss::Torn && rng.one_in(8);
            let len = if torn { rng.below(SECTOR_BYTES as u64) as usize } else { SECTOR_BYTES };
            self.durable[span(sector)][..len].copy_from_slice(&version.data[..len]);
        }
    }

    /// Each sector of each write survives or is lost independently; of the surviving versions of a sector, the one of
    /// the latest write counts.
    fn lose_sectors(&mut self, rng: &mut Rng, lost_in_8: u64) {
        let of_sector =
            |(sector, versions): (u64, Vec<Version>)| versions.into_iter().map(move |v| (v.ticket, sector, v.data));
        let mut sectors: Vec<_> = std::mem::take(&mut self.volatile).into_iter().flat_map(of_sector).collect();
        sectors.sort_by_key(|(ticket, sector, _)| (*ticket, *sector));
        for (_, sector, data) in sectors {
            if rng.below(8) >= lost_in_8 {
                self.durable[span(sector)].copy_from_slice(&data);
            }
        }
    }

    /// Models the end of the program: writes under way are done in part, sector by sector, and the rest of them is
    /// never done.
    pub fn settle(&mut self, rng: &mut Rng) {
        for (_, write) in std::mem::take(&mut self.under_way) {
            for n in write.applied..(write.data.len() / SECTOR_BYTES) as u64 {
                if rng.below(2) == 0 {
                    let ticket = self.begin(write.first + n, sector_of(&write.data, n));
                    self.end(ticket, false);
                }
            }
        }
    }

    /// Models the kill of the program: the device keeps its volatile cache, and a front part of each write under way
    /// reaches it.
    pub fn outlive_program(&mut self, rng: &mut Rng) {
        self.stop_writes(rng, true);
    }

    /// Ends all writes under way: with a random front part applied if `in_order`, else with all sectors applied.
    fn stop_writes(&mut self, rng: &mut Rng, in_order: bool) {
        for ticket in self.under_way.keys().copied().collect::<Vec<_>>() {
            let write = &self.under_way[&ticket];
            let sectors = (write.data.len() / SECTOR_BYTES) as u64;
            let done = if in_order { write.applied + rng.below(sectors - write.applied + 1) } else { sectors };
            self.apply(ticket, done);
            self.end(ticket, true);
        }
    }
}

fn span(sector: u64) -> Range<usize> {
    let start = sector as usize * SECTOR_BYTES;
    start..start + SECTOR_BYTES
}

/// Sector number `n` of some data.
#[must_use]
pub fn sector_of(data: &Bytes, n: u64) -> Bytes {
    data.slice(span(n))
}

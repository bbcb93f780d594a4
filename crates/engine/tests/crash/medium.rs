//! What a device holds: durable sectors, and a volatile cache of whatever was written since the last flush.

use bytes::Bytes;
use nitro_testkit::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What a device writes whole, or not at all.
pub const SECTOR: usize = 512;

/// Names a write of a device.
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
    /// Sectors of it that are in the volatile cache.
    applied: u64,
}

/// The writes that a flush makes durable: those that had returned when it began.
pub struct FlushMark {
    next: u64,
    under_way: BTreeSet<Ticket>,
}

impl FlushMark {
    fn covers(&self, ticket: Ticket) -> bool {
        ticket.0 < self.next && !self.under_way.contains(&ticket)
    }
}

/// How a power failure treats what is not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Each sector for itself keeps what is durable, or takes any newer version.
    Shuffled,
    /// Nothing but what is durable survives.
    All,
    /// Everything that returned survives, and some of what was under way.
    None,
    /// As shuffled, and a sector may be cut in two as well: its front new, its back old.
    Torn,
}

/// A device's sectors.
pub struct Medium {
    durable: Vec<u8>,
    volatile: BTreeMap<u64, Vec<Version>>,
    under_way: BTreeMap<Ticket, UnderWay>,
    next: u64,
}

impl Medium {
    pub fn new(size_bytes: u64) -> Self {
        Self { durable: vec![0; size_bytes as usize], volatile: BTreeMap::new(), under_way: BTreeMap::new(), next: 0 }
    }

    pub fn size_bytes(&self) -> u64 {
        self.durable.len() as u64
    }

    pub fn begin(&mut self, first: u64, data: Bytes) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.under_way.insert(ticket, UnderWay { first, data, applied: 0 });
        ticket
    }

    /// Lets reads see the first `sectors` of a write.
    pub fn apply(&mut self, ticket: Ticket, sectors: u64) {
        let Some(write) = self.under_way.get_mut(&ticket) else { return };
        let to = sectors.min((write.data.len() / SECTOR) as u64);
        for n in write.applied..to {
            let data = sector_of(&write.data, n);
            self.volatile.entry(write.first + n).or_default().push(Version { ticket, data });
        }
        write.applied = write.applied.max(to);
    }

    /// A write returns: with all of it done, or (`applied_only`) with an error and what was applied of it.
    pub fn end(&mut self, ticket: Ticket, applied_only: bool) {
        if !applied_only {
            self.apply(ticket, u64::MAX);
        }
        self.under_way.remove(&ticket);
    }

    pub fn flush_begins(&self) -> FlushMark {
        FlushMark { next: self.next, under_way: self.under_way.keys().copied().collect() }
    }

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

    pub fn read(&self, first: u64, out: &mut [u8]) {
        let start = first as usize * SECTOR;
        out.copy_from_slice(&self.durable[start..start + out.len()]);
        let sectors = first..first + (out.len() / SECTOR) as u64;
        for (sector, versions) in self.volatile.range(sectors) {
            let at = (sector - first) as usize * SECTOR;
            out[at..at + SECTOR].copy_from_slice(&versions[versions.len() - 1].data);
        }
    }

    /// Flips a bit of a sector, durably and unnoticed.
    pub fn rot(&mut self, sector: u64, bit: usize) {
        let at = sector as usize * SECTOR + bit / 8;
        self.durable[at] ^= 1 << (bit % 8);
        if let Some(version) = self.volatile.get_mut(&sector).and_then(|v| v.last_mut()) {
            let mut data = version.data.to_vec();
            data[bit / 8] ^= 1 << (bit % 8);
            version.data = data.into();
        }
    }

    /// Flips a bit of a sector that something durable stands in, from `first` on.
    pub fn rot_at_rest(&mut self, rng: &mut Rng, first: u64) {
        let sectors = self.size_bytes() / SECTOR as u64 - first;
        let sector = first + rng.below(sectors);
        let written = self.durable[span(sector)].iter().any(|byte| *byte != 0);
        if written && !self.volatile.contains_key(&sector) {
            self.rot(sector, rng.below(SECTOR as u64 * 8) as usize);
        }
    }

    /// The machine loses power. Afterwards all that is left is durable.
    pub fn lose_power(&mut self, rng: &mut Rng, loss: Loss) {
        if loss == Loss::All {
            self.under_way.clear();
            return self.volatile.clear();
        }
        let in_order = loss == Loss::None;
        self.stop_writes(rng, in_order);
        for (sector, versions) in std::mem::take(&mut self.volatile) {
            let chosen = if in_order { versions.len() as u64 } else { rng.below(versions.len() as u64 + 1) };
            let Some(version) = chosen.checked_sub(1).map(|n| &versions[n as usize]) else { continue };
            let torn = loss == Loss::Torn && rng.one_in(8);
            let len = if torn { rng.below(SECTOR as u64) as usize } else { SECTOR };
            self.durable[span(sector)][..len].copy_from_slice(&version.data[..len]);
        }
    }

    /// The program is killed: the device keeps its volatile cache; writes under way may still reach it.
    pub fn outlive_program(&mut self, rng: &mut Rng) {
        self.stop_writes(rng, true);
    }

    /// Ends all writes under way: with some front part done if `in_order`, else with any sectors.
    fn stop_writes(&mut self, rng: &mut Rng, in_order: bool) {
        for ticket in self.under_way.keys().copied().collect::<Vec<_>>() {
            let write = &self.under_way[&ticket];
            let sectors = (write.data.len() / SECTOR) as u64;
            let done = if in_order { write.applied + rng.below(sectors - write.applied + 1) } else { sectors };
            self.apply(ticket, done);
            self.end(ticket, true);
        }
    }
}

fn span(sector: u64) -> Range<usize> {
    let start = sector as usize * SECTOR;
    start..start + SECTOR
}

/// The `n`th sector of some data.
pub fn sector_of(data: &Bytes, n: u64) -> Bytes {
    data.slice(span(n))
}

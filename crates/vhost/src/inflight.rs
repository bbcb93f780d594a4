//! The in-flight region: memory that records which requests are in progress ("Inflight I/O tracking" of vhost-user),
//! and whether acknowledged writes are not yet durable. The client keeps it and passes it to the next server.

use crate::config::{QUEUE_SIZE_MAX, QUEUES_MAX};
use crate::device::Incarnation;
use crate::error::Fault;
use crate::memory::{Mapper, Mapping};
use nitro_frontend::Unflushed as Record;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::sync::atomic::Ordering;
use vhost::vhost_user::message::VhostUserInflight;
use vm_memory::{Bytes, VolatileMemory};

/// A queue's part begins with features (u64), version, number of descriptors, head of the last batch and index of the
/// used ring (u16 each); an entry for each descriptor follows. (`QueueRegionSplit` and `DescStateSplit` of vhost-user.)
const HEADER_BYTES: usize = 16;
const VERSION_AT: usize = 8;
const COUNT_AT: usize = 10;
const LAST_BATCH_AT: usize = 12;
const USED_INDEX_AT: usize = 14;
const ENTRY_BYTES: usize = 16;
const NEXT_AT: usize = 6;
const COUNTER_AT: usize = 8;
/// Alignment of the parts of queues in bytes.
const ALIGNMENT: usize = 64;
const VERSION: u16 = 1;

/// Nitro's own part follows the parts of the queues: this number, the incarnation (two u64), and whether there are
/// unflushed writes (u64).
const MAGIC: u64 = u64::from_le_bytes(*b"nitro-ub");
const OWN_BYTES: usize = 64;
const INCARNATION_AT: usize = 8;
const UNFLUSHED_AT: usize = 24;

/// The in-flight region of a device.
#[derive(Debug, Clone)]
pub(crate) struct Inflight {
    mapping: Mapping,
    queues: usize,
    queue_size: u16,
}

/// The state of a region that an earlier server has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// No acknowledged write is lost.
    Safe,
    /// When another process ended, there were acknowledged writes that were not flushed.
    Unflushed,
    /// Another kind of server made the region, so that the state is unknown.
    Unknown,
}

impl Inflight {
    /// Makes a region in a new file, signed by `by`.
    pub(crate) fn create(
        mapper: &Mapper,
        queues: u16,
        queue_size: u16,
        by: Incarnation,
    ) -> Result<(VhostUserInflight, File), Fault> {
        let bytes = check(queues, queue_size)? + OWN_BYTES;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("nitro-inflight", flags).map_err(|_| Fault::Map)?;
        ftruncate(&fd, bytes as u64).map_err(|_| Fault::Map)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(|_| Fault::Map)?;
        let file = File::from(fd);
        let told = VhostUserInflight::new(bytes as u64, 0, queues, queue_size);
        let region = Self::adopt(mapper, &told, file.try_clone().map_err(|_| Fault::Map)?)?;
        region.store(region.own(), MAGIC)?;
        region.sign(by)?;
        Ok((told, file))
    }

    /// Maps a region of a file that the client passes.
    pub(crate) fn adopt(mapper: &Mapper, told: &VhostUserInflight, file: File) -> Result<Self, Fault> {
        let needed = check(told.num_queues, told.queue_size)?;
        if told.mmap_size < needed as u64 {
            return Err(Fault::Inflight);
        }
        let mapping = mapper.map(file, told.mmap_offset, told.mmap_size)?;
        Ok(Self { mapping, queues: told.num_queues.into(), queue_size: told.queue_size })
    }

    /// Signs the region for this process, unless that would hide a loss of writes.
    pub(crate) fn take_over(&self, by: Incarnation) -> Result<Left, Fault> {
        let own = self.own();
        if self.mapping.map.size() < own + OWN_BYTES || self.load::<u64>(own)? != MAGIC {
            return Ok(Left::Unknown);
        }
        let signed = [self.load::<u64>(own + INCARNATION_AT)?, self.load::<u64>(own + INCARNATION_AT + 8)?];
        if signed != by.0 && self.load::<u64>(own + UNFLUSHED_AT)? != 0 {
            return Ok(Left::Unflushed);
        }
        self.sign(by)?;
        Ok(Left::Safe)
    }

    fn sign(&self, by: Incarnation) -> Result<(), Fault> {
        self.store(self.own() + INCARNATION_AT, by.0[0])?;
        self.store(self.own() + INCARNATION_AT + 8, by.0[1])
    }

    /// The record of unflushed writes, which is stored only in a region that Nitro made.
    pub(crate) fn unflushed(&self) -> Unflushed {
        let own = self.own();
        let is_ours = self.mapping.map.size() >= own + OWN_BYTES && self.load::<u64>(own) == Ok(MAGIC);
        if !is_ours {
            return Unflushed::default();
        }
        let region = self.clone();
        Unflushed::new(move |value| region.store(own + UNFLUSHED_AT, value))
    }

    /// The part of a queue of `size` descriptors, if the region has one.
    pub(crate) fn queue(&self, index: usize, size: u16) -> Option<QueueLog> {
        let fits = index < self.queues && size <= self.queue_size;
        fits.then(|| QueueLog { region: self.clone(), at: index * stride(self.queue_size), size, counter: 0 })
    }

    fn own(&self) -> usize {
        self.queues * stride(self.queue_size)
    }

    fn load<T: vm_memory::AtomicAccess>(&self, at: usize) -> Result<T, Fault> {
        self.mapping.map.as_volatile_slice().load(at, Ordering::SeqCst).map_err(|_| Fault::Inflight)
    }

    fn store<T: vm_memory::AtomicAccess>(&self, at: usize, value: T) -> Result<(), Fault> {
        self.mapping.map.as_volatile_slice().store(value, at, Ordering::SeqCst).map_err(|_| Fault::Inflight)
    }
}

fn stride(queue_size: u16) -> usize {
    (HEADER_BYTES + ENTRY_BYTES * usize::from(queue_size)).next_multiple_of(ALIGNMENT)
}

/// Checks the numbers, and returns the bytes of the parts of all queues.
fn check(queues: u16, queue_size: u16) -> Result<usize, Fault> {
    let is_possible = (1..=QUEUES_MAX).contains(&queues.into()) && (1..=QUEUE_SIZE_MAX).contains(&queue_size);
    if is_possible { Ok(usize::from(queues) * stride(queue_size)) } else { Err(Fault::Inflight) }
}

/// The record of writes that are acknowledged and not durable.
pub(crate) type Unflushed = Record<Fault>;

/// A queue's part of the region.
#[derive(Debug)]
pub(crate) struct QueueLog {
    region: Inflight,
    at: usize,
    size: u16,
    counter: u64,
}

impl QueueLog {
    /// Repairs the record after a crash between two steps, and returns the heads of the requests that were in progress,
    /// in the order in which they were taken.
    pub(crate) fn recover(&mut self, used_index: u16) -> Result<Vec<u16>, Fault> {
        if self.load::<u16>(VERSION_AT)? == 0 {
            self.store(VERSION_AT, VERSION)?;
            self.store(COUNT_AT, self.size)?;
        }
        if self.load::<u16>(USED_INDEX_AT)? != used_index {
            let last: u16 = self.load(LAST_BATCH_AT)?;
            if last < self.size {
                self.store(self.entry(last), 0_u8)?;
            }
            self.store(USED_INDEX_AT, used_index)?;
        }
        let mut under_way = Vec::new();
        for head in 0..self.size {
            if self.load::<u8>(self.entry(head))? != 0 {
                under_way.push((self.load::<u64>(self.entry(head) + COUNTER_AT)?, head));
            }
        }
        under_way.sort_unstable();
        self.counter = under_way.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Ok(under_way.into_iter().map(|(_, head)| head).collect())
    }

    /// Notes that a request was taken.
    pub(crate) fn begin(&mut self, head: u16) -> Result<(), Fault> {
        self.store(self.entry(head) + COUNTER_AT, self.counter)?;
        self.counter = self.counter.wrapping_add(1);
        self.store(self.entry(head), 1_u8)
    }

    /// Notes that a request is about to be completed.
    pub(crate) fn ending(&self, head: u16) -> Result<(), Fault> {
        let last: u16 = self.load(LAST_BATCH_AT)?;
        self.store(self.entry(head) + NEXT_AT, last)?;
        self.store(LAST_BATCH_AT, head)
    }

    /// Notes that a request was completed, and the present index of the used ring.
    pub(crate) fn ended(&self, head: u16, used_index: u16) -> Result<(), Fault> {
        self.store(self.entry(head), 0_u8)?;
        self.store(USED_INDEX_AT, used_index)
    }

    fn entry(&self, head: u16) -> usize {
        HEADER_BYTES + ENTRY_BYTES * usize::from(head)
    }

    fn load<T: vm_memory::AtomicAccess>(&self, at: usize) -> Result<T, Fault> {
        self.region.load(self.at + at)
    }

    fn store<T: vm_memory::AtomicAccess>(&self, at: usize, value: T) -> Result<(), Fault> {
        self.region.store(self.at + at, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> (VhostUserInflight, File, Incarnation) {
        let by = Incarnation([1, 2]);
        let (told, file) = Inflight::create(&Mapper::unguarded(), 2, 8, by).unwrap();
        (told, file, by)
    }

    #[test]
    fn requests_under_way_come_back_in_their_order() {
        let (told, file, _) = one();
        let region = Inflight::adopt(&Mapper::unguarded(), &told, file.try_clone().unwrap()).unwrap();
        let mut log = region.queue(1, 8).unwrap();
        assert!(log.recover(0).unwrap().is_empty());
        for head in [5, 3, 7] {
            log.begin(head).unwrap();
        }
        log.ending(3).unwrap();
        log.ended(3, 1).unwrap();
        // A process dies after it has completed 5 and before it has noted that; another process opens the region.
        log.ending(5).unwrap();
        let again = Inflight::adopt(&Mapper::unguarded(), &told, file).unwrap();
        assert_eq!(again.queue(1, 8).unwrap().recover(2).unwrap(), [7]);
        assert!(again.queue(0, 8).unwrap().recover(0).unwrap().is_empty());
        assert!(again.queue(2, 8).is_none() && again.queue(0, 16).is_none());
    }

    #[test]
    fn a_process_that_died_with_unflushed_writes_is_found_out() {
        let (told, file, by) = one();
        let adopt = || Inflight::adopt(&Mapper::unguarded(), &told, file.try_clone().unwrap()).unwrap();
        let (region, other) = (adopt(), Incarnation([3, 4]));
        let unflushed = region.unflushed();
        let mark = unflushed.mark();
        unflushed.note().unwrap();
        unflushed.flushed(mark).unwrap();
        assert_eq!(adopt().take_over(other).unwrap(), Left::Unflushed, "the flush began before the write");
        assert_eq!(adopt().take_over(by).unwrap(), Left::Safe, "the same process has lost nothing");
        unflushed.flushed(unflushed.mark()).unwrap();
        assert_eq!(adopt().take_over(other).unwrap(), Left::Safe);
        unflushed.note().unwrap();
        assert_eq!(adopt().take_over(by).unwrap(), Left::Unflushed, "the region is the other's now");
    }

    #[test]
    fn regions_that_lie_are_refused() {
        let (told, file, by) = one();
        let adopt = |told: VhostUserInflight| Inflight::adopt(&Mapper::unguarded(), &told, file.try_clone().unwrap());
        let short = VhostUserInflight { mmap_size: 100, ..told };
        assert_eq!(adopt(short).unwrap_err(), Fault::Inflight);
        let long = VhostUserInflight { mmap_size: told.mmap_size + 4096, ..told };
        assert_eq!(adopt(long).unwrap_err(), Fault::Region);
        for (num_queues, queue_size) in [(0, 8), (2, 0), (33, 8), (2, 2048)] {
            assert_eq!(adopt(VhostUserInflight { num_queues, queue_size, ..told }).unwrap_err(), Fault::Inflight);
        }
        let foreign = crate::memory::tests::memfd(4096, SealFlags::SHRINK);
        let told = VhostUserInflight::new(4096, 0, 1, 8);
        let region = Inflight::adopt(&Mapper::unguarded(), &told, foreign).unwrap();
        assert_eq!(region.take_over(by).unwrap(), Left::Unknown);
    }
}

//! The rings of a queue (virtio 1.2, §2.7).

use crate::chain::{Chain, Table, gather};
use crate::config::QUEUE_SIZE_MAX;
use crate::error::Fault;
use crate::inflight::QueueLog;
use crate::memory::Memory;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress};

/// Flag of the available ring: the driver needs no notification.
const NO_INTERRUPT: u16 = 1;

/// The placement of a queue: number of descriptors, addresses of the rings in the virtual machine monitor, and the
/// index of the available ring at which the queue begins.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Placement {
    pub(crate) size: u16,
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
    pub(crate) base: u16,
}

/// The rings of a running queue.
pub(crate) struct Ring {
    memory: Arc<Memory>,
    queue: Queue,
    table: Table,
    available: GuestAddress,
    has_event_idx: bool,
    /// For each head, whether the device has the request.
    in_use: Vec<bool>,
    log: Option<QueueLog>,
}

impl Ring {
    /// Opens the rings. Returns also the heads of requests that an earlier server had begun.
    pub(crate) fn open(
        memory: Arc<Memory>,
        at: &Placement,
        has_event_idx: bool,
        log: Option<QueueLog>,
    ) -> Result<(Self, Vec<u16>), Fault> {
        let address = |user| memory.guest_address(user);
        let (table, available, used) = (address(at.descriptors)?, address(at.available)?, address(at.used)?);
        let mut queue = Queue::new(QUEUE_SIZE_MAX).map_err(|_| Fault::QueueSize)?;
        queue.try_set_size(at.size).map_err(|_| Fault::QueueSize)?;
        queue.try_set_desc_table_address(table).map_err(|_| Fault::Ring)?;
        queue.try_set_avail_ring_address(available).map_err(|_| Fault::Ring)?;
        queue.try_set_used_ring_address(used).map_err(|_| Fault::Ring)?;
        queue.set_event_idx(has_event_idx);
        queue.set_ready(true);
        if !queue.is_valid(memory.guest()) {
            return Err(Fault::Ring);
        }
        let used_index = queue.used_idx(memory.guest(), Ordering::Acquire).map_err(|_| Fault::Ring)?.0;
        queue.set_next_used(used_index);
        queue.set_next_avail(at.base);
        let table = Table { address: table, size: at.size.into() };
        let in_use = vec![false; at.size.into()];
        let mut ring = Self { memory, queue, table, available, has_event_idx, in_use, log };
        let under_way = ring.log.as_mut().map_or(Ok(Vec::new()), |log| log.recover(used_index))?;
        if ring.log.is_some() {
            ring.queue.set_next_avail(used_index.wrapping_add(under_way.len() as u16));
        }
        for head in &under_way {
            ring.take(*head)?;
        }
        Ok((ring, under_way))
    }

    /// Takes the next request, if there is one, and returns its head.
    pub(crate) fn pop(&mut self) -> Result<Option<u16>, Fault> {
        let heads = self.queue.iter(self.memory.guest());
        let Some(chain) = heads.map_err(|_| Fault::AvailableIndex)?.next() else { return Ok(None) };
        let head = chain.head_index();
        self.take(head)?;
        if let Some(log) = &mut self.log {
            log.begin(head)?;
        }
        Ok(Some(head))
    }

    fn take(&mut self, head: u16) -> Result<(), Fault> {
        let in_use = self.in_use.get_mut(usize::from(head)).ok_or(Fault::DescriptorIndex)?;
        if std::mem::replace(in_use, true) { Err(Fault::InUse) } else { Ok(()) }
    }

    /// Collects the chain of a head.
    pub(crate) fn chain(&self, head: u16) -> Result<Chain, Fault> {
        gather(&self.memory, self.table, head)
    }

    /// Completes a request, with the number of bytes that were written into its memory.
    pub(crate) fn complete(&mut self, head: u16, written: u32) -> Result<(), Fault> {
        if let Some(in_use) = self.in_use.get_mut(usize::from(head)) {
            *in_use = false;
        }
        if let Some(log) = &self.log {
            log.ending(head)?;
        }
        self.queue.add_used(self.memory.guest(), head, written).map_err(|_| Fault::Ring)?;
        self.log.as_ref().map_or(Ok(()), |log| log.ended(head, self.queue.next_used()))
    }

    /// Requests a kick from the driver for the next request. `true`: there is a request already.
    pub(crate) fn arm(&mut self) -> Result<bool, Fault> {
        self.queue.enable_notification(self.memory.guest()).map_err(|_| Fault::Ring)
    }

    /// Tells the driver that kicks are not needed.
    pub(crate) fn disarm(&mut self) -> Result<(), Fault> {
        self.queue.disable_notification(self.memory.guest()).map_err(|_| Fault::Ring)
    }

    /// Whether there is a request that was not taken yet.
    pub(crate) fn has_more(&self) -> Result<bool, Fault> {
        let index = self.queue.avail_idx(self.memory.guest(), Ordering::Acquire).map_err(|_| Fault::Ring)?;
        Ok(index.0 != self.queue.next_avail())
    }

    /// Whether the driver needs a notification of the requests that were completed since the last call.
    pub(crate) fn must_ring(&mut self) -> Result<bool, Fault> {
        if self.has_event_idx {
            return self.queue.needs_notification(self.memory.guest()).map_err(|_| Fault::Ring);
        }
        fence(Ordering::SeqCst);
        let flags: u16 = self.memory.guest().load(self.available, Ordering::Relaxed).map_err(|_| Fault::Ring)?;
        Ok(u16::from_le(flags) & NO_INTERRUPT == 0)
    }

    /// The index of the available ring at which the queue is to continue.
    pub(crate) fn base(&self) -> u16 {
        self.queue.next_avail()
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

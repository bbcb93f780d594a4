//! A queue's rings (virtio 1.2, §2.7).

use crate::chain::{Chain, Table, gather};
use crate::config::QUEUE_SIZE_MAX;
use crate::error::Fault;
use crate::inflight::QueueLog;
use crate::memory::Memory;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress};

/// Of the available ring's flags: the driver needs no notification.
const NO_INTERRUPT: u16 = 1;

/// Where a queue's rings are, by the addresses of the virtual machine monitor, and where it is to begin.
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
    /// By head: whether it is with the device.
    in_use: Vec<bool>,
    log: Option<QueueLog>,
}

impl Ring {
    /// Opens rings, and gives the heads of requests that an earlier server had begun.
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

    /// The next request's head, if there is one.
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

    /// The chain of a head.
    pub(crate) fn chain(&self, head: u16) -> Result<Chain, Fault> {
        gather(&self.memory, self.table, head)
    }

    /// Gives a request back, with so many bytes written to it.
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

    /// Asks the driver to kick for the next request. `true`: there is one already.
    pub(crate) fn arm(&mut self) -> Result<bool, Fault> {
        self.queue.enable_notification(self.memory.guest()).map_err(|_| Fault::Ring)
    }

    /// Asks the driver not to kick.
    pub(crate) fn disarm(&mut self) -> Result<(), Fault> {
        self.queue.disable_notification(self.memory.guest()).map_err(|_| Fault::Ring)
    }

    /// Whether there is a request.
    pub(crate) fn has_more(&self) -> Result<bool, Fault> {
        let index = self.queue.avail_idx(self.memory.guest(), Ordering::Acquire).map_err(|_| Fault::Ring)?;
        Ok(index.0 != self.queue.next_avail())
    }

    /// Whether the driver wants to be told of what was given back since the last call.
    pub(crate) fn must_ring(&mut self) -> Result<bool, Fault> {
        if self.has_event_idx {
            return self.queue.needs_notification(self.memory.guest()).map_err(|_| Fault::Ring);
        }
        fence(Ordering::SeqCst);
        let flags: u16 = self.memory.guest().load(self.available, Ordering::Relaxed).map_err(|_| Fault::Ring)?;
        Ok(u16::from_le(flags) & NO_INTERRUPT == 0)
    }

    /// Where to go on when it is opened again.
    pub(crate) fn base(&self) -> u16 {
        self.queue.next_avail()
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

//! The driver's side of a queue.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

const HEADER_BYTES: u64 = 16;
const DESCRIPTOR_BYTES: u64 = 16;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// Most descriptors of a request: header, data, status.
const PARTS: u16 = 3;
/// Longest wait for a request in milliseconds.
const PATIENCE_MS: i32 = 60_000;

/// The type of a request (virtio 1.2, §5.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Read.
    Read = 0,
    /// Write.
    Write = 1,
    /// Flush.
    Flush = 4,
    /// Return the device's identifier.
    Identify = 8,
    /// Discard.
    Discard = 11,
    /// Write zeroes.
    WriteZeroes = 13,
}

/// A request that the device has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The request's slot.
    pub slot: u16,
    /// 0: success, 1: I/O error, 2: unsupported.
    pub status: u8,
}

/// Offsets and sizes of the parts of a queue, from its beginning, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    depth: u16,
    size: u16,
    available: u64,
    used: u64,
    slots: u64,
    slot_bytes: u64,
    data_bytes: u32,
    pub(crate) bytes: u64,
}

/// Offsets within a slot, whose beginning is an indirect table.
const SLOT_HEADER_AT: u64 = 64;
const SLOT_STATUS_AT: u64 = 96;
const SLOT_DATA_AT: u64 = 512;

impl Layout {
    pub(crate) fn new(depth: u16, data_bytes: u32) -> Self {
        let size = (depth * PARTS).next_power_of_two();
        let available = DESCRIPTOR_BYTES * u64::from(size);
        let used = (available + 6 + 2 * u64::from(size)).next_multiple_of(64);
        let slots = (used + 6 + 8 * u64::from(size)).next_multiple_of(4096);
        let slot_bytes = (SLOT_DATA_AT + u64::from(data_bytes)).next_multiple_of(512);
        let bytes = (slots + slot_bytes * u64::from(depth)).next_multiple_of(4096);
        Self { depth, size, available, used, slots, slot_bytes, data_bytes, bytes }
    }
}

/// A queue. Each request uses a slot; slots are numbered from 0 to below the depth.
pub struct Queue {
    memory: Arc<GuestMemoryMmap>,
    layout: Layout,
    at: u64,
    is_indirect: bool,
    has_event_idx: bool,
    next_available: u16,
    last_kick: u16,
    next_used: u16,
    kick: EventFd,
    call: EventFd,
    calls: Epoll,
}

fn failed(error: impl std::fmt::Debug) -> io::Error {
    io::Error::other(format!("{error:?}"))
}

impl Queue {
    pub(crate) fn new(memory: &Arc<GuestMemoryMmap>, layout: Layout, at: u64, is_indirect: bool) -> io::Result<Self> {
        let (call, calls) = (EventFd::new(EFD_NONBLOCK)?, Epoll::new()?);
        calls.ctl(ControlOperation::Add, call.as_raw_fd(), EpollEvent::new(EventSet::IN, 0))?;
        Ok(Self {
            memory: Arc::clone(memory),
            layout,
            at,
            is_indirect,
            has_event_idx: false,
            next_available: 0,
            last_kick: 0,
            next_used: 0,
            kick: EventFd::new(EFD_NONBLOCK)?,
            call,
            calls,
        })
    }

    pub(crate) fn size(&self) -> u16 {
        self.layout.size
    }

    /// Offsets of the descriptor table, the available ring and the used ring in the driver's memory.
    pub(crate) fn places(&self) -> [u64; 3] {
        [self.at, self.at + self.layout.available, self.at + self.layout.used]
    }

    pub(crate) fn call(&self) -> &EventFd {
        &self.call
    }

    pub(crate) fn kick_event(&self) -> &EventFd {
        &self.kick
    }

    pub(crate) fn use_event_idx(&mut self, has_event_idx: bool) {
        self.has_event_idx = has_event_idx;
    }

    pub(crate) fn used_index(&self) -> io::Result<u16> {
        self.load(self.at + self.layout.used + 2)
    }

    pub(crate) fn reset(&mut self) -> io::Result<()> {
        (self.next_available, self.next_used, self.last_kick) = (0, 0, 0);
        let rings = vec![0; self.layout.slots as usize];
        self.memory.write_slice(&rings, GuestAddress(self.at)).map_err(failed)
    }

    fn load(&self, at: u64) -> io::Result<u16> {
        self.memory.load(GuestAddress(at), Ordering::Acquire).map_err(failed)
    }

    fn store(&self, at: u64, value: u16) -> io::Result<()> {
        self.memory.store(value, GuestAddress(at), Ordering::Release).map_err(failed)
    }

    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_slice(bytes, GuestAddress(at)).map_err(failed)
    }

    fn slot(&self, slot: u16) -> u64 {
        self.at + self.layout.slots + self.layout.slot_bytes * u64::from(slot)
    }

    /// The address of a slot's data in the driver's memory.
    #[must_use]
    pub fn data_at(&self, slot: u16) -> u64 {
        self.slot(slot) + SLOT_DATA_AT
    }

    /// Copies data into a slot.
    ///
    /// # Errors
    /// The data do not fit into the memory.
    pub fn fill(&self, slot: u16, data: &[u8]) -> io::Result<()> {
        self.put(self.data_at(slot), data)
    }

    /// The first `len` bytes of a slot's data.
    ///
    /// # Errors
    /// The memory does not have so many bytes.
    pub fn data(&self, slot: u16, len: usize) -> io::Result<Vec<u8>> {
        let mut data = vec![0; len];
        self.memory.read_slice(&mut data, GuestAddress(self.data_at(slot))).map_err(failed)?;
        Ok(data)
    }

    /// Makes a request available, with `len` bytes of the slot's data; [`kick`](Self::kick) notifies the device.
    ///
    /// # Errors
    /// The slot does not exist or is too small.
    pub fn submit(&mut self, slot: u16, kind: Kind, sector: u64, len: u32) -> io::Result<()> {
        if slot >= self.layout.depth || len > self.layout.data_bytes {
            return Err(failed("the slot does not exist or is too small"));
        }
        let place = self.slot(slot);
        let mut header = [0; HEADER_BYTES as usize];
        header[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        self.put(place + SLOT_HEADER_AT, &header)?;
        self.put(place + SLOT_STATUS_AT, &[0xFF])?;
        let head = slot * PARTS;
        let is_read = matches!(kind, Kind::Read | Kind::Identify);
        let (table, first) = if self.is_indirect { (place, 0) } else { (self.at, head) };
        let data_flags = NEXT | if is_read { WRITE } else { 0 };
        let mut parts = vec![(place + SLOT_HEADER_AT, HEADER_BYTES as u32, NEXT)];
        if len > 0 {
            parts.push((place + SLOT_DATA_AT, len, data_flags));
        }
        parts.push((place + SLOT_STATUS_AT, 1, WRITE));
        for (at, (address, len, flags)) in (first..).zip(&parts) {
            self.describe(table + DESCRIPTOR_BYTES * u64::from(at), *address, *len, *flags, at + 1)?;
        }
        if self.is_indirect {
            let bytes = parts.len() as u32 * DESCRIPTOR_BYTES as u32;
            self.describe(self.at + DESCRIPTOR_BYTES * u64::from(head), place, bytes, INDIRECT, 0)?;
        }
        let ring = self.at + self.layout.available;
        let at = u64::from(self.next_available % self.layout.size);
        self.put(ring + 4 + 2 * at, &head.to_le_bytes())?;
        self.next_available = self.next_available.wrapping_add(1);
        self.store(ring + 2, self.next_available)
    }

    fn describe(&self, at: u64, address: u64, len: u32, flags: u16, next: u16) -> io::Result<()> {
        let mut bytes = [0; DESCRIPTOR_BYTES as usize];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        bytes[12..14].copy_from_slice(&flags.to_le_bytes());
        bytes[14..].copy_from_slice(&next.to_le_bytes());
        self.put(at, &bytes)
    }

    /// Notifies the device of submitted requests, if it needs that.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn kick(&mut self) -> io::Result<()> {
        fence(Ordering::SeqCst);
        let used = self.at + self.layout.used;
        let must = if self.has_event_idx {
            let event = self.load(used + 4 + 8 * u64::from(self.layout.size))?;
            let (now, before) = (self.next_available, self.last_kick);
            now.wrapping_sub(event).wrapping_sub(1) < now.wrapping_sub(before)
        } else {
            self.load(used)? & 1 == 0
        };
        self.last_kick = self.next_available;
        if must { self.kick.write(1) } else { Ok(()) }
    }

    /// Takes a completed request, if there is one.
    ///
    /// # Errors
    /// The used ring is invalid.
    pub fn take(&mut self) -> io::Result<Option<Done>> {
        if self.used_index()? == self.next_used {
            return Ok(None);
        }
        let used = self.at + self.layout.used;
        let entry = used + 4 + 8 * u64::from(self.next_used % self.layout.size);
        let head: u32 = self.memory.read_obj(GuestAddress(entry)).map_err(failed)?;
        self.next_used = self.next_used.wrapping_add(1);
        let slot = head as u16 / PARTS;
        let status: u8 = self.memory.read_obj(GuestAddress(self.slot(slot) + SLOT_STATUS_AT)).map_err(failed)?;
        Ok(Some(Done { slot, status }))
    }

    /// Waits for the next completed request.
    ///
    /// # Errors
    /// No request was completed within a minute, or the used ring is invalid.
    pub fn wait(&mut self) -> io::Result<Done> {
        loop {
            if let Some(done) = self.take()? {
                return Ok(done);
            }
            let available = self.at + self.layout.available;
            self.store(available + 4 + 2 * u64::from(self.layout.size), self.next_used)?;
            fence(Ordering::SeqCst);
            if self.used_index()? != self.next_used {
                continue;
            }
            if self.calls.wait(PATIENCE_MS, &mut [EpollEvent::default()])? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // The counter may be zero already.
            let _ = self.call.read();
        }
    }

    /// Runs one request in slot 0, which writes `data` or reads `read` bytes. Returns the status and the read bytes.
    ///
    /// # Errors
    /// Those of [`fill`](Self::fill), [`submit`](Self::submit), [`kick`](Self::kick) and [`wait`](Self::wait).
    pub fn run(&mut self, kind: Kind, sector: u64, data: &[u8], read: u32) -> io::Result<(u8, Vec<u8>)> {
        self.fill(0, data)?;
        self.submit(0, kind, sector, read.max(data.len() as u32))?;
        self.kick()?;
        let done = self.wait()?;
        Ok((done.status, self.data(done.slot, read as usize)?))
    }
}

//! Extents that are kept beyond their request: in queues, waiting for insertion, or read ahead.
//!
//! Such an extent is often a part of a larger buffer (a request's payload, or the result of one read of the origin) and
//! keeps the whole buffer alive. Code that keeps extents therefore counts the memory, once for all extents of a
//! request, until the last of them is dropped ([`Room`]). Code that keeps an extent for a long or unknown time copies
//! it to its own memory ([`Kept::detached`], [`Kept::for_reply`]).

use bytes::Bytes;
use event_listener::Event;
pub(crate) use nitro_cache::ram::OVERHEAD_BYTES;
use nitro_port::buf::{held_bytes, is_zero};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A reply keeps at most this multiple of its length in memory.
const REPLY_PINS_MAX: u64 = 4;

/// Bytes of `part`, which keeps `pins` bytes of memory alive, for a reply that a client may be slow to take.
pub(crate) fn for_reply(part: Bytes, pins: u64) -> Bytes {
    if pins > REPLY_PINS_MAX * part.len() as u64 { Bytes::copy_from_slice(&part) } else { part }
}

/// An extent, and how much memory it keeps alive.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    bytes: Bytes,
    pins: u64,
}

impl Kept {
    /// An extent in memory of its own.
    pub(crate) fn own(bytes: Bytes) -> Self {
        Self { pins: bytes.len() as u64, bytes }
    }

    /// An extent that is a part of `pins` bytes of memory. Zeroes are taken from `zero_extent`.
    pub(crate) fn part(bytes: Bytes, pins: u64, zero_extent: &Bytes) -> Self {
        let is_part = pins > bytes.len() as u64;
        if is_part && bytes.len() == zero_extent.len() && is_zero(&bytes) {
            return Self::own(zero_extent.clone());
        }
        Self { bytes, pins }
    }

    /// All extents of one read of the origin.
    pub(crate) fn parts(extents: &[Bytes], zero_extent: &Bytes) -> Vec<Self> {
        let pins = extents.iter().map(|extent| extent.len() as u64).sum();
        extents.iter().map(|extent| Self::part(extent.clone(), pins, zero_extent)).collect()
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    fn is_part(&self) -> bool {
        self.pins > self.bytes.len() as u64
    }

    /// The extent in memory of its own.
    pub(crate) fn detached(&self) -> Bytes {
        if self.is_part() { Bytes::copy_from_slice(&self.bytes) } else { self.bytes.clone() }
    }

    /// The extent for a reply that a client may be slow to take.
    pub(crate) fn for_reply(&self) -> Bytes {
        for_reply(self.bytes.clone(), self.pins)
    }
}

/// Decides how the extents of one request are kept: extents that are parts of its memory are not copied, unless they
/// are less than half of it. Returns the bytes that they keep alive together.
pub(crate) fn settle<'a>(kept: impl Iterator<Item = &'a mut Kept>) -> u64 {
    let (mut parts, mut own, mut overhead) = (Vec::new(), 0, 0);
    for extent in kept {
        overhead += OVERHEAD_BYTES;
        if extent.is_part() { parts.push(extent) } else { own += held_bytes(extent.bytes.len()) }
    }
    let backing = parts.iter().map(|extent| extent.pins).max().unwrap_or(0);
    let used: u64 = parts.iter().map(|extent| extent.bytes.len() as u64).sum();
    if used * 2 >= backing {
        return overhead + own + backing;
    }
    parts.into_iter().for_each(|extent| *extent = Kept::own(extent.detached()));
    overhead + own + used
}

/// A counter of memory with a limit.
#[derive(Debug)]
pub(crate) struct Meter {
    held: AtomicU64,
    bytes_max: u64,
    /// At most half of the limit is in use.
    pub(crate) roomy: Event,
}

impl Meter {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { held: AtomicU64::new(0), bytes_max, roomy: Event::new() })
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.held.load(Ordering::SeqCst)
    }

    /// Holds `bytes`, whether or not there is room.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Arc<Room> {
        self.held.fetch_add(bytes, Ordering::SeqCst);
        Arc::new(Room { bytes, meter: self.clone() })
    }

    /// Holds `bytes` if there is room, or nothing else is held.
    pub(crate) fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Arc<Room>> {
        let fits = |held: u64| (held == 0 || held + bytes <= self.bytes_max).then_some(held + bytes);
        self.held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).ok()?;
        Some(Arc::new(Room { bytes, meter: self.clone() }))
    }
}

/// Memory that is held until the last clone is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: u64,
    meter: Arc<Meter>,
}

impl Drop for Room {
    fn drop(&mut self) {
        let before = self.meter.held.fetch_sub(self.bytes, Ordering::SeqCst);
        // Waking is dear across threads: not for every extent.
        if before - self.bytes <= self.meter.bytes_max / 2 {
            self.meter.roomy.notify(usize::MAX);
        }
    }
}

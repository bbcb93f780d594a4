//! Staging: content waits in RAM before it is packed, as in the server's insertion queue. It keeps the buffer of its
//! request in use; void content does, too, until it is swept.

use crate::front::held_together;
use crate::settings::Settings;
use crate::workload::{Piece, runs};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use nitro_cache::ram::OVERHEAD_BYTES;
use nitro_cache::staging::Staging;
use nitro_port::buf::held_bytes;
use nitro_trace::Op;
use nitro_units::ExtentKey;
use std::collections::VecDeque;

/// A staged content.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    piece: Piece,
    number: u64,
    /// The number of its room.
    room: u64,
}

/// The memory that the contents of one request keep in use together, until the last of them leaves.
#[derive(Debug, Clone, Copy)]
struct Room {
    contents: u32,
    bytes: u64,
}

/// The rooms in use, by number.
#[derive(Default)]
struct Rooms {
    rooms: VecDeque<Room>,
    first: u64,
    held_bytes: u64,
}

impl Rooms {
    fn add(&mut self, contents: usize, bytes: u64) -> u64 {
        self.held_bytes += bytes;
        self.rooms.push_back(Room { contents: u32::try_from(contents).unwrap_or(u32::MAX), bytes });
        self.first + self.rooms.len() as u64 - 1
    }

    fn leave(&mut self, number: u64) {
        let Some(room) = self.rooms.get_mut((number - self.first) as usize) else { return };
        room.contents -= 1;
        if room.contents == 0 {
            self.held_bytes -= room.bytes;
        }
        while self.rooms.front().is_some_and(|room| room.contents == 0) {
            self.rooms.pop_front();
            self.first += 1;
        }
    }
}

/// The staging buffer, a FIFO queue.
pub(super) struct Staged {
    queue: Staging<Waiting>,
    rooms: Rooms,
    /// Contents of the current request, numbered up to `next`.
    arriving: Vec<Piece>,
    /// Extents of the current request that are merged with those on the SSD: they enter once these have been read.
    merged: Vec<Piece>,
    /// By extent: the number of its newest content, and whether it was used again. The hash function has no random seed,
    /// so the table's size, which is reported, is the same in every run.
    newest: HashMap<ExtentKey, (u64, bool), FixedState>,
    next: u64,
    extent_bytes: u32,
}

impl Staged {
    /// Staging in the RAM that is set aside for it, if there is any.
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            queue: Staging::new(settings.staging_bytes),
            rooms: Rooms::default(),
            arriving: Vec::new(),
            merged: Vec::new(),
            newest: HashMap::default(),
            next: 0,
            extent_bytes: settings.extent_bytes,
        }
    }

    pub(super) const fn is_used(&self) -> bool {
        self.queue.is_used()
    }

    /// Whether an extent is staged; if so, notes a further use.
    pub(super) fn use_again(&mut self, key: ExtentKey) -> bool {
        self.newest.get_mut(&key).map(|(_, used)| *used = true).is_some()
    }

    /// Adds a content of the current request.
    pub(super) fn push(&mut self, piece: &Piece) {
        self.next += 1;
        self.newest.insert(piece.key, (self.next, false));
        self.arriving.push(*piece);
    }

    /// Adds an extent of the current request that is merged with the one on the SSD.
    pub(super) fn push_merged(&mut self, piece: &Piece) {
        self.merged.push(*piece);
    }

    /// Notes the end of the current request: its contents enter the queue.
    pub(super) fn request_arrived(&mut self) {
        let (mut merged, whole) = (std::mem::take(&mut self.merged), self.arriving.len());
        merged.drain(..).for_each(|piece| self.push(&piece));
        self.merged = merged;
        let arriving = std::mem::take(&mut self.arriving);
        let mut number = self.next - arriving.len() as u64;
        if arriving.first().is_some_and(|first| first.op() == Op::Write) {
            let room = self.rooms.add(arriving.len(), self.written_bytes(&arriving));
            self.enter(&arriving[..whole], number, room);
            (whole..arriving.len()).for_each(|_| self.sweep());
            self.enter(&arriving[whole..], number + whole as u64, room);
        } else {
            // Each run of neighbours was read into a buffer of its own.
            for run in runs(&arriving) {
                let room = self.rooms.add(run.len(), held_together(run.len(), self.extent_bytes));
                self.enter(run, number, room);
                number += run.len() as u64;
            }
        }
        self.arriving = arriving;
        self.arriving.clear();
    }

    /// RAM in bytes that written extents keep in use: whole ones share the request's buffer, others are copies.
    fn written_bytes(&self, written: &[Piece]) -> u64 {
        let whole = written.iter().filter(|piece| piece.len == self.extent_bytes).count();
        let copies = (written.len() - whole) as u64;
        let copied = copies * (held_bytes(self.extent_bytes as usize) + OVERHEAD_BYTES);
        if whole == 0 { copied } else { copied + held_together(whole, self.extent_bytes) }
    }

    /// Adds contents to the queue, numbered from `number + 1` on, which share a room.
    fn enter(&mut self, contents: &[Piece], number: u64, room: u64) {
        for (piece, number) in contents.iter().zip(number + 1..) {
            self.queue.push(Waiting { piece: *piece, number, room });
            self.sweep();
        }
    }

    /// Counts an insertion.
    fn sweep(&mut self) {
        let newest = &self.newest;
        let is_void = |job: &Waiting| newest.get(&job.piece.key).is_none_or(|(number, _)| *number != job.number);
        for void in self.queue.sweep(is_void) {
            self.rooms.leave(void.room);
        }
    }

    /// Whether an extent is staged.
    pub(super) fn has(&self, key: ExtentKey) -> bool {
        self.newest.contains_key(&key)
    }

    /// Drops an extent; returns whether it was staged.
    pub(super) fn remove(&mut self, key: ExtentKey) -> bool {
        self.newest.remove(&key).is_some()
    }

    /// The oldest content, if it is due, and whether it was used again.
    pub(super) fn pop(&mut self) -> Option<(Piece, bool)> {
        while self.queue.is_due(self.rooms.held_bytes) {
            if let Some(content) = self.pop_front()? {
                return Some(content);
            }
        }
        None
    }

    /// The oldest content, due or not.
    pub(super) fn pop_any(&mut self) -> Option<(Piece, bool)> {
        loop {
            if let Some(content) = self.pop_front()? {
                return Some(content);
            }
        }
    }

    /// `None`: the queue is empty; `Some(None)`: its oldest content is void.
    fn pop_front(&mut self) -> Option<Option<(Piece, bool)>> {
        let Waiting { piece, number, room } = self.queue.pop()?;
        self.rooms.leave(room);
        let Some((newest, used)) = self.newest.get(&piece.key).copied() else { return Some(None) };
        if newest != number {
            return Some(None);
        }
        self.newest.remove(&piece.key);
        Some(Some((piece, used)))
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.newest.allocation_size() + self.queue.list_bytes()
    }
}

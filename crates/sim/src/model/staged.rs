//! Content that waits in RAM before it is packed, as in the server's insertion queue: it keeps the memory of its request in use, and
//! void content does, too, until it is swept.

use crate::front::held_together;
use crate::workload::{Piece, runs};
use hashbrown::HashMap;
use nitro_cache::ram::OVERHEAD_BYTES;
use nitro_cache::staging::Staging;
use nitro_port::buf::held_bytes;
use nitro_trace::Op;
use nitro_units::ExtentKey;
use std::collections::VecDeque;

/// One content that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    piece: Piece,
    number: u64,
    /// The room that it shares with others of its request.
    room: u64,
}

/// Memory that the contents of one request keep in use together, until the last of them is gone.
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

/// The buffer: first in, first out.
pub(super) struct Staged {
    queue: Staging<Waiting>,
    rooms: Rooms,
    /// Contents of the current request, numbered up to `next`.
    arriving: Vec<Piece>,
    /// Extents of the current request that are merged with what the SSD has, and therefore do not wait.
    merged: usize,
    /// By extent: the number of its newest content, and whether it was used again.
    newest: HashMap<ExtentKey, (u64, bool)>,
    next: u64,
    extent_bytes: u32,
}

impl Staged {
    /// In so many bytes of RAM; 0: nothing waits.
    pub(super) fn new(bytes_max: u64, extent_bytes: u32) -> Self {
        Self {
            queue: Staging::new(bytes_max),
            rooms: Rooms::default(),
            arriving: Vec::new(),
            merged: 0,
            newest: HashMap::new(),
            next: 0,
            extent_bytes,
        }
    }

    pub(super) const fn is_used(&self) -> bool {
        self.queue.is_used()
    }

    /// Whether an extent is there, which is used again.
    pub(super) fn use_again(&mut self, key: ExtentKey) -> bool {
        self.newest.get_mut(&key).map(|(_, used)| *used = true).is_some()
    }

    /// Takes a content of the current request.
    pub(super) fn push(&mut self, piece: &Piece) {
        self.next += 1;
        self.newest.insert(piece.key, (self.next, false));
        self.arriving.push(*piece);
    }

    /// Notes that an extent of the current request does not wait.
    pub(super) const fn push_merged(&mut self) {
        self.merged += 1;
    }

    /// All contents of the current request have come.
    pub(super) fn request_arrived(&mut self) {
        let arriving = std::mem::take(&mut self.arriving);
        let mut number = self.next - arriving.len() as u64;
        if arriving.first().is_some_and(|first| first.op() == Op::Write) {
            self.enter(&arriving, number, self.written_bytes(&arriving));
        } else {
            // Each run of neighbours was read by itself.
            for run in runs(&arriving) {
                self.enter(run, number, held_together(run.len(), self.extent_bytes));
                number += run.len() as u64;
            }
        }
        (0..std::mem::take(&mut self.merged)).for_each(|_| self.sweep());
        self.arriving = arriving;
        self.arriving.clear();
    }

    /// RAM in bytes that written extents keep in use: whole ones share the request's memory, others are copies.
    fn written_bytes(&self, written: &[Piece]) -> u64 {
        let whole = written.iter().filter(|piece| piece.len == self.extent_bytes).count();
        let copies = (written.len() - whole) as u64;
        let copied = copies * (held_bytes(self.extent_bytes as usize) + OVERHEAD_BYTES);
        if whole == 0 { copied } else { copied + held_together(whole, self.extent_bytes) }
    }

    /// Contents after the `number`th, which keep `bytes` in use together.
    fn enter(&mut self, contents: &[Piece], number: u64, bytes: u64) {
        let room = self.rooms.add(contents.len(), bytes);
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

    /// Whether an extent is there.
    pub(super) fn has(&self, key: ExtentKey) -> bool {
        self.newest.contains_key(&key)
    }

    /// Forgets an extent; whether it was there.
    pub(super) fn remove(&mut self, key: ExtentKey) -> bool {
        self.newest.remove(&key).is_some()
    }

    /// The oldest content, as long as more RAM is in use than may be; and whether it was used again.
    pub(super) fn pop(&mut self) -> Option<(Piece, bool)> {
        while self.queue.is_due(self.rooms.held_bytes) {
            if let Some(content) = self.pop_front()? {
                return Some(content);
            }
        }
        None
    }

    /// The oldest content.
    pub(super) fn pop_any(&mut self) -> Option<(Piece, bool)> {
        loop {
            if let Some(content) = self.pop_front()? {
                return Some(content);
            }
        }
    }

    /// `None`: nothing waits; `Some(None)`: what waited is void.
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

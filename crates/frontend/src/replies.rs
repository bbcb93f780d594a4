//! Outgoing replies, collected into batches that are each sent with one vectored write.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::ops::{Add, Sub};

/// A batch is closed when it has this many pieces or bytes. (Systems take at most 1024 pieces in one write.)
const BATCH_PIECES_MAX: usize = 128;
const BATCH_BYTES_MAX: usize = 512 << 10;
/// Headers are carved from blocks of this size.
const HEADER_BLOCK_BYTES: usize = 4096;
/// Room for the largest header: NBD's error chunk with its message, iSCSI's response with sense data.
const HEADER_BYTES_MAX: usize = 128;

/// The cost of requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// How many.
    pub requests: u32,
    /// Bytes of their data.
    pub bytes: u64,
}

impl Cost {
    /// One request with `bytes` of data, in either direction.
    #[must_use]
    pub const fn request(bytes: u64) -> Self {
        Self { requests: 1, bytes }
    }
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { requests: self.requests + other.requests, bytes: self.bytes + other.bytes }
    }
}

impl Sub for Cost {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { requests: self.requests - other.requests, bytes: self.bytes - other.bytes }
    }
}

/// Replies for one write.
#[derive(Debug, Default)]
pub struct Batch {
    /// In order.
    pub pieces: Vec<Bytes>,
    bytes: usize,
    /// The cost that is no longer in flight once the batch is sent.
    pub settles: Cost,
}

impl Batch {
    /// Bytes of all pieces.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        self.pieces.push(piece);
    }

    fn is_full(&self) -> bool {
        // One piece of slack for the headers that end the batch.
        self.pieces.len() + 1 >= BATCH_PIECES_MAX || self.bytes >= BATCH_BYTES_MAX
    }
}

/// Batches waiting to be sent, and the one being collected.
#[derive(Debug, Default)]
pub struct OutQueue {
    /// Headers not yet in a batch. Neighbours without data between them become one piece.
    headers: BytesMut,
    open: Batch,
    full: VecDeque<Batch>,
    spare: Vec<Bytes>,
}

impl OutQueue {
    /// The buffer to which headers are appended.
    pub fn headers(&mut self) -> &mut BytesMut {
        if self.headers.capacity() - self.headers.len() < HEADER_BYTES_MAX {
            // Moving the block's last bytes would cost more than a small piece of its own does.
            self.seal_headers();
            self.headers.reserve(HEADER_BLOCK_BYTES);
        }
        &mut self.headers
    }

    /// Appends data.
    pub fn push(&mut self, piece: Bytes) {
        self.seal_headers();
        self.open.push(piece);
        if self.open.is_full() {
            let pieces = std::mem::take(&mut self.spare);
            self.full.push_back(std::mem::replace(&mut self.open, Batch { pieces, ..Batch::default() }));
        }
    }

    /// Ends a reply: when it is sent, `cost` is no longer in flight.
    pub fn end_reply(&mut self, cost: Cost) {
        if self.open.pieces.is_empty()
            && self.headers.is_empty()
            && let Some(last) = self.full.back_mut()
        {
            last.settles = last.settles + cost;
        } else {
            self.open.settles = self.open.settles + cost;
        }
    }

    /// The next batch to send, full or not.
    pub fn pop(&mut self) -> Option<Batch> {
        if let Some(batch) = self.full.pop_front() {
            return Some(batch);
        }
        self.seal_headers();
        if self.open.pieces.is_empty() {
            return None;
        }
        let pieces = std::mem::take(&mut self.spare);
        Some(std::mem::replace(&mut self.open, Batch { pieces, ..Batch::default() }))
    }

    /// Takes back the `Vec` of a batch that was sent.
    pub fn recycle(&mut self, mut pieces: Vec<Bytes>) {
        pieces.clear();
        self.spare = pieces;
    }

    fn seal_headers(&mut self) {
        if !self.headers.is_empty() {
            let piece = self.headers.split().freeze();
            self.open.push(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut as _;

    #[test]
    fn neighbouring_headers_are_one_piece_and_order_is_kept() {
        let mut queue = OutQueue::default();
        let mut wanted = Vec::new();
        for i in 0..1000u32 {
            queue.headers().put_u32(i);
            wanted.extend(i.to_be_bytes());
            if i % 10 == 9 {
                queue.push(Bytes::from_static(b"data"));
                wanted.extend(b"data");
            }
            queue.end_reply(Cost::request(1));
        }
        let (mut sent, mut settled, mut pieces) = (Vec::new(), Cost::default(), 0);
        while let Some(batch) = queue.pop() {
            assert!(batch.pieces.len() <= BATCH_PIECES_MAX);
            pieces += batch.pieces.len();
            sent.extend(batch.pieces.concat());
            settled = settled + batch.settles;
            queue.recycle(batch.pieces);
        }
        assert_eq!(sent, wanted);
        assert_eq!(settled, Cost { requests: 1000, bytes: 1000 });
        assert!(pieces <= 202);
    }
}

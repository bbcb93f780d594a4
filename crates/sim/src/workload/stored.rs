//! Pieces stored for many runs, in RAM up to a bound, and in an unnamed file beyond it.

use super::piece::{PIECE_BYTES, Piece};
use super::{BATCH_PIECES, Pieces};
use crate::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The maximum number of bytes in RAM.
const RAM_BYTES: usize = 64 << 20;
/// Bytes of a read of the file.
const READ_BYTES: usize = BATCH_PIECES * PIECE_BYTES;

#[derive(Debug)]
enum Place {
    Ram(Vec<u8>),
    File(File),
}

/// Stored pieces; cheap to clone, and read by any number of runs at a time.
#[derive(Debug, Clone)]
pub struct Stored {
    place: Arc<Place>,
    bytes: u64,
    requests: u64,
    has_flushes: bool,
    ignored: u64,
    skipped: u64,
}

impl Stored {
    /// Stores all of `pieces`.
    ///
    /// # Errors
    /// Errors of `pieces` and of the scratch file.
    pub fn keep(pieces: &mut dyn Pieces) -> Result<Self, Error> {
        let (mut ram, mut file, mut bytes, mut requests) = (Vec::new(), None, 0, 0);
        let mut batch = Vec::with_capacity(BATCH_PIECES);
        let mut encoded = [0; PIECE_BYTES];
        while pieces.next_batch(&mut batch)? {
            for piece in &batch {
                piece.encode(&mut encoded);
                match &mut file {
                    None => ram.extend_from_slice(&encoded),
                    Some(file) => BufWriter::write_all(file, &encoded).map_err(Error::Scratch)?,
                }
                requests += u64::from(piece.is_last());
            }
            bytes += (batch.len() * PIECE_BYTES) as u64;
            if ram.len() > RAM_BYTES {
                let made = tempfile::tempfile().map_err(Error::Scratch)?;
                let mut made = BufWriter::with_capacity(1 << 20, made);
                made.write_all(&ram).map_err(Error::Scratch)?;
                (ram, file) = (Vec::new(), Some(made));
            }
        }
        let place = match file {
            None => Place::Ram(ram),
            Some(file) => Place::File(file.into_inner().map_err(|e| Error::Scratch(e.into_error()))?),
        };
        let (has_flushes, ignored, skipped) = (pieces.has_flushes(), pieces.ignored(), pieces.skipped());
        Ok(Self { place: Arc::new(place), bytes, requests, has_flushes, ignored, skipped })
    }

    /// The number of requests.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// The number of pieces.
    #[must_use]
    pub const fn pieces(&self) -> u64 {
        self.bytes / PIECE_BYTES as u64
    }

    /// Reads the pieces from the beginning.
    #[must_use]
    pub fn replay(&self) -> Replay {
        Replay { stored: self.clone(), at: 0, buf: vec![0; READ_BYTES] }
    }
}

/// Reads stored pieces.
#[derive(Debug)]
pub struct Replay {
    stored: Stored,
    at: u64,
    buf: Vec<u8>,
}

impl Replay {
    /// The number of pieces read so far.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.at / PIECE_BYTES as u64
    }
}

impl Pieces for Replay {
    /// A batch may end within a request.
    fn next_batch(&mut self, out: &mut Vec<Piece>) -> Result<bool, Error> {
        out.clear();
        let len = (self.stored.bytes - self.at).min(READ_BYTES as u64) as usize;
        let bytes = match &*self.stored.place {
            Place::Ram(all) => &all[self.at as usize..self.at as usize + len],
            Place::File(file) => {
                file.read_exact_at(&mut self.buf[..len], self.at).map_err(Error::Scratch)?;
                &self.buf[..len]
            }
        };
        let (pieces, _) = bytes.as_chunks::<PIECE_BYTES>();
        out.extend(pieces.iter().map(Piece::decode));
        self.at += len as u64;
        Ok(len > 0)
    }

    fn has_flushes(&self) -> bool {
        self.stored.has_flushes
    }

    fn ignored(&self) -> u64 {
        self.stored.ignored
    }

    fn skipped(&self) -> u64 {
        self.stored.skipped
    }
}

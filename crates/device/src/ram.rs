//! A device in RAM.
//!
//! Its space is divided into chunks of 64 KiB, each with its own lock. The pages of a chunk refer to the buffers with
//! the written data. A write copies its data once into each chunk, so that a read of data from a single write is a
//! slice without a copy. A buffer is kept while any of its pages is; it is at most a chunk long, which bounds the
//! waste.

use bytes::Bytes;
use nitro_port::buf::BufMut;
use nitro_port::{Allocation, Device, DeviceError, Geometry, Operation};
use parking_lot::RwLock;
use std::ops::Range;

const PAGE_BYTES: usize = 4096;
const CHUNK_PAGES: usize = 16;
const CHUNK_BYTES: usize = CHUNK_PAGES * PAGE_BYTES;

/// A page: its position in the buffer that it was written with.
#[derive(Clone)]
struct Page {
    buffer: Bytes,
    start: usize,
}

impl Page {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.start + PAGE_BYTES]
    }
}

/// The pages of a chunk; `None` reads as zeroes.
type Pages = [Option<Page>; CHUNK_PAGES];

/// A device in RAM, with holes. Its futures are ready at once.
pub struct RamDevice {
    geometry: Geometry,
    chunks: Box<[RwLock<Option<Box<Pages>>>]>,
    zeroes: Bytes,
}

impl RamDevice {
    /// A device of `size_bytes` zero bytes, rounded up to `block_bytes`.
    ///
    /// # Panics
    /// If `block_bytes` is not a power of two from 1 to 4096.
    #[must_use]
    pub fn new(size_bytes: u64, block_bytes: u32) -> Self {
        let legal = block_bytes.is_power_of_two() && block_bytes as usize <= PAGE_BYTES;
        assert!(legal, "block size {block_bytes} is not a power of two from 1 to 4096");
        let size_bytes = size_bytes.next_multiple_of(u64::from(block_bytes));
        let chunks = size_bytes.div_ceil(CHUNK_BYTES as u64);
        Self {
            geometry: Geometry { size_bytes, block_bytes, preferred_bytes: PAGE_BYTES as u32, rotational: false },
            chunks: (0..chunks).map(|_| RwLock::new(None)).collect(),
            zeroes: BufMut::zeroed(CHUNK_BYTES).freeze(),
        }
    }

    fn read_now(&self, offset: u64, len: usize) -> Bytes {
        let (first, within) = split(offset);
        if len == 0 {
            return Bytes::new();
        }
        if within + len <= CHUNK_BYTES
            && let Some(bytes) = self.slice(first, within..within + len)
        {
            return bytes;
        }
        let mut buf = BufMut::with_len(len);
        for part in parts(offset, len as u64) {
            self.copy(part.chunk, part.range.clone(), &mut buf[part.at..part.at + part.range.len()]);
        }
        buf.freeze()
    }

    /// A range of a chunk without a copy, if it was written with one write, or never.
    fn slice(&self, chunk: usize, range: Range<usize>) -> Option<Bytes> {
        let guard = self.chunks[chunk].read();
        let Some(pages) = guard.as_deref() else { return Some(self.zeroes.slice(range)) };
        let pages = &pages[pages_of(&range)];
        let Some(first) = &pages[0] else {
            return pages.iter().all(Option::is_none).then(|| self.zeroes.slice(range));
        };
        let follows = |(i, page): (usize, &Option<Page>)| {
            page.as_ref()
                .is_some_and(|p| p.buffer.as_ptr() == first.buffer.as_ptr() && p.start == first.start + i * PAGE_BYTES)
        };
        let start = first.start + range.start % PAGE_BYTES;
        pages.iter().enumerate().skip(1).all(follows).then(|| first.buffer.slice(start..start + range.len()))
    }

    fn copy(&self, chunk: usize, range: Range<usize>, target: &mut [u8]) {
        let guard = self.chunks[chunk].read();
        let Some(pages) = guard.as_deref() else { return target.fill(0) };
        for (page, part, at) in page_parts(&range) {
            let target = &mut target[at..at + part.len()];
            match &pages[page] {
                Some(page) => target.copy_from_slice(&page.bytes()[part]),
                None => target.fill(0),
            }
        }
    }

    /// Replaces a range of a chunk by `data`; `None`: by holes and zeroes.
    fn replace(&self, chunk: usize, range: Range<usize>, data: Option<&[u8]>) {
        let mut guard = self.chunks[chunk].write();
        if data.is_none() && (guard.is_none() || range.len() == CHUNK_BYTES) {
            *guard = None;
            return;
        }
        let pages = guard.get_or_insert_with(|| Box::new([const { None }; CHUNK_PAGES]));
        let touched = pages_of(&range);
        if let Some(data) = data {
            let buffer = merged(&pages[touched.clone()], range.start % PAGE_BYTES, data);
            for (i, page) in pages[touched].iter_mut().enumerate() {
                *page = Some(Page { buffer: buffer.clone(), start: i * PAGE_BYTES });
            }
            return;
        }
        for (page, part, _) in page_parts(&range) {
            let slot = &mut pages[page];
            if part.len() == PAGE_BYTES {
                *slot = None;
            } else if slot.is_some() {
                let buffer = merged(std::slice::from_ref(slot), part.start, &self.zeroes[part]);
                *slot = Some(Page { buffer, start: 0 });
            }
        }
    }
}

/// A new buffer of whole pages: `data` from byte `at` on, and the old content of `pages` before and after it.
fn merged(pages: &[Option<Page>], at: usize, data: &[u8]) -> Bytes {
    let mut buf = BufMut::with_len(pages.len() * PAGE_BYTES);
    for (i, page) in pages.iter().enumerate() {
        let covered = at <= i * PAGE_BYTES && (i + 1) * PAGE_BYTES <= at + data.len();
        if !covered {
            let target = &mut buf[i * PAGE_BYTES..(i + 1) * PAGE_BYTES];
            match page {
                Some(page) => target.copy_from_slice(page.bytes()),
                None => target.fill(0),
            }
        }
    }
    buf[at..at + data.len()].copy_from_slice(data);
    buf.freeze()
}

fn split(offset: u64) -> (usize, usize) {
    ((offset / CHUNK_BYTES as u64) as usize, (offset % CHUNK_BYTES as u64) as usize)
}

fn pages_of(range: &Range<usize>) -> Range<usize> {
    range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)
}

/// The parts of a chunk's range by page: page number, range within the page, and offset within the range.
fn page_parts(range: &Range<usize>) -> impl Iterator<Item = (usize, Range<usize>, usize)> + use<> {
    let range = range.clone();
    pages_of(&range).map(move |page| {
        let start = range.start.max(page * PAGE_BYTES);
        let end = range.end.min((page + 1) * PAGE_BYTES);
        (page, start - page * PAGE_BYTES..end - page * PAGE_BYTES, start - range.start)
    })
}

/// The part of a request that lies in one chunk.
struct Part {
    chunk: usize,
    range: Range<usize>,
    /// The offset within the request.
    at: usize,
}

fn parts(offset: u64, len: u64) -> impl Iterator<Item = Part> {
    let end = offset + len;
    let mut next = offset;
    std::iter::from_fn(move || {
        (next < end).then(|| {
            let (chunk, within) = split(next);
            let part_len = (end - next).min((CHUNK_BYTES - within) as u64);
            let at = (next - offset) as usize;
            next += part_len;
            Part { chunk, range: within..within + part_len as usize, at }
        })
    })
}

impl Device for RamDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        DeviceError::check(&self.geometry, Operation::Read, offset, len as u64)?;
        Ok(self.read_now(offset, len))
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry, Operation::Write, offset, data.len() as u64)?;
        for part in parts(offset, data.len() as u64) {
            let piece = &data[part.at..part.at + part.range.len()];
            self.replace(part.chunk, part.range, Some(piece));
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry, Operation::Discard, offset, len)?;
        parts(offset, len).for_each(|part| self.replace(part.chunk, part.range, None));
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry, Operation::WriteZeroes, offset, len)?;
        parts(offset, len).for_each(|part| self.replace(part.chunk, part.range, None));
        Ok(())
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        DeviceError::check(&self.geometry, Operation::Allocation, offset, len)?;
        let mut runs: Vec<Allocation> = Vec::new();
        for part in parts(offset, len) {
            let guard = self.chunks[part.chunk].read();
            for (page, within, _) in page_parts(&part.range) {
                let hole = guard.as_ref().is_none_or(|pages| pages[page].is_none());
                match runs.last_mut() {
                    Some(last) if last.hole == hole => last.len += within.len() as u64,
                    _ => runs.push(Allocation { len: within.len() as u64, hole }),
                }
            }
        }
        Ok(runs)
    }
}

nitro_port::plain_origin!(RamDevice);

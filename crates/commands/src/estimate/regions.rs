//! The regions of an image that hold data, handed out to threads.

use rustix::fs::{Advice, SeekFrom, fadvise, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of a read; a multiple of every extent size.
pub(super) const REGION_BYTES: u64 = 1 << 20;

/// An image, and the position up to which it has been handed out.
pub struct Regions {
    file: File,
    size_bytes: u64,
    sample_percent: f64,
    next: Mutex<u64>,
    position: AtomicU64,
    hole_bytes: AtomicU64,
    skipped_bytes: AtomicU64,
    stopped: AtomicBool,
}

impl Regions {
    /// An image of which `sample_percent` percent are read, in evenly scattered regions.
    ///
    /// # Errors
    /// The size of the image is unknown.
    pub fn new(file: File, sample_percent: f64) -> io::Result<Self> {
        let size_bytes = seek(&file, SeekFrom::End(0))?;
        // A hint; an error does not matter.
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        Ok(Self {
            file,
            size_bytes,
            sample_percent,
            next: Mutex::new(0),
            position: AtomicU64::new(0),
            hole_bytes: AtomicU64::new(0),
            skipped_bytes: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        })
    }

    /// Bytes of the image.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes of regions that are entirely in holes.
    #[must_use]
    pub fn hole_bytes(&self) -> u64 {
        self.hole_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of regions that were skipped by sampling.
    #[must_use]
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes.load(Ordering::Relaxed)
    }

    /// The position up to which the image has been handed out, in bytes.
    pub(super) fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// Stops handing out regions.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// The offset and length of the next region with data.
    pub(super) fn next(&self) -> Option<(u64, usize)> {
        // The position is valid at any moment, even if a thread panicked.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return None;
            }
            let data = self.data_from(*next) / REGION_BYTES * REGION_BYTES;
            let start = data.max(*next).min(self.size_bytes);
            self.hole_bytes.fetch_add(start - *next, Ordering::Relaxed);
            let end = (start + REGION_BYTES).min(self.size_bytes);
            *next = end;
            self.position.store(end, Ordering::Relaxed);
            if start == end {
                return None;
            }
            if self.is_sampled(start / REGION_BYTES) {
                return Some((start, (end - start) as usize));
            }
            self.skipped_bytes.fetch_add(end - start, Ordering::Relaxed);
        }
    }

    /// The offset of the next data at or after `at`, or the end of the image.
    fn data_from(&self, at: u64) -> u64 {
        match seek(&self.file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => self.size_bytes,
            // The file system reports no holes.
            Err(_) => at,
        }
    }

    /// Whether a region is in the sample: the same regions of any image, evenly scattered.
    fn is_sampled(&self, number: u64) -> bool {
        let scattered = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let scattered = (scattered ^ (scattered >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (scattered >> 11) as f64 / (1u64 << 53) as f64 * 100.0 < self.sample_percent
    }

    /// Reads a region, and drops it from the page cache.
    pub(super) fn read(&self, start: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, start)?;
        // A hint.
        let _ = fadvise(&self.file, start, NonZeroU64::new(buf.len() as u64), Advice::DontNeed);
        Ok(())
    }
}

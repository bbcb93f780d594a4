//! Classes for the requests of a trace, from an image of the disk: what detection in the server would find.

use nitro_config::classes;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_detect::{Detector, Found, PIECE_BYTES};
use nitro_trace::{Op, Reader, Request, TraceError};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// RAM of detection: a part of the image's size, between bounds, in bytes.
const RAM_PART: u64 = 64;
const RAM_BYTES_MIN: u64 = 16 << 20;
const RAM_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a request that are read to recognise blocks that name themselves.
const LOOK_BYTES_MAX: u64 = 64 << 10;

/// An image of a disk, whose file systems are known.
pub(super) struct Image {
    file: File,
    bytes: u64,
    detector: Detector,
}

impl Image {
    /// Reads the metadata of the file systems in an image.
    ///
    /// # Errors
    /// The image cannot be read, or has no file system that is known.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let what = format!("image {}", path.display());
        let unusable = |e: io::Error| Error::new(&what, e).or("name a file or block device that can be read");
        let mut file = File::open(path).map_err(unusable)?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(unusable)?;
        let mut detector = Detector::new((bytes / RAM_PART).clamp(RAM_BYTES_MIN, RAM_BYTES_MAX));
        detector.scan(bytes);
        let mut image = Self { file, bytes, detector };
        while let Some(range) = image.detector.next_to_scan() {
            image.look(range).map_err(unusable)?;
        }
        if !image.detector.knows_any() {
            return Err(Error::new(&what, "it has no file system that is recognised")
                .or("name an image with ext2, ext3, ext4, XFS, btrfs or NTFS"));
        }
        Ok(image)
    }

    /// Shows a range of the image to the detector.
    fn look(&mut self, range: Range<u64>) -> io::Result<Option<Found>> {
        let end = range.end.min(self.bytes);
        let mut bytes = vec![0; end.saturating_sub(range.start) as usize];
        self.file.read_exact_at(&mut bytes, range.start)?;
        Ok(self.detector.look(range.start, &bytes).found)
    }

    /// What a range of the disk holds: what metadata says of it, or else what its blocks say of themselves.
    fn found(&mut self, range: Range<u64>) -> io::Result<Option<Found>> {
        let start = range.start / PIECE_BYTES * PIECE_BYTES;
        let end = range.end.min(self.bytes).min(start + LOOK_BYTES_MAX);
        if start >= end {
            return Ok(None);
        }
        match self.detector.found_in(start..end) {
            None => self.look(start..end),
            found => Ok(found),
        }
    }
}

/// A trace whose requests have the classes of an image's blocks, where the trace gives none.
pub(super) struct Classified<R> {
    reader: R,
    image: Image,
    object: Option<u32>,
    /// The number of requests with a class, and of all.
    pub(super) known: (u64, u64),
}

impl<R: Reader> Classified<R> {
    pub(super) const fn new(reader: R, image: Image) -> Self {
        Self { reader, image, object: None, known: (0, 0) }
    }

    /// The outcome in words.
    pub(super) fn told(&self) -> String {
        let (known, all) = self.known;
        format!("{known} of {all} requests have a class; the image has {}", Size(self.image.bytes))
    }
}

impl<R: Reader> Reader for Classified<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        if !self.reader.next(request)? {
            return Ok(false);
        }
        if *self.object.get_or_insert(request.object) != request.object {
            return Err(TraceError::setting("the trace has requests of several disks, and --classify an image of one"));
        }
        if matches!(request.op, Op::Read | Op::Write | Op::Trim) && request.len > 0 {
            if !request.class.is_classified() {
                let found = self.image.found(request.offset..request.end());
                let found = found.map_err(|e| TraceError::io(e, nitro_trace::Place::Whole))?;
                request.class = found.map(classes::of_block).unwrap_or_default();
            }
            self.known.0 += u64::from(request.class.is_classified());
            self.known.1 += 1;
        }
        Ok(true)
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.reader)
    }
}

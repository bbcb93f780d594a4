//! The classes of a recording's requests, which detection finds in images of the volume.

use super::layout::BLOCK_BYTES;
use super::trace::{Asked, Trace};
use nitro_cache::builtin;
use nitro_detect::{Detector, Found};
use nitro_trace::Op;
use nitro_units::ClassId;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// RAM of a detector in bytes.
const RAM_BYTES: u64 = 256 << 20;
/// The most bytes that are read from an image at once.
const READ_BYTES: u64 = 1 << 20;
/// The numbers of the images: after creation, and after the transactions.
const IMAGES: u32 = 2;

/// The images beside a recording, scanned.
///
/// # Errors
/// One is missing, or cannot be read.
pub(super) fn all(about: &Path, volume_bytes: u64) -> io::Result<Vec<Image>> {
    let open = |number| {
        let file = File::open(about.with_extension(format!("{number}.img")))?;
        Ok(Image { detector: scanned(&file, volume_bytes)?, file })
    };
    (0..IMAGES).map(open).collect()
}

/// An image, and what its metadata say.
#[derive(Debug)]
pub(super) struct Image {
    file: File,
    detector: Detector,
}

impl Image {
    /// What a block is, by the metadata, otherwise by its own content.
    fn found(&mut self, block: u64) -> Option<Found> {
        let (at, mut bytes) = (block * BLOCK_BYTES, [0; BLOCK_BYTES as usize]);
        self.detector.found_in(at..at + BLOCK_BYTES).or_else(|| {
            self.file.read_exact_at(&mut bytes, at).ok()?;
            self.detector.look(at, &bytes).found
        })
    }
}

/// Reads the metadata of an image.
fn scanned(image: &File, volume_bytes: u64) -> io::Result<Detector> {
    let mut detector = Detector::new(RAM_BYTES);
    // A partition table names superblocks, and a superblock what describes its file system.
    for _ in 0..3 {
        for range in detector.worth_reading() {
            show(&mut detector, image, range, volume_bytes)?;
        }
    }
    detector.scan(volume_bytes);
    while let Some(range) = detector.next_to_scan() {
        show(&mut detector, image, range, volume_bytes)?;
    }
    Ok(detector)
}

fn show(detector: &mut Detector, image: &File, range: std::ops::Range<u64>, volume_bytes: u64) -> io::Result<()> {
    let end = range.end.next_multiple_of(BLOCK_BYTES).min(volume_bytes);
    let mut at = range.start / BLOCK_BYTES * BLOCK_BYTES;
    while at < end {
        let mut bytes = vec![0; READ_BYTES.min(end - at) as usize];
        image.read_exact_at(&mut bytes, at)?;
        // Block by block, as the server shows extents.
        for (number, block) in bytes.chunks(BLOCK_BYTES as usize).enumerate() {
            detector.look(at + number as u64 * BLOCK_BYTES, block);
        }
        at += bytes.len() as u64;
    }
    Ok(())
}

/// The built-in class of a block, as the server gives it.
fn class(found: Found) -> ClassId {
    match found {
        Found::Metadata => builtin::METADATA,
        Found::Directory => builtin::DIRECTORY,
        Found::Journal => builtin::JOURNAL,
        Found::File(bytes) => builtin::of_file(bytes),
    }
}

/// Gives each request its class. In the first phase, the first image counts; afterwards the last one, or an earlier one for
/// blocks whose file was deleted.
pub(super) fn classify(trace: &mut Trace, images: &mut [Image]) {
    let mut classified = Vec::with_capacity(trace.requests.len());
    let mut phases = trace.phases.iter_mut().peekable();
    let mut phase = 0_usize;
    for (number, asked) in trace.requests.iter().enumerate() {
        while let Some((_, first)) = phases.next_if(|(_, first)| *first == number) {
            *first = classified.len();
            phase += 1;
        }
        let newest = phase.clamp(1, images.len().max(1)) - 1;
        let class_of = |block: u64| {
            let (older, newer) = images.split_at_mut((newest + 1).min(images.len()));
            let found = older.iter_mut().rev().chain(newer).find_map(|image| image.found(block));
            found.map_or(ClassId::UNCLASSIFIED, class)
        };
        cut(asked, class_of, &mut classified);
    }
    let end = classified.len();
    phases.for_each(|(_, first)| *first = end);
    trace.requests = classified;
}

/// Cuts a request where the class changes.
fn cut(asked: &Asked, mut class_of: impl FnMut(u64) -> ClassId, out: &mut Vec<Asked>) {
    let (begin, end) = (asked.offset, asked.offset + u64::from(asked.len));
    if asked.op == Op::Flush || begin == end {
        return out.push(*asked);
    }
    let mut run: Option<Asked> = None;
    for block in begin / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES) {
        let (from, to) = (begin.max(block * BLOCK_BYTES), end.min((block + 1) * BLOCK_BYTES));
        let class = class_of(block);
        run = match run {
            Some(run) if run.class == class => Some(Asked { len: run.len + (to - from) as u32, ..run }),
            done => {
                out.extend(done);
                Some(Asked { offset: from, len: (to - from) as u32, class, ..*asked })
            }
        };
    }
    out.extend(run);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_cut_where_the_class_changes() {
        let asked = Asked { offset: 512, len: 16_384, op: Op::Read, class: ClassId::UNCLASSIFIED };
        let class_of = |block| if block < 2 { builtin::METADATA } else { builtin::of_file(block) };
        let mut out = Vec::new();
        cut(&asked, class_of, &mut out);
        let found: Vec<_> = out.iter().map(|asked| (asked.offset, asked.len, asked.class)).collect();
        assert_eq!(found, [(512, 7680, builtin::METADATA), (8192, 8704, builtin::of_file(1))]);
        // Without images, phases and requests stay.
        let phases = vec![("a".to_owned(), 0), ("b".to_owned(), 1)];
        let mut trace = Trace { requests: vec![asked, asked], phases: phases.clone(), ..Trace::default() };
        classify(&mut trace, &mut []);
        assert_eq!((trace.requests, trace.phases), (vec![asked, asked], phases));
    }
}

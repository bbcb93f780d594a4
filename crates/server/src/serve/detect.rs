//! Detection: the classes of a volume's blocks, from its file systems.

use super::caches::CacheEntry;
use super::connections::sleep;
use super::scan::Scan;
use crate::export::VolumeExport;
use nitro_cache::class;
use nitro_config::classes::of_block;
use nitro_console::size::Size;
use nitro_detect::{Counters, Detector, Found};
use nitro_engine::{Classifier, Learned};
use nitro_port::Device;
use nitro_units::ClassId;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The maximum RAM of detection for a volume, in bytes.
const RAM_BYTES_MAX: u64 = 16 << 20;
/// Detection takes at most this fraction of a volume's size as RAM.
const RAM_PART: u64 = 256;
/// Bytes of one read at the start.
const READ_BYTES: u64 = 64 << 10;
/// Maximum bytes read at the start: the descriptors of a file system of 16 TiB.
const READ_BYTES_MAX: u64 = 8 << 20;
/// How often to check whether a file system was created meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const READ_BYTES_PER_LOOK: u64 = 64 << 10;

/// The maximum RAM in bytes that detection takes for a volume of this size.
pub(super) fn ram_bytes_max(volume_bytes: u64) -> u64 {
    (volume_bytes / RAM_PART).min(RAM_BYTES_MAX)
}

/// The detector of a volume.
pub struct VolumeDetector {
    entry: Arc<CacheEntry>,
    detector: Mutex<Detector>,
    /// The state of the scan, if there is one.
    pub scan: Option<Scan>,
}

impl VolumeDetector {
    /// Creates a detector for a volume with logical blocks of this size, with a scan at the given rate, in bytes a second.
    pub(super) fn new(entry: &Arc<CacheEntry>, volume_bytes: u64, block_bytes: u32, scan: Option<Size>) -> Self {
        let mut detector = Detector::new(ram_bytes_max(volume_bytes)).with_blocks(block_bytes);
        if scan.is_some() {
            detector.scan(volume_bytes);
        }
        Self { entry: Arc::clone(entry), detector: Mutex::new(detector), scan: scan.map(Scan::new) }
    }

    /// The next range that the scan has to read.
    pub(super) fn next_to_scan(&self) -> Option<Range<u64>> {
        self.detector.lock().next_to_scan()
    }

    /// Bytes that the scan still has to read, as far as known.
    pub fn bytes_to_scan(&self) -> u64 {
        self.detector.lock().bytes_to_scan()
    }

    /// Its counters.
    pub fn counters(&self) -> Counters {
        self.detector.lock().counters()
    }

    /// The class of a block: that of the rules, otherwise the built-in one.
    fn class(&self, found: Found) -> ClassId {
        let asked = match found {
            Found::Metadata | Found::Directory | Found::Journal => class::Found::Metadata,
            Found::File(bytes) => class::Found::File(bytes),
        };
        self.entry.classes.of_content(asked).unwrap_or_else(|| of_block(found))
    }
}

impl Classifier for VolumeDetector {
    fn look(&self, offset: u64, bytes: &[u8], learned: &mut Vec<Learned>) -> Option<ClassId> {
        let sighting = self.detector.lock().look(offset, bytes);
        learned.extend(sighting.learned.into_iter().map(|(range, found)| (range, self.class(found))));
        sighting.found.map(|found| self.class(found))
    }

    fn class_of(&self, range: Range<u64>) -> Option<ClassId> {
        let found = self.detector.lock().found_in(range)?;
        Some(self.class(found))
    }
}

impl VolumeExport {
    /// Reads the structures that describe the volume's file systems: partitions, superblocks and descriptors. Reads
    /// them again whenever a file system is created while the volume is served.
    pub(super) async fn detection_worker(&self) {
        let Some(detector) = &self.detector else { return };
        let (mut left, mut read, mut is_first) = (READ_BYTES_MAX, Vec::new(), true);
        loop {
            // A partition table names superblocks, and a superblock what describes its file system.
            for _ in 0..3 {
                let worth_reading = detector.detector.lock().worth_reading();
                read.retain(|range| worth_reading.contains(range));
                for range in worth_reading {
                    if !read.contains(&range) && range.end - range.start <= left {
                        left -= range.end - range.start;
                        self.show(detector, range.clone(), is_first).await;
                        read.push(range);
                    }
                }
            }
            is_first = false;
            sleep(LOOK_EVERY).await;
            left = (left + READ_BYTES_PER_LOOK).min(READ_BYTES_MAX);
        }
    }

    async fn show(&self, detector: &VolumeDetector, range: Range<u64>, is_first: bool) {
        let end = range.end.next_multiple_of(READ_BYTES).min(self.volume.size_bytes());
        let mut at = range.start / READ_BYTES * READ_BYTES;
        while at < end {
            let len = READ_BYTES.min(end - at);
            // Whoever needs these bytes will be told of an error.
            let bytes = if is_first {
                // Nobody's statistics or cache change: what is newer passes by anyway.
                self.volume.origin().read(at, len as usize).await.ok().map(|bytes| bytes.to_vec())
            } else {
                // What has just been made may be in the cache alone.
                self.volume.read(at, len).await.ok().map(|slices| slices.concat())
            };
            let Some(bytes) = bytes else { return };
            let mut learned = Vec::new();
            detector.look(at, &bytes, &mut learned);
            self.volume.reclassify(&learned);
            at += len;
        }
    }
}

//! Scans of volumes: the metadata of file systems is read when a volume begins to be served, so that the class of a
//! file's data is known before the guest reads the file's inode.

use super::VolumeDetector;
use super::connections::sleep;
use crate::export::VolumeExport;
use nitro_console::size::Size;
use nitro_engine::Classifier;
use nitro_port::Device;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often to check whether a volume is attached again.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The scan of a volume.
#[derive(Debug)]
pub struct Scan {
    /// Maximum bytes read in a second.
    rate: Size,
    read_bytes: AtomicU64,
    is_done: AtomicBool,
}

impl Scan {
    pub(super) const fn new(rate: Size) -> Self {
        Self { rate, read_bytes: AtomicU64::new(0), is_done: AtomicBool::new(false) }
    }

    /// Bytes that it read.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// Whether all was read.
    pub fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    /// The pause after a read of `len` bytes that took `took`: the origin works for the scan at most half of the time.
    fn pause(&self, len: u64, took: Duration) -> Duration {
        Duration::from_secs_f64(len as f64 / self.rate.0.max(1) as f64).saturating_sub(took).max(took)
    }
}

impl VolumeExport {
    /// Reads the ranges that the detector needs, if a scan is configured, and while the volume is attached. The data do
    /// not enter the cache.
    pub(super) async fn scan_worker(&self) {
        let Some(detector) = &self.detector else { return };
        let Some(scan) = &detector.scan else { return };
        loop {
            while !self.volume.is_attached() {
                sleep(LOOK_EVERY).await;
            }
            let Some(range) = detector.next_to_scan() else { break };
            let range = range.start..range.end.min(self.volume.size_bytes());
            let begun = Instant::now();
            self.scan_one(detector, range.clone()).await;
            scan.read_bytes.fetch_add(range.end - range.start, Ordering::Relaxed);
            sleep(scan.pause(range.end - range.start, begun.elapsed())).await;
        }
        scan.is_done.store(true, Ordering::Relaxed);
        tracing::info!("volume {}: {} of metadata were scanned", self.name, Size(scan.read_bytes()));
    }

    async fn scan_one(&self, detector: &VolumeDetector, range: Range<u64>) {
        // Whoever needs these bytes will be told of an error.
        let Some(bytes) = self.newest(range.clone()).await else { return };
        let mut learned = Vec::new();
        detector.look(range.start, &bytes, &mut learned);
        self.volume.reclassify(&learned);
    }

    /// The newest bytes of a range; data of the origin do not enter the cache.
    async fn newest(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let len = range.end - range.start;
        let mut bytes = self.volume.origin().read(range.start, usize::try_from(len).ok()?).await.ok()?.to_vec();
        let mut at = 0;
        for run in self.volume.cached_runs(range.start, len).await.ok()? {
            if run.dirty {
                let newer = self.volume.read(range.start + at, run.len).await.ok()?.concat();
                bytes.get_mut(usize::try_from(at).ok()?..)?.get_mut(..newer.len())?.copy_from_slice(&newer);
            }
            at += run.len;
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_is_left_alone_for_half_of_the_time_and_within_the_rate() {
        let scan = Scan::new(Size(64 << 10));
        for (took_ms, expected_ms) in [(0, 1000), (100, 900), (600, 600), (3000, 3000)] {
            let pause = scan.pause(64 << 10, Duration::from_millis(took_ms));
            assert_eq!(pause, Duration::from_millis(expected_ms), "{took_ms} ms");
        }
    }
}

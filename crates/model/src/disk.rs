//! The mechanics of hard disks: the time that a request takes. The order of requests is chosen by the caller: an
//! emulated device, or the simulator.

use std::time::Duration;

/// The mean of the square root of the distance between two random points on a line of length 1.
const MEAN_ROOT_DISTANCE: f64 = 8.0 / 15.0;

/// The mechanics of a disk, or of several equal disks in RAID-0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HddModel {
    /// The time of one turn of the platters.
    pub rotation: Duration,
    /// The time of a seek to the next track, settling included.
    pub seek_track: Duration,
    /// The time of a seek over the whole disk.
    pub seek_full: Duration,
    /// Sustained transfer rate in bytes per second.
    pub bytes_per_second: u64,
    /// Bytes that one arm sweeps, from the first track to the last: the emulated capacity, against which the distance
    /// of a seek is measured. `None`: the device's share of one disk, so that its data fill the disk.
    pub span_bytes: Option<u64>,
    /// The number of disks in RAID-0; at least 1.
    pub spindles: u32,
    /// Consecutive bytes on one disk of the RAID-0; 64 KiB to 1 MiB is usual.
    pub stripe_bytes: u64,
    /// Requests that a disk has at a time and may reorder (NCQ: 32).
    pub queue_depth: usize,
    /// A request that has waited this long is served before all others.
    pub age_max: Duration,
}

impl HddModel {
    /// A large 7200 rpm SATA disk: mean seek 8.5 ms, 150 MB/s.
    #[must_use]
    pub fn rpm_7200() -> Self {
        Self::new(7200, Duration::from_micros(8500), Duration::from_micros(800), 150_000_000)
    }

    /// A 15000 rpm SAS disk: mean seek 3.4 ms, 200 MB/s.
    #[must_use]
    pub fn rpm_15000() -> Self {
        Self::new(15000, Duration::from_micros(3400), Duration::from_micros(300), 200_000_000)
    }

    fn new(rpm: u32, seek_mean: Duration, seek_track: Duration, bytes_per_second: u64) -> Self {
        let rotation = Duration::from_secs(60) / rpm;
        let queue_depth = 32;
        Self {
            rotation,
            seek_track,
            seek_full: seek_track + (seek_mean - seek_track).div_f64(MEAN_ROOT_DISTANCE),
            bytes_per_second,
            span_bytes: None,
            spindles: 1,
            stripe_bytes: 256 << 10,
            queue_depth,
            // Twice the time that a full queue would take in order of arrival.
            age_max: 2 * queue_depth as u32 * (seek_mean + rotation / 2),
        }
    }

    /// Emulates a disk of `span_bytes`; the device is its first part.
    #[must_use]
    pub fn with_span(mut self, span_bytes: u64) -> Self {
        self.span_bytes = Some(span_bytes);
        self
    }

    /// Emulates `spindles` disks in RAID-0, with stripes of `stripe_bytes`.
    #[must_use]
    pub fn with_spindles(mut self, spindles: u32, stripe_bytes: u64) -> Self {
        self.spindles = spindles;
        self.stripe_bytes = stripe_bytes;
        self
    }

    fn track_bytes(&self) -> f64 {
        self.bytes_per_second as f64 * self.rotation.as_secs_f64()
    }

    /// The time that `len` bytes take to pass under the head.
    #[must_use]
    pub fn transfer(&self, len: u64) -> Duration {
        Duration::from_secs_f64(len as f64 / self.bytes_per_second as f64)
    }

    /// The time to move the arm from byte `from` to byte `to` of a disk of `span_bytes`; zero within a track.
    #[must_use]
    pub fn seek(&self, from: u64, to: u64, span_bytes: u64) -> Duration {
        let track = self.track_bytes();
        if (from as f64 / track) as u64 == (to as f64 / track) as u64 {
            return Duration::ZERO;
        }
        let distance = (from.abs_diff(to) as f64 / span_bytes as f64).min(1.0);
        self.seek_track + (self.seek_full - self.seek_track).mul_f64(distance.sqrt())
    }

    /// The time from `now` until the sector at `offset` passes under the head.
    #[must_use]
    pub fn rotational_wait(&self, now: Duration, offset: u64) -> Duration {
        let angle_now = (now.as_secs_f64() / self.rotation.as_secs_f64()).fract();
        let angle = (offset as f64 / self.track_bytes()).fract();
        self.rotation.mul_f64((angle - angle_now).rem_euclid(1.0))
    }

    /// The time from `start` until the head, which is at `head`, is over `offset`. A request that continues the last
    /// one takes none: it is served by the disk's track buffer.
    #[must_use]
    pub fn position(&self, span_bytes: u64, head: u64, start: Duration, offset: u64) -> Duration {
        if offset == head {
            return Duration::ZERO;
        }
        let seek = self.seek(head, offset, span_bytes);
        seek + self.rotational_wait(start + seek, offset)
    }
}

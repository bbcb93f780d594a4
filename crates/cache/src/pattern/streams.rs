//! Sequential detection over several streams by *consecutive bytes accessed* (the metric M11 that the Nitro paper's §3
//! takes from its reference 17). A read that begins at the end of a stream, or a little after it, extends it. A stream
//! whose consecutive bytes reach a threshold is sequential.

/// When reads count as sequential, and how far ahead of them to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSettings {
    /// Maximum number of streams that are followed at once, for each object.
    pub streams: usize,
    /// Consecutive bytes after which a stream is sequential; 0: never.
    pub threshold_bytes: u64,
    /// A read that begins at most this many bytes after the end of a stream extends it.
    pub gap_bytes_max: u64,
    /// Number of bytes to read ahead of a sequential read.
    pub readahead_bytes: u64,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self { streams: 32, threshold_bytes: 1 << 20, gap_bytes_max: 16 << 10, readahead_bytes: 128 << 10 }
    }
}

/// The stream of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// It is part of a sequential stream: its data should not replace cached data on the SSD.
    pub sequential: bool,
    /// The bytes to read ahead, `start..end`; empty for random reads, and if enough was requested before.
    pub readahead: (u64, u64),
}

impl Access {
    /// A read that belongs to no stream.
    pub const RANDOM: Self = Self { sequential: false, readahead: (0, 0) };
}

#[derive(Debug, Clone, Copy)]
struct Stream {
    /// The offset at which the next consecutive read would begin.
    next: u64,
    consecutive_bytes: u64,
    /// The end of the requested read-ahead.
    ahead: u64,
    used: u64,
}

/// Detects the streams of one object.
#[derive(Debug)]
pub struct StreamDetector {
    settings: StreamSettings,
    streams: Vec<Stream>,
    tick: u64,
}

impl StreamDetector {
    /// A detector without streams.
    #[must_use]
    pub fn new(settings: StreamSettings) -> Self {
        Self { settings, streams: Vec::with_capacity(settings.streams), tick: 0 }
    }

    /// Notes a read of `len` bytes at `offset` and returns its stream.
    pub fn read(&mut self, offset: u64, len: u64) -> Access {
        if self.settings.threshold_bytes == 0 || self.settings.streams == 0 {
            return Access::RANDOM;
        }
        self.tick += 1;
        let (end, tick) = (offset.saturating_add(len), self.tick);
        let gap = self.settings.gap_bytes_max;
        let follows = |s: &&mut Stream| offset >= s.next && offset - s.next <= gap;
        let Some(stream) = self.streams.iter_mut().find(follows) else {
            self.start(Stream { next: end, consecutive_bytes: len, ahead: end, used: tick });
            return Access::RANDOM;
        };
        stream.consecutive_bytes += end - stream.next;
        (stream.next, stream.used) = (end, tick);
        if stream.consecutive_bytes < self.settings.threshold_bytes {
            return Access::RANDOM;
        }
        // The next piece is requested once half of the last one is used up, so that read-ahead requests stay large.
        let from = stream.ahead.max(end);
        let to = end.saturating_add(self.settings.readahead_bytes);
        let due = to.saturating_sub(from) * 2 >= self.settings.readahead_bytes && to > from;
        if due {
            stream.ahead = to;
        }
        Access { sequential: true, readahead: if due { (from, to) } else { (0, 0) } }
    }

    /// Follows a new stream; if all are in use, it replaces the least recently used one.
    fn start(&mut self, stream: Stream) {
        if self.streams.len() < self.settings.streams {
            self.streams.push(stream);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|s| s.used) {
            *oldest = stream;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn interleaved_streams_become_sequential_and_random_reads_do_not() {
        let mut detector = StreamDetector::new(StreamSettings::default());
        let mut first_sequential = None;
        for step in 0..40u64 {
            for stream in 0..8u64 {
                let access = detector.read(stream * (1 << 30) + step * 64 * KIB, 64 * KIB);
                if access.sequential {
                    first_sequential.get_or_insert(step);
                }
            }
            assert!(!detector.read((step * 7919 + 100) * (1 << 25), 8 * KIB).sequential);
        }
        assert_eq!(first_sequential, Some(15), "1 MiB of 64 KiB reads makes a stream");
    }

    #[test]
    fn readahead_never_asks_twice_for_a_byte() {
        let mut detector = StreamDetector::new(StreamSettings::default());
        let mut asked = 0;
        for step in 0..400u64 {
            let (from, to) = detector.read(step * 8 * KIB, 8 * KIB).readahead;
            if to > from {
                assert!(from >= asked && to <= (step + 1) * 8 * KIB + 128 * KIB);
                asked = to;
            }
        }
        assert!(asked >= 400 * 8 * KIB, "reading ahead kept up");
    }

    #[test]
    fn a_threshold_of_zero_switches_detection_off() {
        let mut detector = StreamDetector::new(StreamSettings { threshold_bytes: 0, ..Default::default() });
        assert!((0..1000).all(|i| !detector.read(i * 65536, 65536).sequential));
    }
}

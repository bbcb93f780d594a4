//! Classes by the pattern of an object's requests: whether a request is a part of a sequential run.

use super::{StreamDetector, StreamSettings};
use crate::admission::Source;
use crate::builtin;
use nitro_units::ClassId;

/// Consecutive bytes from which on requests are a run, as for streams that bypass the SSD.
pub const RUN_BYTES_MIN: u64 = 1 << 20;

/// Detects the sequential runs of one object, of reads and of writes separately. Unlike the streams that bypass the
/// SSD, runs do not depend on a setting, and also consist of writes.
#[derive(Debug)]
pub struct RunDetector {
    reads: StreamDetector,
    writes: StreamDetector,
}

impl Default for RunDetector {
    fn default() -> Self {
        let new = || {
            StreamDetector::new(StreamSettings {
                threshold_bytes: RUN_BYTES_MIN,
                readahead_bytes: 0,
                ..StreamSettings::default()
            })
        };
        Self { reads: new(), writes: new() }
    }
}

impl RunDetector {
    /// Notes a request of `len` bytes at `offset`, and returns the class of its data: [`builtin::SCAN`] in a run, or if
    /// the request is as long as one; otherwise [`builtin::READ_ONCE`] or, for a write, [`builtin::RANDOM`].
    pub fn note(&mut self, source: Source, offset: u64, len: u64) -> ClassId {
        let (detector, outside) = match source {
            Source::Read => (&mut self.reads, builtin::READ_ONCE),
            Source::Write => (&mut self.writes, builtin::RANDOM),
        };
        let is_run = detector.read(offset, len).sequential || len >= RUN_BYTES_MIN;
        if is_run { builtin::SCAN } else { outside }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    /// Notes `count` requests of 64 KiB, `step` bytes apart.
    fn noted(detector: &mut RunDetector, source: Source, start: u64, step: u64, count: u64) -> Vec<ClassId> {
        (0..count).map(|number| detector.note(source, start + number * step, 64 * KIB)).collect()
    }

    #[test]
    fn a_run_begins_after_a_mebibyte_of_consecutive_bytes() {
        let mut detector = RunDetector::default();
        let read = noted(&mut detector, Source::Read, 0, 64 * KIB, 40);
        assert_eq!(read.iter().position(|class| *class == builtin::SCAN), Some(15));
        assert!(read[..15].iter().all(|class| *class == builtin::READ_ONCE));
        assert!(read[15..].iter().all(|class| *class == builtin::SCAN));
        // Writes have runs of their own: these do not continue the reads.
        let written = noted(&mut detector, Source::Write, 40 * 64 * KIB, 64 * KIB, 16);
        assert_eq!((written[0], written[14], written[15]), (builtin::RANDOM, builtin::RANDOM, builtin::SCAN));
    }

    #[test]
    fn gaps_are_no_run_and_a_long_request_is_one() {
        let mut detector = RunDetector::default();
        let read = noted(&mut detector, Source::Read, 0, 128 * KIB, 100);
        assert!(read.iter().all(|class| *class == builtin::READ_ONCE));
        assert_eq!(detector.note(Source::Write, 1 << 40, RUN_BYTES_MIN), builtin::SCAN);
        assert_eq!(detector.note(Source::Read, u64::MAX, 8 * KIB), builtin::READ_ONCE);
    }
}

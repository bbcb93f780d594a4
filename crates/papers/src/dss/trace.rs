//! The trace of a run: requests with classes, in phases.

use nitro_trace::{Op, Reader, Request, TraceError};
use nitro_units::ClassId;
use std::sync::Arc;

/// The distance of two phases in the times of the trace, in nanoseconds: each phase is a period of the simulation. The load
/// is closed, so that times have no other effect.
pub(super) const PHASE_NS: u64 = 1_000_000_000_000;

/// A request in few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) op: Op,
    pub(super) class: ClassId,
}

/// The requests of all phases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Trace {
    /// Where it comes from.
    pub(super) name: String,
    pub(super) requests: Vec<Asked>,
    /// Each phase's name, and the number of its first request.
    pub(super) phases: Vec<(String, usize)>,
    /// Bytes of the file set at its creation.
    pub(super) data_bytes: u64,
    /// Bytes of the volume.
    pub(super) volume_bytes: u64,
}

impl Trace {
    /// A reader from the beginning.
    pub(super) fn reader(self: &Arc<Self>) -> Replayed {
        Replayed { trace: Arc::clone(self), next: 0, phase: 0 }
    }

    /// Bytes of the largest write.
    pub(super) fn write_bytes_max(&self) -> u64 {
        let writes = self.requests.iter().filter(|asked| asked.op == Op::Write);
        writes.map(|asked| u64::from(asked.len)).max().unwrap_or(0)
    }

    /// The requests of a phase.
    #[cfg(test)]
    pub(super) fn of_phase(&self, number: usize) -> &[Asked] {
        let end = self.phases.get(number + 1).map_or(self.requests.len(), |(_, first)| *first);
        let begin = self.phases.get(number).map_or(end, |(_, first)| *first);
        self.requests.get(begin..end).unwrap_or_default()
    }
}

/// A trace that is read.
#[derive(Debug)]
pub(super) struct Replayed {
    trace: Arc<Trace>,
    next: usize,
    phase: usize,
}

impl Reader for Replayed {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let Some(asked) = self.trace.requests.get(self.next) else { return Ok(false) };
        while self.trace.phases.get(self.phase + 1).is_some_and(|(_, first)| *first <= self.next) {
            self.phase += 1;
        }
        let Asked { offset, len, op, class } = *asked;
        let time_ns = self.phase as u64 * PHASE_NS + self.next as u64;
        *request = Request { time_ns, op, offset, len: len.into(), class, ..Request::default() };
        self.next += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_periods() {
        let asked = |offset| Asked { offset, len: 4096, op: Op::Read, class: ClassId::UNCLASSIFIED };
        let trace = Trace {
            requests: (0..5).map(|number| asked(number * 4096)).collect(),
            phases: vec![("a".into(), 0), ("b".into(), 2), ("empty".into(), 4), ("c".into(), 4)],
            ..Trace::default()
        };
        let found: Vec<_> = (0..4).map(|phase| trace.of_phase(phase).len()).collect();
        assert_eq!(found, [2, 2, 0, 1]);
        let times: Vec<_> =
            Arc::new(trace).reader().requests().map(|r| r.unwrap_or_default().time_ns / PHASE_NS).collect();
        assert_eq!(times, [0, 0, 1, 1, 3]);
    }
}

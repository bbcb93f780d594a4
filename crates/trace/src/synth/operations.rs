//! Traces of operations, each of which is one or more requests.

use crate::rng::Rng;
use crate::{Op, Reader, Request, TraceError};
use nitro_units::ClassId;
use std::collections::VecDeque;

/// Nanoseconds between two operations, so that the number of an operation follows from the time of its requests.
pub const OPERATION_NS: u64 = 1_000_000;

/// A request of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) class: ClassId,
}

impl Step {
    pub(super) const fn read(offset: u64, len: u64, class: ClassId) -> Self {
        Self { op: Op::Read, offset, len, class }
    }

    pub(super) const fn write(offset: u64, len: u64, class: ClassId) -> Self {
        Self { op: Op::Write, offset, len, class }
    }
}

/// A load that is generated operation by operation.
pub(super) trait Operations: Send {
    /// Adds the requests of an operation with this number.
    fn add(&mut self, number: u64, rng: &mut Rng, steps: &mut VecDeque<Step>);
}

/// The trace of a load of operations; see the generators.
#[derive(Debug, Clone)]
pub struct OperationsReader<L> {
    load: L,
    rng: Rng,
    steps: VecDeque<Step>,
    made: u64,
    operations: u64,
}

impl<L> OperationsReader<L> {
    pub(super) fn new(load: L, operations: u64, seed: u64) -> Self {
        Self { load, rng: Rng::new(seed), steps: VecDeque::new(), made: 0, operations }
    }
}

impl<L: Operations> Reader for OperationsReader<L> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        while self.steps.is_empty() {
            if self.made == self.operations {
                return Ok(false);
            }
            self.load.add(self.made, &mut self.rng, &mut self.steps);
            self.made += 1;
        }
        let Some(Step { op, offset, len, class }) = self.steps.pop_front() else { return Ok(false) };
        request.clear();
        (request.op, request.offset, request.len, request.class) = (op, offset, len, class);
        request.time_ns = (self.made - 1).saturating_mul(OPERATION_NS);
        Ok(true)
    }
}

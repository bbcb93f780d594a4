//! Requests, from their arrival to their end.

use crate::costs::How;
use nitro_port::Work;
use std::time::Duration;

/// A request that arrives.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// What it belongs to; `None`: it does not wait, and nobody is charged.
    pub work: Option<Work>,
    /// Its place on the device, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether it makes earlier writes durable. Then it does not wait.
    pub is_flush: bool,
}

/// A request that has begun. It is to be given back when it has [ended](crate::Scheduler::end).
#[derive(Debug)]
#[must_use]
pub struct Running {
    pub(crate) queue: Option<usize>,
    pub(crate) how: How,
    pub(crate) bytes: u64,
    pub(crate) cost_ns: f64,
    pub(crate) begun: Duration,
}

/// A request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub(crate) queue: usize,
    pub(crate) number: u64,
}

/// What happens to a request that arrives.
#[derive(Debug)]
pub enum Entry {
    /// It begins.
    Go(Running),
    /// It waits. [`Scheduler::next`](crate::Scheduler::next) tells what begins now.
    Wait(Ticket),
}

/// What begins next.
#[derive(Debug)]
pub enum Next<T> {
    /// This request begins.
    Go(T, Running),
    /// None may begin before that time, or until one ends. The request is one of those that wait until then.
    At(Duration, T),
    /// None may begin until one ends or arrives.
    Nothing,
}

/// What a workload has had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Requests.
    pub requests: u64,
    /// Requests that had to wait for others.
    pub waited: u64,
    /// The time that they waited.
    pub waited_ns: u64,
    /// The time of the device that all requests cost.
    pub cost_ns: u64,
}

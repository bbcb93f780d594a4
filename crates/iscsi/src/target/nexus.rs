//! The state of a session in its target.

use crate::scsi::Sense;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

/// Most unit attention conditions that are pending for a session.
const ATTENTIONS_MAX: usize = 8;

/// An initiator's port: its name, and its part of the session's ID (RFC 7143 §4.4).
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Port(pub(crate) String);

impl Port {
    pub(crate) fn new(initiator: &str, isid: [u8; 6]) -> Self {
        let isid = isid.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        Self(format!("{initiator},i,0x{isid:012x}"))
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A session with a target.
#[derive(Debug)]
pub(crate) struct Nexus {
    pub(crate) port: Port,
    attentions: Mutex<VecDeque<Sense>>,
    has_attention: AtomicBool,
    has_ended: AtomicBool,
    /// How often other sessions have aborted all commands of this one.
    aborts: AtomicU64,
    waker: AtomicWaker,
}

impl Nexus {
    pub(super) fn new(port: Port) -> Self {
        Self {
            port,
            attentions: Mutex::default(),
            has_attention: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            aborts: AtomicU64::new(0),
            waker: AtomicWaker::new(),
        }
    }

    /// Adds a unit attention condition, which the initiator gets with its next command.
    pub(crate) fn attend(&self, sense: Sense) {
        let mut attentions = self.attentions.lock();
        if attentions.len() < ATTENTIONS_MAX && !attentions.contains(&sense) {
            attentions.push_back(sense);
        }
        self.has_attention.store(true, Ordering::SeqCst);
    }

    /// Removes and returns the next pending unit attention condition.
    pub(crate) fn attention(&self) -> Option<Sense> {
        if !self.has_attention.load(Ordering::SeqCst) {
            return None;
        }
        let mut attentions = self.attentions.lock();
        let next = attentions.pop_front();
        self.has_attention.store(!attentions.is_empty(), Ordering::SeqCst);
        next
    }

    /// Ends the session: its future notices it when it is polled.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Whether the session has to end, because another one replaced it.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Aborts the commands of the session: its future does so when it is polled.
    pub(super) fn abort(&self) {
        self.aborts.fetch_add(1, Ordering::SeqCst);
        self.waker.wake();
    }

    /// How often other sessions have aborted the commands of this one.
    pub(crate) fn aborts(&self) -> u64 {
        self.aborts.load(Ordering::SeqCst)
    }

    /// Registers the waker of the session's future, for [`end`](Self::end) and [`abort`](Self::abort).
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }
}

//! A session as its target knows it.

use crate::scsi::Sense;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

/// Conditions that are held for a session.
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
    /// How often all its commands were aborted by others.
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

    /// Has the initiator told of a condition with its next command.
    pub(crate) fn attend(&self, sense: Sense) {
        let mut attentions = self.attentions.lock();
        if attentions.len() < ATTENTIONS_MAX && !attentions.contains(&sense) {
            attentions.push_back(sense);
        }
        self.has_attention.store(true, Ordering::SeqCst);
    }

    /// The next condition to be told.
    pub(crate) fn attention(&self) -> Option<Sense> {
        if !self.has_attention.load(Ordering::SeqCst) {
            return None;
        }
        let mut attentions = self.attentions.lock();
        let next = attentions.pop_front();
        self.has_attention.store(!attentions.is_empty(), Ordering::SeqCst);
        next
    }

    /// The session is to end.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Whether the session is to end, because another took its place.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// The commands of the session are to be aborted.
    pub(super) fn abort(&self) {
        self.aborts.fetch_add(1, Ordering::SeqCst);
        self.waker.wake();
    }

    /// How often they were.
    pub(crate) fn aborts(&self) -> u64 {
        self.aborts.load(Ordering::SeqCst)
    }

    /// Has the session's future polled when others do something to it.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }
}

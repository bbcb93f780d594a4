//! A host: the server's machine, what is on its way, and what it has of the volume.

use crate::{at, terms};
use nitro_cluster::{Answer, Ask, Fence, Machine, News, Order, Why};

/// The volume.
const VOLUME: &str = "v";

/// What is between a host and etcd.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Nothing.
    Quiet,
    /// A question, and when it was sent.
    Asked(Ask, u8),
    /// The answer to a question.
    Answered(Ask, u8, Answer),
}

/// What is between a host and the origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Write {
    /// Nothing.
    None,
    /// An opening that was let pass.
    Opening {
        /// The number.
        fence: u64,
    },
    /// An opening that is done.
    Opened {
        /// The number.
        fence: u64,
        /// What the origin contained.
        value: u8,
    },
    /// A write that was let pass.
    Checked {
        /// The number.
        fence: u64,
        /// What is written.
        value: u8,
    },
    /// A write that the origin has taken or refused.
    Landed {
        /// What is written.
        value: u8,
        /// It has taken it.
        was_taken: bool,
    },
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// The server's own.
    pub machine: Machine,
    /// It is stopped.
    pub is_paused: bool,
    /// It is cut off from etcd.
    pub is_cut: bool,
    /// What it has on its way takes any time.
    pub is_slow: bool,
    /// Between it and etcd.
    pub wire: Wire,
    /// A question that it has given up, and that etcd gets later.
    pub late: Option<Ask>,
    /// An order that is to be carried out.
    pub to_open: Option<Fence>,
    /// Between it and the origin.
    pub write: Write,
    /// What is on its way is of a process that is dead.
    is_orphan: bool,
    /// What it believes the origin to contain, once it serves the volume.
    view: Option<u8>,
}

impl Host {
    /// One that has just started.
    #[must_use]
    pub fn started() -> Self {
        Self {
            machine: Machine::new(terms(), [VOLUME.to_owned()]),
            is_paused: false,
            is_cut: false,
            is_slow: false,
            wire: Wire::Quiet,
            late: None,
            to_open: None,
            write: Write::None,
            is_orphan: false,
            view: None,
        }
    }

    /// The number under which it may write and answer.
    #[must_use]
    pub fn permits(&self, now: u8) -> Option<Fence> {
        self.machine.permits(VOLUME, at(now))
    }

    /// What it answers a read with; `None`: it answers none.
    #[must_use]
    pub fn serves(&self, now: u8) -> Option<u8> {
        self.permits(now).and(self.view)
    }

    /// Whether something is on its way to the origin.
    #[must_use]
    pub fn is_on_its_way(&self) -> bool {
        matches!(self.write, Write::Opening { .. } | Write::Checked { .. })
    }

    /// Whether something is on its way to etcd or the origin, or back.
    #[must_use]
    pub fn has_something_on_its_way(&self) -> bool {
        self.wire != Wire::Quiet || self.write != Write::None || self.to_open.is_some()
    }

    /// Whether time may pass: it has nothing to do, or takes its time.
    #[must_use]
    pub fn lets_time_pass(&self) -> bool {
        self.is_paused || self.is_slow || !self.has_something_on_its_way()
    }

    /// It is slow until it has nothing on its way any more.
    pub fn calm_down(&mut self) {
        self.is_slow &= self.has_something_on_its_way();
    }

    /// Asks etcd what the machine wants to know.
    pub fn ask(&mut self, now: u8) {
        if self.wire == Wire::Quiet
            && let Some(ask) = self.machine.ask(at(now))
        {
            self.wire = Wire::Asked(ask, now);
        }
    }

    /// Notes the time.
    pub fn tick(&mut self, now: u8) {
        let _ = self.machine.tick(at(now));
        self.ask(now);
    }

    /// Starts again.
    pub fn restart(&mut self, now: u8) {
        let (late, write) = (self.late.take(), self.write.clone());
        let is_orphan = self.is_on_its_way();
        *self = Self {
            late,
            is_orphan,
            is_cut: self.is_cut,
            is_slow: self.is_slow,
            write: if is_orphan { write } else { Write::None },
            ..Self::started()
        };
        self.tick(now);
    }

    /// Nobody hears what came of a dead process.
    pub fn forget_if_dead(&mut self) {
        if self.is_orphan {
            (self.write, self.is_orphan) = (Write::None, false);
        }
    }

    /// The question or the answer is lost.
    pub fn lose(&mut self) {
        if let Wire::Asked(ask, sent) | Wire::Answered(ask, sent, _) = self.wire.clone() {
            self.wire = Wire::Answered(ask, sent, Answer::Failed);
        }
    }

    /// The question comes after it was given up.
    pub fn delay(&mut self) {
        if let Wire::Asked(ask, _) = &self.wire {
            self.late = Some(ask.clone());
        }
        self.lose();
    }

    /// Gets an answer.
    pub fn deliver(&mut self, now: u8) {
        let Wire::Answered(ask, sent, answer) = std::mem::replace(&mut self.wire, Wire::Quiet) else { return };
        for order in self.machine.answer(at(now), at(sent), &ask, answer) {
            if let Order::Open(_, fence) = order {
                self.to_open = Some(fence);
            }
        }
        self.ask(now);
    }

    /// Begins to open the origin, if it may.
    pub fn open(&mut self, now: u8) {
        let Some(fence) = self.to_open.take() else { return };
        if self.permits(now) == Some(fence) {
            self.write = Write::Opening { fence: fence.0 };
        }
    }

    /// Lets a write pass, if it may.
    pub fn write(&mut self, now: u8, value: u8) -> bool {
        let Some(Fence(fence)) = self.permits(now) else { return false };
        self.write = Write::Checked { fence, value };
        true
    }

    /// Hears of the origin. Returns the write that the client is told of as done, and whether the volume is served from now on.
    pub fn hear(&mut self, now: u8) -> (Option<u8>, bool) {
        let may = self.permits(now).is_some();
        match std::mem::replace(&mut self.write, Write::None) {
            Write::Opened { value, .. } if may => {
                self.view = Some(value);
                self.machine.hear(&News::Opened(VOLUME.to_owned()));
                (None, true)
            }
            Write::Landed { value, was_taken: true } if may => {
                self.view = Some(value);
                (Some(value), false)
            }
            Write::Landed { was_taken: false, .. } => {
                let _ = self.machine.stop(Why::KeyGone(VOLUME.to_owned()));
                (None, false)
            }
            _ => (None, false),
        }
    }

    /// Ends in order: nothing is on its way to the origin.
    pub fn leave(&mut self, now: u8) {
        self.view = None;
        self.machine.hear(&News::Leaving);
        self.machine.hear(&News::AtRest);
        self.ask(now);
    }
}

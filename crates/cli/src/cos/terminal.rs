//! A command that waits for an operation: it shows the progress on standard error, and signals end the operation.

use nitro_console::error::Error;
use nitro_console::progress::Progress;
use nitro_console::signals::{Signals, Urgency};
use nitro_server::cos::transfer::{Producer, Unit, Watch};
use std::cell::RefCell;

/// The command.
pub(super) struct Terminal {
    signals: &'static Signals,
    /// What is shown at present.
    shown: RefCell<Option<(String, Progress)>>,
    /// The command whose output is imported.
    producer: RefCell<Option<Producer>>,
}

impl Terminal {
    /// From now on, signals end the operation in order; the third one ends the process.
    ///
    /// # Errors
    /// Signals cannot be handled.
    pub(super) fn new() -> Result<Self, Error> {
        let (shown, producer) = (RefCell::new(None), RefCell::new(None));
        Ok(Self { signals: Signals::handle()?, shown, producer })
    }

    /// The content is complete only if this command succeeds.
    pub(super) fn wait_for(&self, producer: Producer) {
        *self.producer.borrow_mut() = Some(producer);
    }

    fn end_shown(&self) {
        if let Some((_, progress)) = self.shown.borrow_mut().take() {
            progress.end();
        }
    }
}

impl Watch for Terminal {
    fn show(&self, what: &str, unit: Unit, done: u64, total: u64) {
        if total == 0 {
            return;
        }
        if self.shown.borrow().as_ref().is_none_or(|(shown, _)| shown != what) {
            self.end_shown();
            let progress = match unit {
                Unit::Bytes => Progress::new(total, what),
                Unit::Items => Progress::counting(total, what),
            };
            *self.shown.borrow_mut() = Some((what.to_owned(), progress));
        }
        if let Some((_, progress)) = &*self.shown.borrow() {
            progress.show(done);
        }
    }

    fn note(&self, text: String) {
        nitro_console::note!("{text}");
    }

    fn end(&self) -> Option<String> {
        self.signals.get(Urgency::InOrder).map(str::to_owned)
    }

    fn complete(&self) -> Option<Result<(), Error>> {
        self.producer.borrow_mut().as_mut().map_or(Some(Ok(())), Producer::succeeded)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.end_shown();
    }
}

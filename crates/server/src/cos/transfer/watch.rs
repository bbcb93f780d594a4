//! What an operation that takes long tells whoever watches it, and is told.

use super::threads::pause;
use nitro_console::error::Error;
use serde::{Deserialize, Serialize};

/// What a progress counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Something else, such as containers.
    Items,
}

/// Whoever watches an operation: a command at a terminal, or a server for the client of its control socket. The operation
/// calls it every few milliseconds.
pub trait Watch {
    /// Shows that `done` of `total` (0: unknown) is done; `what` is a participle, as in "30 % of 2 GiB imported", or names a phase.
    fn show(&self, what: &str, unit: Unit, done: u64, total: u64);

    /// Says something once, in one line.
    fn note(&self, text: String);

    /// What ends the operation, if it has to end: a noun for "... interrupted the import".
    fn end(&self) -> Option<String>;

    /// Called when the end of a stream was read: whether that was all of it. `None`: this is not known yet.
    fn complete(&self) -> Option<Result<(), Error>>;
}

/// Waits until the operation has to end, and returns the reason.
pub(in crate::cos) async fn ended(watch: &dyn Watch) -> String {
    loop {
        if let Some(cause) = watch.end() {
            return cause;
        }
        pause().await;
    }
}

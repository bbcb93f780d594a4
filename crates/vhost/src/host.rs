//! What the device needs of a runtime.

use futures_util::future::LocalBoxFuture;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Makes a future on the thread that is to run it.
pub type LocalTask = Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>;

/// Runs queues, and waits for and rings event counters (`eventfd`(2)).
pub trait Host: Clone + Send + Sync + 'static {
    /// Runs a task on one of the host's threads; `queue` spreads the queues of a device over them. `false`: none runs any more.
    fn spawn(&self, queue: usize, task: LocalTask) -> bool;

    /// Waits until the counter is above zero, and resets it. Called on a thread of the host's.
    fn wait(&self, event: &Arc<OwnedFd>) -> impl Future<Output = io::Result<()>>;

    /// Adds one to the counter. It may take for ever where the client lets the counter run full. Called on a thread of the host's.
    fn ring(&self, event: &Arc<OwnedFd>) -> impl Future<Output = io::Result<()>>;
}

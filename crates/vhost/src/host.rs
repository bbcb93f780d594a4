//! The interface between the device and a runtime.

use futures_util::future::LocalBoxFuture;
use std::any::Any;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use vm_memory::MmapRegion;

/// Makes a future, on the thread that runs it.
pub type LocalTask = Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>;

/// Guards a mapping until it is dropped; see [`Host::guard`].
pub type Guard = Arc<dyn Any + Send + Sync>;

/// Runs queues, and waits for and increments event counters (`eventfd`(2)).
pub trait Host: Clone + Send + Sync + 'static {
    /// Runs a task on one of the host's threads; `queue` distributes the queues of a device over them. `false`: no
    /// thread runs any more, and the task was dropped.
    fn spawn(&self, queue: usize, task: LocalTask) -> bool;

    /// Waits until the counter is above zero, and resets it. Called on a thread of the host.
    fn wait(&self, event: &Arc<OwnedFd>) -> impl Future<Output = io::Result<()>>;

    /// Adds one to the counter. While the counter has its maximum, which a client can cause, the future stays pending.
    /// Called on a thread of the host.
    fn ring(&self, event: &Arc<OwnedFd>) -> impl Future<Output = io::Result<()>>;

    /// Guards a mapping of a client's file, which may shrink. As long as the guard exists, the mapping does, and an access
    /// to it always succeeds: if the file has no such page, `lost` is set before the access ends, and what is read is of
    /// no meaning.
    ///
    /// # Errors
    /// The operating system's error.
    fn guard(&self, map: &Arc<MmapRegion>, lost: &Arc<AtomicBool>) -> io::Result<Guard>;
}

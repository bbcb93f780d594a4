//! What the scenarios share: an export in memory, a client, and an executor that notices stand-stills.

pub mod client;
pub mod export;
pub mod mortal;
pub mod stream;

use client::Client;
use export::{MemoryExport, MemoryExports};
use futures_executor::LocalPool;
use futures_util::task::LocalSpawnExt as _;
use nitro_nbd::transport::memory::{MemoryEnd, duplex};
use nitro_nbd::{ConnectionSummary, NbdError, ServerOptions, serve};
use std::cell::RefCell;
use std::future::{Future, pending};
use std::rc::Rc;
use std::sync::Arc;
use stream::PlainStream;

/// Bytes that each direction of the test stream holds.
pub const STREAM_BYTES: usize = 64 << 10;

/// How the server ended.
pub type Served = Result<ConnectionSummary, NbdError>;

/// Runs server and client until both have ended. Panics if they wait for each other.
pub fn run<T: 'static, F: Future<Output = T> + 'static>(
    exports: MemoryExports,
    options: ServerOptions,
    stop: impl Future<Output = ()> + 'static,
    client: impl FnOnce(MemoryEnd) -> F,
) -> (Served, T) {
    let (ours, theirs) = duplex(STREAM_BYTES);
    let server = async move { serve(ours.reader, ours.writer, &exports, &options, stop).await };
    let mut pool = LocalPool::new();
    let (served, answer) = (spawn(&pool, server), spawn(&pool, client(theirs)));
    pool.run_until_stalled();
    let served = served.borrow_mut().take().expect("the server stands still");
    (served, answer.borrow_mut().take().expect("the client stands still"))
}

/// Starts a task; its result shows when it has ended.
pub fn spawn<T: 'static>(pool: &LocalPool, work: impl Future<Output = T> + 'static) -> Rc<RefCell<Option<T>>> {
    let slot = Rc::new(RefCell::new(None));
    let result = Rc::clone(&slot);
    let task = async move {
        let done = work.await;
        *result.borrow_mut() = Some(done);
    };
    pool.spawner().spawn_local(task).unwrap();
    slot
}

/// Runs a client over a plain stream, greetings exchanged, against a server of one export.
pub fn with_client<T: 'static, F: Future<Output = T> + 'static>(
    export: &Arc<MemoryExport>,
    talk: impl FnOnce(Client<PlainStream>) -> F + 'static,
) -> (Served, T) {
    run(MemoryExports::one(export), ServerOptions::default(), pending(), move |end| async move {
        talk(Client::greet(PlainStream::new(end)).await).await
    })
}

/// The same for a client that causes no failure.
pub fn converse<F: Future<Output = ()> + 'static>(
    export: &Arc<MemoryExport>,
    talk: impl FnOnce(Client<PlainStream>) -> F + 'static,
) {
    with_client(export, talk).0.unwrap();
}

/// Bytes that differ from place to place.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    nitro_testkit::noise(seed, len)
}

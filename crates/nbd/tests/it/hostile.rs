//! Clients that are broken or mean.

use crate::support::client::{Client, info_payload, option, request};
use crate::support::export::{MemoryExport, MemoryExports};
use crate::support::stream::{PlainStream, Stream as _};
use crate::support::{STREAM_BYTES, Served, pattern, run, spawn, with_client};
use futures_executor::LocalPool;
use nitro_nbd::protocol::{OptionError, RequestError};
use nitro_nbd::transport::WriteHalf as _;
use nitro_nbd::transport::memory::duplex;
use nitro_nbd::{Limits, NbdError, Phase, RequestMemory, ServerOptions, serve};
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

fn disk() -> Arc<MemoryExport> {
    Arc::new(MemoryExport::new(pattern(1 << 20, 5)))
}

fn disk_of(len: usize) -> Arc<MemoryExport> {
    Arc::new(MemoryExport::new(vec![7; len]))
}

/// Sends `bytes` after the server's greeting and hears it out.
fn serve_bytes(bytes: Vec<u8>) -> Served {
    run(MemoryExports::one(&disk()), ServerOptions::default(), pending(), |end| async move {
        let mut stream = PlainStream::new(end);
        // The server may hang up before it has heard everything.
        let _ = stream.send(&bytes).await;
        stream.writer.shutdown().await;
        while stream.receive(1).await.is_some() {}
    })
    .0
}

fn after_go(bytes: &[u8]) -> Served {
    serve_bytes([&[0, 0, 0, 3][..], &option(7, &info_payload("disk", &[])), bytes].concat())
}

#[test]
fn nonsense_ends_the_connection() {
    assert!(matches!(serve_bytes(vec![0xff; 100]), Err(NbdError::ClientFlags { flags: 0xffff_ffff })));
    let garbage = [&[0, 0, 0, 3][..], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"].concat();
    assert!(matches!(serve_bytes(garbage), Err(NbdError::Option(OptionError::Magic { .. }))));
    assert!(matches!(after_go(&[0; 28]), Err(NbdError::Request(RequestError::Magic { found: 0 }))));
}

#[test]
fn half_messages_are_told_from_ends() {
    let whole = [&[0, 0, 0, 3][..], &option(6, &info_payload("disk", &[]))].concat();
    for len in 0..whole.len() {
        let served = serve_bytes(whole[..len].to_vec());
        let truncated = matches!(served, Err(NbdError::Truncated { phase: Phase::Handshake }));
        assert_eq!(truncated, len > 4, "{len}: {served:?}");
    }
    let write = [request(0, 1, 1, 0, 10), vec![7; 10]].concat();
    for len in 0..=write.len() {
        let served = after_go(&write[..len]);
        let truncated = matches!(served, Err(NbdError::Truncated { phase: Phase::Receive }));
        assert_eq!(truncated, !matches!(len, 0 | 38), "{len}: {served:?}");
    }
}

#[test]
fn claimed_lengths_cost_nothing() {
    let option_of_4_gib = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 7], &[0xff; 4]].concat();
    let served = serve_bytes(option_of_4_gib);
    assert!(matches!(served, Err(NbdError::PayloadTooLong { phase: Phase::Handshake, bytes: 0xFFFF_FFFF })));
    let served = after_go(&request(0, 1, 1, 0, u32::MAX));
    assert!(matches!(served, Err(NbdError::PayloadTooLong { phase: Phase::Receive, bytes: 0xFFFF_FFFF })));
    let served = after_go(&request(0, 1, 1, 0, 32 << 20));
    assert!(matches!(served, Err(NbdError::Truncated { .. })));
}

#[test]
fn endless_options_come_to_an_end() {
    let bytes = [vec![0, 0, 0, 3], option(3, &[]).repeat(1000)].concat();
    assert!(matches!(serve_bytes(bytes), Err(NbdError::TooManyOptions { max: 260 })));
}

#[test]
fn a_client_that_never_reads_is_no_longer_read() {
    let export = disk();
    let (served, sent) = with_client(&export, |mut client| async move {
        client.go("disk").await;
        // Writes come to nothing once the server has as many requests as it is willing to hold.
        let mut sent = 0u32;
        let all = (0..100_000u64).map(|i| request(0, 0, i, i % 3, 4096));
        for bytes in all {
            let mut sending = Box::pin(client.stream.send(&bytes));
            let mut turns = 0;
            let done = std::future::poll_fn(|context| {
                turns += 1;
                context.waker().wake_by_ref();
                match sending.as_mut().poll(context) {
                    std::task::Poll::Pending if turns < 100 => std::task::Poll::Pending,
                    other => std::task::Poll::Ready(other.is_ready()),
                }
            });
            if !done.await {
                break;
            }
            sent += 1;
        }
        sent
    });
    // What the server admitted, what its buffer and the stream hold, and not more.
    assert!(sent < 256 + (128 << 10) / 28 + (64 << 10) / 28 + 100, "{sent} requests were taken");
    assert!(matches!(served, Err(NbdError::Io { phase: Phase::Send, .. })));
}

#[test]
fn limits_slow_down_but_do_not_stop() {
    let limits = Limits { in_flight_requests_max: 3, in_flight_bytes_max: 5000, ..Limits::default() };
    let options = ServerOptions { limits, ..ServerOptions::default() };
    let mut export = MemoryExport::new(pattern(1 << 20, 5));
    export.inline = false;
    let export = Arc::new(export);
    let (served, ()) = run(MemoryExports::one(&export), options, pending(), |end| async move {
        let mut client = Client::greet(PlainStream::new(end)).await;
        client.go("disk").await;
        let mut lens = HashMap::new();
        for i in 0..100u64 {
            let len = if i % 10 == 0 { 100_000 } else { 1000 };
            lens.insert(client.send(0, 0, i, len, &[]).await, len);
        }
        for _ in 0..100 {
            let (cookie, answer) = client.answer(&lens).await.unwrap();
            assert_eq!(answer.data.len(), lens[&cookie] as usize);
        }
        client.disconnect().await;
    });
    assert_eq!(served.unwrap().requests, 100);
    assert!(export.running_max.load(Relaxed) <= 3);
}

/// Several connections to one export that share their memory.
struct Crowd {
    pool: LocalPool,
    export: Arc<MemoryExport>,
    memory: Arc<RequestMemory>,
    options: Rc<ServerOptions>,
}

/// Set once what a client wants is done.
type Done<T> = Rc<RefCell<Option<T>>>;

impl Crowd {
    /// Memory of `bytes`, half of it for single connections, of which there may be eight.
    fn new(bytes: u64) -> Self {
        let mut export = MemoryExport::new(vec![7; 64 << 20]);
        export.inline = false;
        let memory = Arc::new(RequestMemory::new(bytes, 8));
        let options = Rc::new(ServerOptions { memory: Arc::clone(&memory), ..ServerOptions::default() });
        Self { pool: LocalPool::new(), export: Arc::new(export), memory, options }
    }

    fn connect<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        talk: impl FnOnce(Client<PlainStream>) -> F + 'static,
    ) -> (Done<Served>, Done<T>) {
        let (ours, theirs) = duplex(STREAM_BYTES);
        let (exports, options) = (MemoryExports::one(&self.export), Rc::clone(&self.options));
        let server = async move { serve(ours.reader, ours.writer, &exports, &options, pending()).await };
        let client = async move {
            let mut client = Client::greet(PlainStream::new(theirs)).await;
            client.go("disk").await;
            talk(client).await
        };
        (spawn(&self.pool, server), spawn(&self.pool, client))
    }

    /// A client that sends `bytes` and then neither sends nor receives any more.
    fn stall(&self, bytes: Vec<u8>) -> Done<Served> {
        let talk = |mut client: Client<PlainStream>| async move {
            client.stream.send(&bytes).await.unwrap();
            pending::<()>().await;
            drop(client);
        };
        self.connect(talk).0
    }

    /// A client that writes `len` bytes.
    fn write(&self, len: u32) -> Done<()> {
        let talk = move |mut client: Client<PlainStream>| async move {
            assert_eq!(client.ask(0, 1, 0, len, &vec![1; len as usize]).await.error, 0);
            client.disconnect().await;
        };
        self.connect(talk).1
    }

    fn run(&mut self) {
        self.pool.run_until_stalled();
    }
}

const LARGE: u32 = 32 << 20;

fn is_done<T>(done: &Done<T>) -> bool {
    done.borrow().is_some()
}

#[test]
fn announced_payloads_hold_no_memory_before_they_come() {
    let mut crowd = Crowd::new(64 << 20);
    let free = crowd.memory.free_bytes();
    let stalled = [(); 7].map(|()| crowd.stall(request(0, 1, 1, 0, LARGE)));
    crowd.run();
    assert_eq!(crowd.memory.free_bytes(), free);
    let large = crowd.write(LARGE);
    crowd.run();
    assert!(is_done(&large) && !stalled.iter().any(is_done));
    assert_eq!(crowd.memory.free_bytes(), free);
}

#[test]
fn a_payload_that_stalls_gives_its_memory_to_those_that_wait() {
    let mut crowd = Crowd::new(64 << 20);
    let begun = [request(0, 1, 1, 0, LARGE), vec![1; 8192]].concat();
    let stalled = [crowd.stall(begun.clone()), crowd.stall(begun)];
    crowd.run();
    // One has the shared part, the other waits for it; small requests need neither.
    let small = crowd.write(4096);
    let large = crowd.write(LARGE);
    crowd.run();
    assert!(is_done(&small) && !is_done(&large) && !stalled.iter().any(is_done));
    for _ in 0..200 {
        crowd.memory.tick();
        crowd.run();
    }
    assert!(is_done(&large));
    let served = stalled[0].borrow_mut().take().unwrap();
    assert!(matches!(served, Err(NbdError::Overdue { phase: Phase::Receive })), "{served:?}");
}

#[test]
fn replies_that_are_not_taken_give_their_memory_to_those_that_wait() {
    let mut crowd = Crowd::new(64 << 20);
    let reads: Vec<u8> = (0..2).flat_map(|cookie| request(0, 0, cookie, 0, LARGE)).collect();
    let deaf = crowd.stall(reads);
    crowd.run();
    let large = crowd.write(LARGE);
    (0..5).for_each(|_| crowd.memory.tick());
    crowd.run();
    assert!(!is_done(&large) && !is_done(&deaf));
    for _ in 0..200 {
        crowd.memory.tick();
        crowd.run();
    }
    assert!(is_done(&large));
    assert!(matches!(deaf.borrow_mut().take(), Some(Err(NbdError::Overdue { .. }))));
}

#[test]
fn many_large_requests_of_many_clients_all_come_to_their_end() {
    let mut crowd = Crowd::new(64 << 20);
    let free = crowd.memory.free_bytes();
    let writes: Vec<_> = (0..8).map(|i| crowd.write(LARGE >> (i % 3))).collect();
    let reads: Vec<_> = (0..3)
        .map(|_| {
            let talk = |mut client: Client<PlainStream>| async move {
                let mut lens = HashMap::new();
                for len in [LARGE, 5, 1 << 20, LARGE] {
                    lens.insert(client.send(0, 0, 0, len, &[]).await, len);
                }
                for _ in 0..lens.len() {
                    let (cookie, answer) = client.answer(&lens).await.unwrap();
                    assert_eq!(answer.data.len(), lens[&cookie] as usize);
                }
                client.disconnect().await;
            };
            crowd.connect(talk).1
        })
        .collect();
    crowd.run();
    assert!(writes.iter().chain(&reads).all(is_done));
    assert_eq!(crowd.memory.free_bytes(), free);
}

#[test]
fn caching_ends_when_its_client_has_left() {
    let export = disk_of(64 << 20);
    export.held.store(true, Relaxed);
    let mut crowd = Crowd { export: Arc::clone(&export), ..Crowd::new(64 << 20) };
    let talk = |mut client: Client<PlainStream>| async move {
        client.send(0, 5, 4096, 60 << 20, &[]).await;
        client
    };
    let (served, client) = crowd.connect(talk);
    crowd.run();
    drop(client.borrow_mut().take());
    crowd.run();
    assert!(!is_done(&served));
    export.release();
    crowd.run();
    assert!(is_done(&served));
    // The step that was under way is finished.
    assert_eq!(export.log(), ["cache 4096+4190208"]);
}

#[test]
fn a_long_range_is_cached_in_steps() {
    let export = disk_of(64 << 20);
    let mut crowd = Crowd { export: Arc::clone(&export), ..Crowd::new(64 << 20) };
    let talk = |mut client: Client<PlainStream>| async move {
        assert_eq!(client.ask(0, 5, 4096, 10 << 20, &[]).await.error, 0);
        client.disconnect().await;
    };
    let asked = crowd.connect(talk).1;
    crowd.run();
    assert!(is_done(&asked));
    assert_eq!(export.log(), ["cache 4096+4190208", "cache 4194304+4194304", "cache 8388608+2101248"]);
}

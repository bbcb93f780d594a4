//! Clients that are broken or mean.

use crate::support::client::{Client, info_payload, option, request};
use crate::support::export::{MemoryExport, MemoryExports};
use crate::support::stream::{PlainStream, Stream as _};
use crate::support::{Served, pattern, run, with_client};
use nitro_nbd::protocol::{OptionError, RequestError};
use nitro_nbd::transport::WriteHalf as _;
use nitro_nbd::{Limits, NbdError, Phase, ServerOptions};
use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

fn disk() -> Arc<MemoryExport> {
    Arc::new(MemoryExport::new(pattern(1 << 20, 5)))
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
    assert!(matches!(served, Err(NbdError::PayloadTooLong { phase: Phase::Handshake, bytes: u32::MAX })));
    let served = after_go(&request(0, 1, 1, 0, u32::MAX));
    assert!(matches!(served, Err(NbdError::PayloadTooLong { phase: Phase::Receive, bytes: u32::MAX })));
    let served = after_go(&request(0, 1, 1, 0, 32 << 20));
    assert!(matches!(served, Err(NbdError::Truncated { .. })));
}

#[test]
fn endless_options_come_to_an_end() {
    let bytes = [vec![0, 0, 0, 3], option(3, &[]).repeat(1000)].concat();
    assert!(matches!(serve_bytes(bytes), Err(NbdError::TooManyOptions { max: 256 })));
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

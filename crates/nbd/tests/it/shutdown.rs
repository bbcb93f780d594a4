//! Stopping, and clients that leave early.

use crate::support::client::{Client, option, request};
use crate::support::export::{MemoryExport, MemoryExports};
use crate::support::stream::{PlainStream, Stream as _};
use crate::support::{pattern, run, with_client};
use futures_util::future::FutureExt as _;
use nitro_nbd::transport::WriteHalf as _;
use nitro_nbd::{End, NbdError, Phase, ServerOptions};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

/// Lets the other task run for a while.
async fn turns(count: usize) {
    let mut left = count;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A stop signal and what fires it.
fn stop_signal() -> (Rc<Signal>, impl Future<Output = ()>) {
    let signal = Rc::new(Signal::default());
    let seen = Rc::clone(&signal);
    let fired = poll_fn(move |context| {
        seen.waker.replace(Some(context.waker().clone()));
        if seen.fired.get() { Poll::Ready(()) } else { Poll::Pending }
    });
    (signal, fired)
}

#[derive(Default)]
struct Signal {
    fired: std::cell::Cell<bool>,
    waker: std::cell::RefCell<Option<std::task::Waker>>,
}

impl Signal {
    fn fire(&self) {
        self.fired.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[test]
fn a_stopped_server_finishes_what_it_began() {
    let export = Arc::new(MemoryExport::new(vec![0; 10_000]));
    export.held.store(true, Relaxed);
    let (signal, stop) = stop_signal();
    let held = Arc::clone(&export);
    let (served, ()) = run(MemoryExports::one(&export), ServerOptions::default(), stop, |end| async move {
        let mut client = Client::greet(PlainStream::new(end)).await;
        client.go("disk").await;
        let lens = [(client.send(0, 1, 1, 4, b"data").await, 0), (client.send(0, 0, 1, 4, &[]).await, 4)].into();
        turns(20).await;
        signal.fire();
        turns(20).await;
        // Nobody hears this one.
        let _ = client.stream.send(&request(0, 1, 99, 0, 0)).await;
        held.release();
        assert_eq!(client.answer(&lens).await.unwrap().1.error, 0);
        assert_eq!(client.answer(&lens).await.unwrap().1.data, b"data");
        assert!(client.stream.receive(1).await.is_none());
    });
    let summary = served.unwrap();
    assert_eq!((summary.end, summary.requests), (End::Stopped, 2));
}

#[test]
fn a_server_stops_in_the_middle_of_a_payload() {
    let (signal, stop) = stop_signal();
    let export = Arc::new(MemoryExport::new(vec![0; 10_000]));
    let (served, ()) = run(MemoryExports::one(&export), ServerOptions::default(), stop, |end| async move {
        let mut client = Client::greet(PlainStream::new(end)).await;
        client.go("disk").await;
        client.stream.send(&[request(0, 1, 1, 0, 9000), vec![1; 100]].concat()).await.unwrap();
        turns(20).await;
        signal.fire();
        assert!(client.stream.receive(1).await.is_none());
    });
    assert_eq!(served.unwrap().end, End::Stopped);
    assert!(export.log().is_empty());
}

#[test]
fn a_server_stops_in_the_middle_of_a_handshake() {
    for sent in [0, 1] {
        let (signal, stop) = stop_signal();
        let export = Arc::new(MemoryExport::new(vec![0; 10]));
        let (served, ()) = run(MemoryExports::one(&export), ServerOptions::default(), stop, |end| async move {
            let mut stream = PlainStream::new(end);
            stream.receive(18).await.unwrap();
            if sent > 0 {
                stream.send(&[&[0, 0, 0, 3][..], &option(3, &[])[..9]].concat()).await.unwrap();
            }
            turns(5).await;
            signal.fire();
            assert!(stream.receive(1).await.is_none());
        });
        assert_eq!(served.unwrap().end, End::Stopped);
    }
}

#[test]
fn a_leaving_client_gets_its_last_replies() {
    let export = Arc::new(MemoryExport::new(pattern(10_000, 4)));
    let (served, ()) = with_client(&export, |mut client| async move {
        client.go("disk").await;
        let read = client.send(0, 0, 3, 5000, &[]).await;
        client.send(0, 2, 0, 0, &[]).await;
        let (_, answer) = client.answer(&[(read, 5000)].into()).await.unwrap();
        assert_eq!(answer.data, pattern(10_000, 4)[3..5003]);
        assert!(client.stream.receive(1).await.is_none());
    });
    assert_eq!(served.unwrap().end, End::Disconnected);
}

#[test]
fn writes_are_finished_though_their_client_is_gone() {
    let export = Arc::new(MemoryExport::new(vec![0; 10_000]));
    export.held.store(true, Relaxed);
    let held = Arc::clone(&export);
    let (served, ()) = with_client(&export, |mut client| async move {
        client.go("disk").await;
        for i in 0..5 {
            client.send(0, 1, i * 10, 4, b"data").await;
        }
        turns(20).await;
        drop(client);
        turns(20).await;
        held.release();
    });
    assert!(matches!(served, Err(NbdError::Io { phase: Phase::Send, .. }) | Ok(_)));
    assert_eq!(export.log().len(), 5);
    assert_eq!(export.data.lock().unwrap()[40..44], *b"data");
}

#[test]
fn a_connection_can_be_dropped_at_any_moment() {
    let export = Arc::new(MemoryExport::new(vec![0; 10_000]));
    for polls in 0..40 {
        let (ours, theirs) = nitro_nbd::transport::memory::duplex(64);
        let (exports, options) = (MemoryExports::one(&export), ServerOptions::default());
        let server = nitro_nbd::serve(ours.reader, ours.writer, &exports, &options, pending());
        let client = async move {
            let mut client = Client::greet(PlainStream::new(theirs)).await;
            client.go("disk").await;
            for i in 0..10 {
                client.ask(0, 1, i, 300, &[1; 300]).await;
            }
            client.stream.writer.shutdown().await;
        };
        let both = futures_util::future::join(server, client);
        let mut both = Box::pin(both);
        for _ in 0..polls {
            if both.as_mut().now_or_never().is_some() {
                break;
            }
        }
    }
}

//! The reactor.

use nitro_device::{CompioClock, FileOptions, Reactor, spawn_local, spawn_thread};
use nitro_port::{Clock, Device};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

#[test]
fn a_thread_runs_futures_that_cannot_be_sent() {
    let thread = spawn_thread("worker", || async {
        let shared = Rc::new(Cell::new(0));
        let other = Rc::clone(&shared);
        spawn_local(async move { other.set(7) });
        let clock = CompioClock::new();
        clock.sleep(Duration::from_millis(20)).await;
        assert!(clock.now() >= Duration::from_millis(20));
        (shared.get(), std::thread::current().name().map(str::to_owned))
    });
    assert_eq!(thread.unwrap().join().unwrap(), (7, Some("worker".to_owned())));
}

#[test]
fn a_panic_shows_when_the_thread_is_joined() {
    let thread = spawn_thread("doomed", || async { panic!("on purpose") }).unwrap();
    let payload: std::thread::Result<()> = thread.join();
    assert_eq!(*payload.unwrap_err().downcast::<&str>().unwrap(), "on purpose");
}

/// A task that another thread wakes again before it has even ended its turn, so that its reactor never sleeps.
#[test]
fn requests_end_though_another_thread_keeps_the_reactor_awake() {
    const PATIENCE: Duration = Duration::from_secs(10);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let (wakers, to_wake) = mpsc::channel::<Waker>();
    let (woken, is_woken) = mpsc::channel();
    std::thread::spawn(move || {
        to_wake.iter().try_for_each(|waker| {
            waker.wake();
            woken.send(())
        })
    });
    Reactor::new().unwrap().block_on(async {
        let device = FileOptions::new(file.path()).open().unwrap();
        let begun = Instant::now();
        spawn_local(poll_fn(move |context| {
            wakers.send(context.waker().clone()).unwrap();
            is_woken.recv().unwrap();
            if begun.elapsed() < PATIENCE { Poll::Pending } else { Poll::Ready(()) }
        }));
        for _ in 0..20 {
            device.flush().await.unwrap();
        }
        assert!(begun.elapsed() < PATIENCE);
    });
}

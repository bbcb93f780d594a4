//! The reactor.

use nitro_device::runtime::{Shutdown, wait_for_shutdown};
use nitro_device::{CompioClock, Reactor, spawn_local, spawn_thread};
use nitro_engine::port::Clock;
use rustix::process::{Signal, getpid, kill_process};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

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

#[test]
fn a_signal_ends_the_wait() {
    Reactor::new().unwrap().block_on(async {
        spawn_local(async {
            CompioClock::new().sleep(Duration::from_millis(50)).await;
            kill_process(getpid(), Signal::TERM).unwrap();
        });
        assert_eq!(wait_for_shutdown().await.unwrap(), Shutdown::Terminate);
    });
}

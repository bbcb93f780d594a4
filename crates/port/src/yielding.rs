//! Waiting and yielding, on any executor.

use event_listener::Event;
use std::future::poll_fn;
use std::task::Poll;

/// Yields once: the future is ready at its second poll.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits until `attempt` returns a value; it is repeated whenever `event` is notified. The first attempt has no
/// overhead.
pub async fn attempt_at<T>(event: &Event, mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        let notified = event.listen();
        // The event may have come before there was a listener.
        if let Some(result) = attempt() {
            return result;
        }
        notified.await;
    }
}

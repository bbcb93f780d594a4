//! Letting others run in the middle of long work, on any executor.

use std::future::poll_fn;
use std::task::Poll;

/// Ends at the next poll after the one that began it.
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

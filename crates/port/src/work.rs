//! What work a request to a device belongs to. Whoever begins work names it once, around its future
//! ([`Work::scope`]); the requests that the future makes carry the name down to the device, whatever is between them.
//!
//! Requests without a name are those that everything waits for, such as the steps of a start; a device that divides
//! its time lets them pass.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;

/// The kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkKind {
    /// A read of a client, at a place that does not follow from the last one.
    RandomRead,
    /// A write of a client, in the same sense.
    RandomWrite,
    /// A client that reads in order.
    SequentialRead,
    /// A client that writes in order, such as a backup.
    Ingest,
    /// Dirty data that are written to their origin.
    Destage,
    /// A collection of content that nothing refers to.
    Collection,
    /// A check of what is stored.
    Scrub,
    /// What may be read later.
    ReadAhead,
}

impl WorkKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::RandomRead,
        Self::RandomWrite,
        Self::SequentialRead,
        Self::Ingest,
        Self::Destage,
        Self::Collection,
        Self::Scrub,
        Self::ReadAhead,
    ];
}

/// The work that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Its kind.
    pub kind: WorkKind,
    /// For whom: the number of a volume. Groups share equally what their kinds have.
    pub group: u64,
    /// Others wait for it: it passes at once, and its kind and group are charged.
    pub pressing: bool,
}

thread_local! {
    static CURRENT: Cell<Option<Work>> = const { Cell::new(None) };
}

/// Sets the current work, and the former one again when it is dropped.
struct Entered(Option<Work>);

impl Entered {
    fn new(work: Option<Work>) -> Self {
        Self(CURRENT.replace(work))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Polls a future with the work that `work` makes of the current one, at each poll anew. Takes it by reference, as a
/// future that is moved into another one takes its room twice.
fn polled<F: Future + ?Sized>(
    mut future: Pin<&mut F>,
    work: impl Fn(Option<Work>) -> Option<Work>,
) -> impl Future<Output = F::Output> {
    poll_fn(move |context| {
        let _entered = Entered::new(work(CURRENT.get()));
        future.as_mut().poll(context)
    })
}

impl Work {
    /// Work that nobody else waits for.
    #[must_use]
    pub const fn new(kind: WorkKind, group: u64) -> Self {
        Self { kind, group, pressing: false }
    }

    /// The work of the future that is being polled on this thread.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.get()
    }

    /// Runs a future as this work, unless it is a part of other work already.
    pub fn scope<F: Future + ?Sized>(self, future: Pin<&mut F>) -> impl Future<Output = F::Output> {
        polled(future, move |current| current.or(Some(self)))
    }

    /// Runs a future for which others wait, for instance because it holds a lock that they need: its requests pass at
    /// once, as a part of whatever work it belongs to.
    pub fn pressing<F: Future + ?Sized>(future: Pin<&mut F>) -> impl Future<Output = F::Output> {
        Self::pressing_if(|| true, future)
    }

    /// As [`pressing`](Self::pressing), as long as others wait.
    pub fn pressing_if<F: Future + ?Sized>(
        others_wait: impl Fn() -> bool,
        future: Pin<&mut F>,
    ) -> impl Future<Output = F::Output> {
        let pressed = move |work: Self| Self { pressing: work.pressing || others_wait(), ..work };
        polled(future, move |current| current.map(&pressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yielding::yield_now;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// Polls once.
    fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    async fn current() -> Option<Work> {
        Work::current()
    }

    #[test]
    fn work_is_known_while_its_future_is_polled_and_not_in_between() {
        let reading = Work::new(WorkKind::RandomRead, 7);
        let twice = pin!(async {
            let before = Work::current();
            yield_now().await;
            (before, Work::current())
        });
        let mut scoped = pin!(reading.scope(twice));
        assert!(poll(scoped.as_mut()).is_pending());
        assert_eq!(Work::current(), None);
        assert_eq!(poll(scoped), Poll::Ready((Some(reading), Some(reading))));
        assert_eq!(Work::current(), None);
    }

    #[test]
    fn a_part_of_other_work_belongs_to_that_and_may_be_pressing() {
        let (outer, inner) = (Work::new(WorkKind::Collection, 1), Work::new(WorkKind::Ingest, 2));
        let within = pin!(async { (inner.scope(pin!(current())).await, Work::pressing(pin!(current())).await) });
        let pressing = Work { pressing: true, ..outer };
        assert_eq!(poll(pin!(outer.scope(within))), Poll::Ready((Some(outer), Some(pressing))));
        assert_eq!(poll(pin!(Work::pressing(pin!(current())))), Poll::Ready(None));
    }
}

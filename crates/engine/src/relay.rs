//! A relay to an index of fingerprints on another thread: look-ups wait for the flash and take CPU time, which
//! insertion needs.

use crate::fingerprints::{ContentPlace, FingerprintIndex};
use event_listener::{Event, listener};
use futures_channel::oneshot;
use futures_util::future::{FutureExt, LocalBoxFuture, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use nitro_units::Fingerprint;
use parking_lot::Mutex;
use std::mem::take;

/// Number of waiting notes from which on the other thread is woken for them.
const NOTES_MIN: usize = 64;
/// Maximum number of waiting notes; beyond it, insertion waits.
const NOTES_MAX: usize = 4096;

enum Request {
    Find(Fingerprint, oneshot::Sender<Option<ContentPlace>>),
    Note(Fingerprint, ContentPlace),
}

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    /// Notes that the index does not have yet.
    notes: usize,
    /// A thread serves the relay.
    is_served: bool,
}

/// The queue of requests to an index on another thread. While no thread serves it, look-ups find nothing, and notes are
/// dropped.
#[derive(Default)]
pub struct IndexRelay {
    state: Mutex<State>,
    asked: Event,
    noted: Event,
}

impl IndexRelay {
    fn push(&self, request: Request) {
        let notes = {
            let state = &mut *self.state.lock();
            if !state.is_served {
                return;
            }
            let is_note = matches!(request, Request::Note(..));
            state.notes += usize::from(is_note);
            state.requests.push(request);
            is_note.then_some(state.notes)
        };
        // Waking is dear across threads: notes wait for the next look-up, or for others.
        if notes.is_none_or(|notes| notes.is_multiple_of(NOTES_MIN)) {
            self.wake();
        }
    }

    /// Passes the requests to `index`, as long as it is polled; look-ups run concurrently.
    pub async fn serve(&self, index: &impl FingerprintIndex) {
        let _serving = Serving::new(self);
        let mut under_way: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        loop {
            listener!(self.asked => asked);
            let requests = take(&mut self.state.lock().requests);
            let was_asked = !requests.is_empty();
            for request in requests {
                let mut answer: LocalBoxFuture<'_, ()> = Box::pin(self.answer(request, index));
                if answer.as_mut().now_or_never().is_none() {
                    under_way.push(answer);
                }
            }
            while under_way.next().now_or_never().flatten().is_some() {}
            if was_asked {
                continue;
            }
            if under_way.is_empty() {
                asked.await;
            } else {
                let _ = select(asked, under_way.next()).await;
            }
        }
    }

    async fn answer(&self, request: Request, index: &impl FingerprintIndex) {
        match request {
            // Whoever asked may be gone.
            Request::Find(fingerprint, answer) => drop(answer.send(index.find(&fingerprint).await)),
            Request::Note(fingerprint, place) => {
                index.note(&fingerprint, place).await;
                let left = {
                    let state = &mut *self.state.lock();
                    state.notes -= 1;
                    state.notes
                };
                if left == 0 || left == NOTES_MAX / 2 {
                    self.noted.notify(usize::MAX);
                }
            }
        }
    }

    /// Lets waiting notes be processed.
    pub fn wake(&self) {
        self.asked.notify(usize::MAX);
    }

    /// Waits until the index has all notes; [`serve`](Self::serve) must be polled meanwhile.
    pub async fn settled(&self) {
        self.wake();
        self.wait_for(0).await;
    }

    /// Waits until at most `notes_max` notes wait.
    async fn wait_for(&self, notes_max: usize) {
        loop {
            listener!(self.noted => noted);
            if self.state.lock().notes <= notes_max {
                return;
            }
            noted.await;
        }
    }
}

/// The serving side; when it is dropped, waiting callers are released.
struct Serving<'a>(&'a IndexRelay);

impl<'a> Serving<'a> {
    fn new(relay: &'a IndexRelay) -> Self {
        relay.state.lock().is_served = true;
        Self(relay)
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let unanswered = take(&mut *self.0.state.lock());
        drop(unanswered);
        self.0.noted.notify(usize::MAX);
    }
}

impl FingerprintIndex for IndexRelay {
    async fn find(&self, fingerprint: &Fingerprint) -> Option<ContentPlace> {
        let (answer, answered) = oneshot::channel();
        self.push(Request::Find(*fingerprint, answer));
        // Of an index that is gone nothing is known.
        answered.await.ok().flatten()
    }

    async fn note(&self, fingerprint: &Fingerprint, place: ContentPlace) {
        if self.state.lock().notes >= NOTES_MAX {
            self.wake();
            self.wait_for(NOTES_MAX / 2).await;
        }
        self.push(Request::Note(*fingerprint, place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::{join, join_all};
    use nitro_device::{Reactor, spawn_thread};
    use nitro_units::{Generation, WeuId};
    use std::collections::HashMap;
    use std::sync::Arc;

    /// Knows what it is told, and answers late.
    #[derive(Default)]
    struct Slow(Mutex<HashMap<Fingerprint, ContentPlace>>);

    impl FingerprintIndex for Slow {
        async fn find(&self, fingerprint: &Fingerprint) -> Option<ContentPlace> {
            nitro_port::yielding::yield_now().await;
            self.0.lock().get(fingerprint).copied()
        }

        async fn note(&self, fingerprint: &Fingerprint, place: ContentPlace) {
            nitro_port::yielding::yield_now().await;
            self.0.lock().insert(*fingerprint, place);
        }
    }

    fn fingerprint(n: u32) -> Fingerprint {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&n.to_le_bytes());
        Fingerprint(bytes)
    }

    #[test]
    fn another_thread_is_told_everything_and_answers_everything() {
        let relay = Arc::new(IndexRelay::default());
        let (theirs, (stop, stopped)) = (Arc::clone(&relay), oneshot::channel::<()>());
        let (start, started) = oneshot::channel();
        let index = spawn_thread("index", move || async move {
            let index = Slow::default();
            let serving = join(theirs.serve(&index), async { start.send(()).unwrap() });
            select(Box::pin(serving), stopped).await;
            index.0.into_inner().len()
        })
        .unwrap();
        let place = |n| ContentPlace::new(WeuId(n), 0, Generation(1), 0);
        Reactor::new().unwrap().block_on(async {
            started.await.unwrap();
            let count = 3 * NOTES_MAX as u32;
            for n in 0..count {
                relay.note(&fingerprint(n), place(n)).await;
            }
            relay.settled().await;
            let known = join_all((0..count).map(async |n| relay.find(&fingerprint(n)).await)).await;
            assert!((0..).zip(known).all(|(n, found)| found == Some(place(n))));
            assert_eq!(relay.find(&fingerprint(count)).await, None);
            stop.send(()).unwrap();
            assert_eq!(index.join().unwrap(), count as usize);
            // Nobody is there any more.
            relay.note(&fingerprint(0), place(0)).await;
            relay.settled().await;
            assert_eq!(relay.find(&fingerprint(0)).await, None);
        });
    }
}

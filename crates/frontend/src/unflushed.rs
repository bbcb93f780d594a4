//! Acknowledged writes that a crash of the process would lose.

use parking_lot::Mutex;
use std::fmt;

/// Stores a value where it survives the process.
type Store<E> = Box<dyn Fn(u64) -> Result<(), E> + Send + Sync>;

/// Records whether there are acknowledged writes that a crash of the process would lose: one word, which is 0 if there are none.
pub struct Unflushed<E> {
    store: Option<Store<E>>,
    /// Number of such writes so far.
    acknowledged: Mutex<u64>,
}

impl<E> Unflushed<E> {
    /// The record in the word that `store` stores. It must be 0, unless the last process lost writes.
    pub fn new(store: impl Fn(u64) -> Result<(), E> + Send + Sync + 'static) -> Self {
        Self { store: Some(Box::new(store)), acknowledged: Mutex::default() }
    }

    /// Notes that a write is about to be acknowledged that is not durable.
    ///
    /// # Errors
    /// The word cannot be stored.
    pub fn note(&self) -> Result<(), E> {
        let mut acknowledged = self.acknowledged.lock();
        *acknowledged += 1;
        self.store(1)
    }

    /// Notes the beginning of a flush; the result is passed to [`flushed`](Self::flushed).
    #[must_use]
    pub fn mark(&self) -> u64 {
        *self.acknowledged.lock()
    }

    /// Notes the success of the flush that began at `mark`.
    ///
    /// # Errors
    /// The word cannot be stored.
    pub fn flushed(&self, mark: u64) -> Result<(), E> {
        let acknowledged = self.acknowledged.lock();
        if *acknowledged == mark { self.store(0) } else { Ok(()) }
    }

    fn store(&self, value: u64) -> Result<(), E> {
        self.store.as_ref().map_or(Ok(()), |store| store(value))
    }
}

/// Without a word that survives the process.
impl<E> Default for Unflushed<E> {
    fn default() -> Self {
        Self { store: None, acknowledged: Mutex::default() }
    }
}

impl<E> fmt::Debug for Unflushed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unflushed").field("acknowledged", &self.acknowledged).finish_non_exhaustive()
    }
}

//! Streams that are being imported: no object refers to their chunks yet, so a collection takes these references for
//! those of an object.
//!
//! A reference is in a part that was stored, or in the builder of the recipe. It gets there, and from one to the other,
//! while `mutating` is held in shared mode: a collection, which begins to mark while nobody holds it, finds it in one of
//! both.

use crate::Error;
use crate::format::node::Entry;
use crate::format::record::Root;
use crate::object::Change;
use crate::tree::StreamBuilder;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// The references of all streams that are being imported.
#[derive(Clone, Default)]
pub(crate) struct Unfinished(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    next: u64,
    /// Chunks that are in no recipe yet, and the newest container before they were stored.
    parts: HashMap<u64, (Arc<[Entry]>, u64)>,
    /// Missing while it is changed, and after a failure.
    builders: HashMap<u64, StreamBuilder>,
}

/// A part or a stream, whose references are kept as long as this exists.
pub(crate) struct Kept {
    all: Unfinished,
    number: u64,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.number)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut held = self.all.0.lock();
        held.parts.remove(&self.number);
        held.builders.remove(&self.number);
    }
}

impl Unfinished {
    /// Adds chunks that were stored; `since` is the newest container before that.
    pub(crate) fn add_part(&self, entries: Arc<[Entry]>, since: u64) -> Kept {
        self.add(|held, number| drop(held.parts.insert(number, (entries, since))))
    }

    /// Adds a stream without chunks.
    pub(crate) fn add_stream(&self) -> Kept {
        self.add(|held, number| drop(held.builders.insert(number, StreamBuilder::default())))
    }

    fn add(&self, add: impl FnOnce(&mut Held, u64)) -> Kept {
        let mut held = self.0.lock();
        let number = held.next;
        held.next += 1;
        add(&mut held, number);
        Kept { all: self.clone(), number }
    }

    /// The chunks that streams refer to, and the recipes of parts of them.
    pub(crate) fn references(&self) -> (Vec<Change>, Vec<Root>) {
        let held = self.0.lock();
        let of_part = |(entries, since): &(Arc<[Entry]>, u64)| {
            let since = *since;
            let change = move |entry: &Entry| Change { reference: Some(entry.reference), since };
            entries.iter().map(change).collect::<Vec<_>>()
        };
        let mut chunks: Vec<Change> = held.parts.values().flat_map(of_part).collect();
        let mut roots = Vec::new();
        held.builders.values().for_each(|builder| builder.references(&mut chunks, &mut roots));
        (chunks, roots)
    }
}

impl Kept {
    /// Takes the stream's builder, to change it; `mutating` is held until it is put back.
    ///
    /// # Errors
    /// An earlier change has failed.
    pub(crate) fn take(&self) -> Result<StreamBuilder, Error> {
        let builder = self.all.0.lock().builders.remove(&self.number);
        builder.ok_or(Error::Busy("an earlier part of the stream could not be stored"))
    }

    /// Puts it back.
    pub(crate) fn put(&self, builder: StreamBuilder) {
        self.all.0.lock().builders.insert(self.number, builder);
    }
}

//! Doubts: the extents whose cached contents may be outdated if the program is killed, recorded in memory that survives
//! the program.
//!
//! A write to the origin makes the cached content of its extents void, but the journal records this only with the next
//! commit. Until then the extents are *doubtful*. Before the origin is written to, they are entered in one of two
//! tables (bits, by the hash of the extent's key). `Cache::settle_doubts` switches to the other table, enters there
//! the extents that are still being written, writes the journal, and only then clears the first table. Therefore the
//! journal is correct for an extent that is in neither table.
//!
//! After a kill, all writes are still there, and a restart distrusts the extents in the tables. After a power cut, the
//! tables are not used, and a restart distrusts all extents of the write-intent regions that are open in the journal
//! (`volume/regions.rs`). An origin that loses unflushed writes when the program is killed
//! ([`Origin::keeps_writes`](nitro_port::Origin::keeps_writes)) has lost power as far as its extents are concerned: a
//! mark of its object stays in the tables.
//!
//! The memory also bears witness of what was flushed: a batch of the journal, or of the write log, that cannot be read at a
//! restart had been durable if the memory says so, and is damaged; otherwise it may have been cut off by the kill.

use crate::format::superblock::{IDENTITY_BYTES, Superblock};
use crate::journal::Witness;
use nitro_units::{ExtentIndex, ExtentKey, ExtentRange, ObjectId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that survives the program, but not necessarily a restart of the machine: shared memory, or a mapped file.
#[derive(Clone, Copy)]
pub struct CrashMemory {
    /// Zeroes, or the content from an earlier start of the cache; at least [`WORDS_MIN`](Self::WORDS_MIN) words. Only
    /// this cache may use it.
    pub words: &'static [AtomicU64],
    /// Identifies the state of the machine. It may be equal in two starts only if all writes of the earlier start to
    /// the cache device, to `words`, and to the origins that keep writes, flushed or not, are still there in the later
    /// one.
    pub identity: [u8; IDENTITY_BYTES],
}

impl CrashMemory {
    /// The least number of words.
    pub const WORDS_MIN: usize = HEADER_WORDS + 2;

    /// Bytes of the memory.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }
}

impl PartialEq for CrashMemory {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.words, other.words) && self.identity == other.identity
    }
}

impl fmt::Debug for CrashMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashMemory").field("words", &self.words.len()).finish_non_exhaustive()
    }
}

const MAGIC: u64 = u64::from_le_bytes(*b"NITRODB2");
/// Magic, UUID, epoch, start; a word for each table: not zero if all extents are doubtful; what was flushed.
const HEADER_WORDS: usize = 16;
const START_WORD: usize = 4;
const ALL_WORDS: [usize; 2] = [5, 6];
/// A [`Witness`] of the journal.
const JOURNAL_WORD: usize = 7;
/// The sequence of the next batch of the write log; 0: not known.
const LOG_WORD: usize = 8;
/// A write of more extents than this makes all extents doubtful.
const EXTENTS_MAX: u64 = 1 << 16;

/// The entry of a whole object, of which no extent of an open region is to be trusted after a kill.
const fn whole(object: ObjectId) -> ExtentKey {
    ExtentKey::new(object, ExtentIndex::MAX)
}

/// The two tables.
#[derive(Clone, Copy)]
struct Tables {
    words: &'static [AtomicU64],
}

impl Tables {
    fn new(memory: CrashMemory) -> Option<Self> {
        (memory.words.len() >= CrashMemory::WORDS_MIN).then_some(Self { words: memory.words })
    }

    fn header(superblock: &Superblock) -> [u64; 5] {
        let [a, b] = [0, 8].map(|at| superblock.uuid[at..].first_chunk().map_or(0, |half| u64::from_le_bytes(*half)));
        [MAGIC, a, b, superblock.epoch, superblock.start.into()]
    }

    fn table(&self, number: usize) -> &'static [AtomicU64] {
        let len = (self.words.len() - HEADER_WORDS) / 2;
        &self.words[HEADER_WORDS + number * len..][..len]
    }

    /// The word and the bit of an extent.
    fn place(&self, number: usize, key: ExtentKey) -> (&'static AtomicU64, u64) {
        let table = self.table(number);
        let mixed = (key.raw() ^ key.raw() >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let bit = (u128::from(hash) * (table.len() as u128 * 64)) >> 64;
        (&table[(bit / 64) as usize], 1 << (bit % 64))
    }

    fn enter(&self, number: usize, object: ObjectId, extents: ExtentRange) {
        if extents.count() > EXTENTS_MAX {
            self.words[ALL_WORDS[number]].store(1, Ordering::SeqCst);
            return;
        }
        extents.iter().for_each(|index| self.set(number, ExtentKey::new(object, index)));
    }

    fn set(&self, number: usize, key: ExtentKey) {
        let (word, bit) = self.place(number, key);
        if word.load(Ordering::SeqCst) & bit == 0 {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    fn contains(&self, number: usize, key: ExtentKey) -> bool {
        let is_set = |key| {
            let (word, bit) = self.place(number, key);
            word.load(Ordering::SeqCst) & bit != 0
        };
        self.words[ALL_WORDS[number]].load(Ordering::SeqCst) != 0 || is_set(key) || is_set(whole(key.object()))
    }

    fn clear(&self, number: usize) {
        for word in self.table(number).iter().chain([&self.words[ALL_WORDS[number]]]) {
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::SeqCst);
            }
        }
    }

    /// Adds the bits of the second table to the first.
    fn merge(&self) {
        for (into, from) in self.table(0).iter().zip(self.table(1)) {
            into.fetch_or(from.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        let [into, from] = ALL_WORDS.map(|at| &self.words[at]);
        into.fetch_or(from.load(Ordering::SeqCst), Ordering::SeqCst);
        self.clear(1);
    }
}

/// What was flushed when the program was killed. Torn and rotten batches look alike, but for this.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Witnessed {
    /// How far the journal was flushed.
    pub(crate) journal: Option<Witness>,
    /// The batches of the write log before this sequence were durable; 0: none is known to have been.
    pub(crate) log_end: u64,
}

/// The doubts of the start before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// There are none: the cache is new, or no write-intent region is open.
    Nothing,
    /// They are in the memory.
    Outlived,
    /// They are lost: all extents of open write-intent regions are doubtful.
    Lost,
}

/// A write in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DoubtId(u64);

#[derive(Default)]
struct State {
    /// The table that is being filled.
    current: usize,
    /// The other table is not empty.
    other_holds: bool,
    /// Extents were entered, or a write has ended, since the tables were switched.
    news: bool,
    next: u64,
    under_way: BTreeMap<u64, (ObjectId, ExtentRange)>,
    /// Objects whose origins lose unflushed writes with the program.
    forgetful: BTreeSet<ObjectId>,
}

/// The doubts of a cache; without [`CrashMemory`], none are kept.
#[derive(Default)]
pub(crate) struct Doubts {
    tables: Option<Tables>,
    state: Mutex<State>,
}

impl Doubts {
    pub(crate) fn new(memory: Option<CrashMemory>) -> Self {
        Self { tables: memory.and_then(Tables::new), ..Self::default() }
    }

    /// The doubts of the last start: whether the memory is that of the start that wrote this superblock, and no writes
    /// were lost since.
    pub(crate) fn outlived(memory: Option<CrashMemory>, superblock: &Superblock) -> bool {
        let Some((memory, tables)) = memory.and_then(|memory| Some((memory, Tables::new(memory)?))) else {
            return false;
        };
        let found = tables.words.iter().map(|word| word.load(Ordering::SeqCst));
        memory.identity != [0; IDENTITY_BYTES]
            && memory.identity == superblock.identity
            && found.zip(Tables::header(superblock)).all(|(found, expected)| found == expected)
    }

    /// What the last start had flushed: to be called with a memory that has [outlived](Self::outlived) it.
    pub(crate) fn witnessed(memory: Option<CrashMemory>) -> Witnessed {
        let Some(tables) = memory.and_then(Tables::new) else { return Witnessed::default() };
        let [journal, log_end] = [JOURNAL_WORD, LOG_WORD].map(|at| tables.words[at].load(Ordering::SeqCst));
        Witnessed { journal: Some(Witness(journal)).filter(|witness| witness.0 > 0), log_end }
    }

    /// Notes how far the journal was flushed, before anybody is told.
    pub(crate) fn note_flushed(&self, witness: Witness) {
        if let Some(tables) = self.tables {
            tables.words[JOURNAL_WORD].store(witness.0, Ordering::SeqCst);
        }
    }

    /// Notes that the batches of the write log before a sequence are durable, before anybody is told.
    pub(crate) fn note_logged(&self, end: u64) {
        if let Some(tables) = self.tables {
            tables.words[LOG_WORD].store(end, Ordering::SeqCst);
        }
    }

    /// Begins to record the doubts of the start that has written `superblock`. The doubts of the previous start remain
    /// until this start's journal has a record of their result.
    pub(crate) fn begin(&self, superblock: &Superblock, before: Before) {
        let Some(tables) = self.tables else { return };
        // Until the header is complete, no start believes the memory.
        tables.words[START_WORD].store(0, Ordering::SeqCst);
        match before {
            Before::Outlived => tables.merge(),
            Before::Lost | Before::Nothing => {
                tables.clear(0);
                tables.clear(1);
                // Nothing is known of what was flushed before. After a kill, that stays true for this start.
                [JOURNAL_WORD, LOG_WORD].iter().for_each(|at| tables.words[*at].store(0, Ordering::SeqCst));
            }
        }
        if before == Before::Lost {
            // If this start is killed before it has read all entries, the next one must not find an empty memory that it believes.
            tables.words[ALL_WORDS[0]].store(1, Ordering::SeqCst);
        }
        for (word, value) in tables.words.iter().zip(Tables::header(superblock)) {
            word.store(value, Ordering::SeqCst);
        }
        *self.state.lock() = State { current: 1, other_holds: true, ..State::default() };
    }

    /// During a restart: whether the last start left an extent of an open region doubtful.
    pub(crate) fn contain(&self, key: ExtentKey) -> bool {
        self.tables.is_none_or(|tables| tables.contains(0, key))
    }

    /// Notes that the origin of an object loses unflushed writes if the program is killed: no extent of its open
    /// write-intent regions is trusted then.
    pub(crate) fn note_forgetful(&self, object: ObjectId) {
        let Some(tables) = self.tables else { return };
        let current = {
            let mut state = self.state.lock();
            state.forgetful.insert(object);
            state.current
        };
        tables.set(current, whole(object));
    }

    /// Notes that some extents are about to change at the origin. They are doubtful until [`leave`](Self::leave).
    pub(crate) fn enter(&self, object: ObjectId, extents: ExtentRange) -> Option<DoubtId> {
        let tables = self.tables?;
        let (id, current) = {
            let mut state = self.state.lock();
            state.next += 1;
            state.news = true;
            let id = state.next;
            state.under_way.insert(id, (object, extents));
            (id, state.current)
        };
        // Should the tables change places just now, this is repeated in the other one.
        tables.enter(current, object, extents);
        Some(DoubtId(id))
    }

    /// Notes that the change has ended, and that the cached content of the extents was dropped.
    pub(crate) fn leave(&self, id: DoubtId) {
        let mut state = self.state.lock();
        state.under_way.remove(&id.0);
        state.news = true;
    }

    /// Switches the tables, unless the other one is not empty or there is nothing to settle. Returns the table that may
    /// be cleared after a commit.
    pub(crate) fn turn(&self) -> Option<usize> {
        let tables = self.tables?;
        let (current, under_way, forgetful) = {
            let mut state = self.state.lock();
            if state.other_holds {
                return Some(1 - state.current);
            }
            if !state.news {
                return None;
            }
            state.current = 1 - state.current;
            (state.other_holds, state.news) = (true, false);
            (state.current, state.under_way.values().copied().collect::<Vec<_>>(), state.forgetful.clone())
        };
        forgetful.into_iter().for_each(|object| tables.set(current, whole(object)));
        for (object, extents) in under_way {
            tables.enter(current, object, extents);
        }
        Some(1 - current)
    }

    /// Clears a table whose extents the journal is correct for.
    pub(crate) fn clear(&self, table: usize) {
        if let Some(tables) = self.tables {
            tables.clear(table);
            self.state.lock().other_holds = false;
        }
    }

    /// Whether there is anything to settle.
    pub(crate) fn has_news(&self) -> bool {
        let state = self.state.lock();
        self.tables.is_some() && (state.news || state.other_holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Area;
    use nitro_units::ExtentIndex;

    #[test]
    fn what_a_start_finds_doubtful_depends_on_what_became_of_the_one_before() {
        let words: &'static [AtomicU64] = Vec::leak((0..1024).map(|_| AtomicU64::new(0)).collect());
        let memory = Some(CrashMemory { words, identity: [1; IDENTITY_BYTES] });
        let superblock = Superblock {
            extent_bytes: 8192,
            weu_bytes: 2 << 20,
            weu_count: 8,
            data_offset: 2 << 20,
            uuid: [2; 16],
            epoch: 3,
            journal: Area { offset: 1 << 20, len: 1 << 20 },
            start: 0,
            fingerprints: None,
            logged: false,
            index: None,
            place: crate::format::superblock::DevicePlace::ONLY,
            identity: [1; IDENTITY_BYTES],
        };
        let later = Superblock { start: 1, ..superblock };
        let key = |extent| ExtentKey::new(ObjectId(1), ExtentIndex(extent));

        // A new cache that is killed before anything was settled has only its own doubts.
        let doubts = Doubts::new(memory);
        doubts.begin(&superblock, Before::Nothing);
        assert!(doubts.enter(ObjectId(1), ExtentRange::one(ExtentIndex(5))).is_some());
        assert!(Doubts::outlived(memory, &superblock) && !Doubts::outlived(memory, &later));
        let doubts = Doubts::new(memory);
        doubts.begin(&later, Before::Outlived);
        assert!(doubts.contain(key(5)) && !doubts.contain(key(6)));

        // All extents of a forgetful object stay doubtful, and those of another one do not.
        let doubts = Doubts::new(memory);
        doubts.begin(&superblock, Before::Nothing);
        doubts.note_forgetful(ObjectId(1));
        for _ in 0..3 {
            let current = doubts.state.lock().current;
            doubts.clear(1 - current);
            assert!(doubts.enter(ObjectId(2), ExtentRange::one(ExtentIndex(5))).is_some());
            assert!(doubts.turn().is_some());
        }
        let again = Doubts::new(memory);
        again.begin(&later, Before::Outlived);
        assert!(again.contain(key(6)) && !again.contain(ExtentKey::new(ObjectId(2), ExtentIndex(6))));

        // A start that knows nothing of the one before doubts all, and so does the next, unless this is settled.
        let doubts = Doubts::new(memory);
        doubts.begin(&superblock, Before::Lost);
        assert!(doubts.contain(key(6)));
        let again = Doubts::new(memory);
        again.begin(&later, Before::Outlived);
        assert!(again.contain(key(6)));
        again.clear(0);
        assert!(!again.contain(key(6)));
    }
}

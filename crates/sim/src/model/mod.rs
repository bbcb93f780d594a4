//! The caches that are simulated.

mod allowance;
mod flash;
mod places;
mod plain;
mod sets;
mod staged;
mod weu;

pub(crate) use flash::Flash;
pub(crate) use plain::{Foretold, capacity};
pub(crate) use sets::check as check_ways;

use crate::Error;
use crate::settings::{Settings, Variant};
use crate::workload::Piece;
use nitro_cache::destage::{DirtyUse, Watermarks};
use nitro_cache::{CacheManager, Missed, Stats};
use nitro_model::{Counters, Nanos};
use nitro_units::{ClassId, ExtentKey};

/// What a cache has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) cache: Stats,
    pub(crate) flash: Counters,
}

/// An extent that was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hit {
    /// When its bytes are there.
    pub(crate) done: Nanos,
    /// It was stored compressed.
    pub(crate) compressed: bool,
    /// It waits in RAM for its place on the SSD.
    pub(crate) staged: bool,
}

/// A cache, told of one piece at a time.
pub(crate) trait Model {
    /// Reads ahead what will be needed for some pieces. Changes nothing.
    fn warm(&self, _pieces: &[Piece]) {}

    /// Sets the time of what follows.
    fn set_now(&mut self, _now: Nanos) {}

    /// Looks an extent up for a read.
    fn read(&mut self, piece: &Piece) -> Result<Option<Hit>, Error>;

    /// Looks up the content of an extent that was not found, for a read: somebody else may have brought it. `enters`: the cache has it
    /// under this name, too, from then on.
    fn read_by_content(&mut self, _piece: &Piece, _enters: bool) -> Result<Option<Hit>, Error> {
        Ok(None)
    }

    /// All that a request brought has been inserted.
    fn request_inserted(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// An extent was read that RAM in front of the cache has.
    fn note_read_in_front(&mut self) {}

    /// Whether an extent is there, of caches on an SSD. Changes nothing.
    fn has(&self, _key: ExtentKey) -> bool {
        false
    }

    /// Counts an extent that a read looked for in vain, by why it is not cached, if that is known.
    fn note_missed(&self, _piece: &Piece, _in_stream: bool, _missed: &mut Missed) {}

    /// Inserts an extent: after a miss, or after [`forget`](Self::forget) because it was written. Returns whether its content
    /// was there already.
    fn insert(&mut self, piece: &Piece) -> Result<bool, Error>;

    /// As [`insert`](Self::insert), of an extent of which a part was written and the rest is read from the SSD.
    fn insert_merged(&mut self, piece: &Piece) -> Result<bool, Error> {
        self.insert(piece)
    }

    /// Forgets an extent, since it is being written or trimmed; returns whether it was there.
    fn forget(&mut self, piece: &Piece) -> Result<bool, Error>;

    /// Whether an extent waits in RAM for its place on the SSD.
    fn is_staged(&self, _key: ExtentKey) -> bool {
        false
    }

    /// Where dirty extents stay in write-back; `None`: the cache does not tell them from clean ones.
    fn dirty_units(&mut self) -> Option<&mut dyn DirtyUnits> {
        None
    }

    /// The trace is over: what waits in RAM goes on to the SSD.
    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// What it has done, and has.
    fn totals(&self) -> Totals;

    /// Extents that it has, by the class that brought them; `None`: it does not keep classes.
    fn cached_by_class(&self) -> Option<[u64; ClassId::COUNT]> {
        None
    }

    /// RAM of its indexes in bytes. May take long.
    fn ram_bytes(&self) -> u64;

    /// Bytes of a page of its SSD; 0 if there is none.
    fn page_bytes(&self) -> u32;

    /// Bytes of the SSD that it uses.
    fn usable_bytes(&self) -> u64;
}

/// Write-evict units of dirty extents, which are not evicted before the origin has what they hold.
pub(crate) trait DirtyUnits {
    /// Takes what is written at second `now`; returns whether its content was there already. `None`: there is no room.
    fn insert_dirty(&mut self, piece: &Piece, now: u32, marks: &Watermarks) -> Result<Option<bool>, Error>;

    /// Makes durable what is dirty: what it took the place of may be evicted. `fills_blocks`: the SSD gets whole blocks, so that what
    /// comes next begins a new one.
    fn commit(&mut self, fills_blocks: bool);

    /// How much is dirty, of how much.
    fn used(&self) -> DirtyUse;

    /// Who keeps them.
    fn manager(&mut self) -> &mut CacheManager;
}

/// The cache for `settings`. [`Variant::Belady`] needs to know the future: it is [`Foretold`].
pub(crate) fn build(settings: &Settings) -> Result<Box<dyn Model>, Error> {
    settings.check()?;
    Ok(match settings.variant {
        Variant::Weu | Variant::WeuLruMod | Variant::WeuLruTrim => Box::new(weu::Weus::new(settings)?),
        Variant::Extent { ways: 0 } | Variant::ExtentLruMod | Variant::ExtentLruTrim | Variant::Naive => {
            Box::new(places::Places::new(settings)?)
        }
        Variant::Extent { ways } => Box::new(sets::Sets::new(settings, ways)?),
        Variant::Policy(kind) => Box::new(plain::Plain::new(settings, kind)),
        Variant::Belady | Variant::None => Box::new(Foretold::new(Vec::new(), settings.cache_bytes)),
    })
}

//! The caches that can be simulated.

mod allowance;
mod buffered;
mod door;
mod flash;
mod ordered;
mod places;
mod plain;
mod sets;
mod staged;
mod weu;

pub(crate) use flash::Flash;
pub(crate) use plain::{Foretold, capacity, is_request};
pub(crate) use sets::check as check_ways;

use crate::Error;
use crate::settings::{Settings, Variant};
use crate::workload::Piece;
use nitro_cache::class::Band;
use nitro_cache::destage::{DirtyUse, Watermarks};
use nitro_cache::{CacheManager, Missed, Stats};
use nitro_model::{Counters, Nanos};
use nitro_units::{ClassId, ExtentKey};

/// The totals of a cache so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) cache: Stats,
    pub(crate) flash: Counters,
}

/// Extents that evictions dropped, by the class that inserted them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Dropped {
    /// All.
    pub(crate) all: [u64; ClassId::COUNT],
    /// Those that were dropped although a unit that could have been evicted held extents of a lower band.
    pub(crate) early: [u64; ClassId::COUNT],
}

/// An extent that was found in the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hit {
    /// The time when its bytes have been read.
    pub(crate) done: Nanos,
    /// Whether it was stored compressed.
    pub(crate) compressed: bool,
    /// It waits in RAM for its place on the SSD.
    pub(crate) staged: bool,
}

/// A cache that processes one piece at a time.
pub(crate) trait Model {
    /// Prefetches memory that the next pieces need. Changes nothing.
    fn warm(&self, _pieces: &[Piece]) {}

    /// Sets the time of the calls that follow.
    fn set_now(&mut self, _now: Nanos) {}

    /// Looks up an extent for a read.
    fn read(&mut self, piece: &Piece) -> Result<Option<Hit>, Error>;

    /// Looks up the content of an extent that was not found by its key.
    fn read_by_content(&mut self, _piece: &Piece) -> Result<Option<Hit>, Error> {
        Ok(None)
    }

    /// Notes the end of a request.
    fn request_arrived(&mut self) {}

    /// Inserts the extents of all requests so far, except those that stay staged.
    fn request_inserted(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Notes a read of an extent that the RAM in front of the cache served.
    fn note_read_in_front(&mut self) {}

    /// Whether an extent is cached, for caches on an SSD. Changes nothing.
    fn has(&self, _key: ExtentKey) -> bool {
        false
    }

    /// The priority of an extent in the RAM in front of the cache.
    fn band_of(&self, _key: ExtentKey) -> Band {
        Band::default()
    }

    /// Counts an extent that was missed by a read, by the reason why it is not cached, if this is known.
    fn note_missed(&self, _piece: &Piece, _in_stream: bool, _missed: &mut Missed) {}

    /// Inserts an extent after a miss, or after [`forget`](Self::forget) because it was written. Returns whether its
    /// content was cached already.
    fn insert(&mut self, piece: &Piece) -> Result<bool, Error>;

    /// As [`insert`](Self::insert), for an extent of which a part was written, and the rest is on the SSD.
    fn insert_merged(&mut self, piece: &Piece) -> Result<bool, Error> {
        self.insert(piece)
    }

    /// Drops an extent that is being written or trimmed; returns whether it was cached.
    fn forget(&mut self, piece: &Piece) -> Result<bool, Error>;

    /// Whether an extent that is not cached, and of which a part is written, is worth a read of its rest.
    fn is_worth_fetching(&self, _key: ExtentKey) -> bool {
        false
    }

    /// Whether an extent is staged: it waits in RAM before it is packed.
    fn is_staged(&self, _key: ExtentKey) -> bool {
        false
    }

    /// Whether an extent is staged; if so, notes a further use.
    fn use_staged(&mut self, _key: ExtentKey) -> bool {
        false
    }

    /// Drops the staged content of an extent.
    fn drop_staged(&mut self, _key: ExtentKey) {}

    /// The write-back interface; `None` if the cache does not distinguish dirty from clean extents.
    fn dirty_units(&mut self) -> Option<&mut dyn DirtyUnits> {
        None
    }

    /// Moves extents that wait in RAM to the SSD, at the end of the trace.
    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// The totals so far.
    fn totals(&self) -> Totals;

    /// The number of cached extents by the class that inserted them; `None` if the cache does not record classes.
    fn cached_by_class(&self) -> Option<[u64; ClassId::COUNT]> {
        None
    }

    /// What evictions dropped since the last call; `None` if there were none, or the cache does not count them.
    fn take_evicted(&mut self) -> Option<Dropped> {
        None
    }

    /// RAM of the indexes in bytes, with the lists of staging. May take long.
    fn ram_bytes(&self) -> u64;

    /// RAM of the lists of staging in bytes.
    fn staging_ram_bytes(&self) -> u64 {
        0
    }

    /// The time in which the SSD has had requests, if timing is modelled.
    fn ssd_busy(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Bytes of a page of the SSD; 0 without an SSD.
    fn page_bytes(&self) -> u32;

    /// Bytes of the SSD that the cache uses.
    fn usable_bytes(&self) -> u64;
}

/// Write-evict units with dirty extents, which are not evicted before their extents are destaged.
pub(crate) trait DirtyUnits {
    /// Inserts an extent that is written at second `now`; returns whether its content was cached already. `None`: there
    /// is no room. `waiting`: the number of written extents that are to be inserted, with this one.
    fn insert_dirty(
        &mut self,
        piece: &Piece,
        now: u32,
        marks: &Watermarks,
        waiting: u64,
    ) -> Result<Option<bool>, Error>;

    /// Makes dirty data durable: units whose content was replaced may be evicted. With `fills_blocks`, the SSD is
    /// written in whole blocks, so the next extent starts a new block.
    fn commit(&mut self, fills_blocks: bool);

    /// The amount of dirty data, and its bounds.
    fn used(&self) -> DirtyUse;

    /// The cache manager that keeps the dirty extents.
    fn manager(&mut self) -> &mut CacheManager;
}

/// The cache for `settings`, except [`Variant::Belady`], which needs the future of the trace: see [`Foretold`].
pub(crate) fn build(settings: &Settings) -> Result<Box<dyn Model>, Error> {
    settings.check()?;
    Ok(match settings.variant {
        Variant::Weu | Variant::WeuLruMod | Variant::WeuLruTrim => Box::new(weu::Weus::new(settings)?),
        Variant::Extent { ways: 0 } | Variant::ExtentLruMod | Variant::ExtentLruTrim | Variant::Naive => {
            let places = places::Places::new(settings)?;
            match settings.staging_bytes {
                0 => Box::new(places),
                _ => Box::new(buffered::Buffered::new(places, settings)),
            }
        }
        Variant::Extent { ways } => Box::new(sets::Sets::new(settings, ways)?),
        Variant::Policy(kind) => Box::new(plain::Plain::new(settings, kind)),
        Variant::Ordered { by_band } => Box::new(ordered::Ordered::new(settings, by_band)),
        Variant::Belady | Variant::None => Box::new(Foretold::new(Vec::new(), settings)),
    })
}

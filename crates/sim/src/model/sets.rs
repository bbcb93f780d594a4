//! Extents in sets of a few places, chosen by the extent's address: direct-mapped and N-way caches.

use super::{Flash, Hit, Model, Totals};
use crate::Error;
use crate::settings::Settings;
use crate::workload::Piece;
use nitro_cache::Stats;
use nitro_model::Nanos;
use nitro_units::ExtentKey;

/// No extent: no key has all bits set, since objects are numbered from 0.
const NOTHING: u64 = u64::MAX;

/// The cache. Neighbouring extents fall into neighbouring sets, as in Azor.
pub(crate) struct Sets {
    /// Set by set: what each place holds, the one used last first.
    keys: Vec<u64>,
    /// Which place of the set on the SSD that is.
    places: Vec<u16>,
    ways: usize,
    sets: u64,
    cached: u64,
    flash: Flash,
    stats: Stats,
    extent_bytes: u32,
    usable_bytes: u64,
}

impl Sets {
    pub(crate) fn new(settings: &Settings, ways: u32) -> Result<Self, Error> {
        let (flash, usable_bytes) = Flash::new(settings)?;
        let all = usable_bytes / u64::from(settings.extent_bytes);
        let sets = all / u64::from(ways);
        if sets == 0 || ways > 1 << 12 {
            return Err(Error::setting(format!("{ways} ways: the cache has {all} extents; sets have at most 4096")));
        }
        let ways = ways as usize;
        Ok(Self {
            keys: vec![NOTHING; sets as usize * ways],
            places: (0..sets as usize * ways).map(|at| (at % ways) as u16).collect(),
            ways,
            sets,
            cached: 0,
            flash,
            stats: Stats::default(),
            extent_bytes: settings.extent_bytes,
            usable_bytes,
        })
    }

    /// Where the set of an extent begins, and how far down its order the extent is.
    fn find(&self, key: ExtentKey) -> (usize, Option<usize>) {
        // Objects begin at sets far from one another.
        let number = key.index().0.wrapping_add(u64::from(key.object().0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16);
        let set = (number % self.sets) as usize * self.ways;
        (set, self.keys[set..set + self.ways].iter().position(|held| *held == key.raw()))
    }

    /// Makes the extent that far down the order the first; returns its place on the SSD in bytes.
    fn refresh(&mut self, set: usize, rank: usize) -> u64 {
        self.keys[set..=set + rank].rotate_right(1);
        self.places[set..=set + rank].rotate_right(1);
        (set as u64 + u64::from(self.places[set])) * u64::from(self.extent_bytes)
    }
}

impl Model for Sets {
    fn set_now(&mut self, now: Nanos) {
        self.flash.now = now;
    }

    fn read(&mut self, piece: &Piece) -> Result<Option<Hit>, Error> {
        let (set, Some(rank)) = self.find(piece.key) else { return Ok(None) };
        let at = self.refresh(set, rank);
        let done = self.flash.read(at, self.extent_bytes.into())?;
        Ok(Some(Hit { done, compressed: false }))
    }

    fn insert(&mut self, piece: &Piece) -> Result<bool, Error> {
        let (set, rank) = self.find(piece.key);
        let rank = rank.unwrap_or(self.ways - 1);
        let at = self.refresh(set, rank);
        let old = std::mem::replace(&mut self.keys[set], piece.key.raw());
        self.stats.weus_evicted += u64::from(old != NOTHING && old != piece.key.raw());
        self.cached += u64::from(old == NOTHING);
        let bytes = u64::from(self.extent_bytes);
        self.stats.insertions += 1;
        self.stats.inserted_bytes += bytes;
        self.stats.unique_bytes += bytes;
        self.stats.stored_bytes += bytes;
        self.flash.write(at, bytes).map(|_| false)
    }

    /// The place becomes the next to be used.
    fn forget(&mut self, piece: &Piece) -> Result<bool, Error> {
        let (set, Some(rank)) = self.find(piece.key) else { return Ok(false) };
        self.keys[set + rank..set + self.ways].rotate_left(1);
        self.places[set + rank..set + self.ways].rotate_left(1);
        self.keys[set + self.ways - 1] = NOTHING;
        self.cached -= 1;
        self.stats.invalidations += 1;
        Ok(true)
    }

    fn totals(&self) -> Totals {
        Totals { cache: Stats { cached_extents: self.cached, ..self.stats }, flash: self.flash.counters() }
    }

    fn ram_bytes(&self) -> u64 {
        (self.keys.len() * size_of::<u64>() + self.places.len() * size_of::<u16>()) as u64
    }

    fn page_bytes(&self) -> u32 {
        self.flash.page_bytes()
    }

    fn usable_bytes(&self) -> u64 {
        self.usable_bytes
    }
}

//! Eviction by heat: units on probation, main units, and copying forward of extents that were used again (Kangaroo,
//! SOSP'21: readmission; S3-FIFO, SOSP'23: probation; RIPQ, FAST'15: units filled by priority). docs/PERFORMANCE.md has
//! measurements.

use super::duel::Duel;
use super::list::LruList;
use super::{Cooling, Eviction, Keep, LOOKED_AT_MAX, Units, Victim};
use crate::shelf::Lane;
use nitro_units::{ExtentKey, WeuId};

/// The fraction of the units that are on probation.
const PROBATION_PART: u32 = 20;
/// Number of uses on probation after which an extent is promoted to a main unit, if frequency is the better order. Uses
/// while it waited in RAM and while its unit was filled are not counted.
const PROMOTED: u8 = 1;
/// The same if recency is the better order, and for units with holes, which are evicted early.
const PROMOTED_EARLY: u8 = 2;
/// The victim is the coldest of this many main units, those that became candidates first.
const COMPARED: usize = 4;
/// Units in which at least this many of [`PARTS`] of the extents are overwritten are evicted before others.
const HOLES_MIN: u32 = 15;
const PARTS: u32 = 64;
/// In units with at most this fraction of live extents, only extents that were used again are copied forward.
const NEARLY_EMPTY_PART: u32 = 4;
/// Number of lists of such units, by their share of live extents.
const HOLEY: usize = 6;
/// Minimum number of units for copying forward: with fewer, open units take too large a share.
const UNITS_MIN: u32 = 16;

/// Evicts units with many holes first. Then, if frequency is the better order, the oldest unit on probation or the
/// coldest of the oldest main units; if recency is better, the unit with the oldest last hit.
#[derive(Debug)]
pub struct Heat {
    lanes: Vec<Lane>,
    /// For each unit, the number of extents that refer to it, and of those stored in it.
    live: Vec<(u32, u32)>,
    /// Candidates in the order in which they became candidates.
    probation: LruList,
    main: LruList,
    /// All candidates, by their last use.
    recent: LruList,
    /// Candidates with holes, those with the fewest live extents first.
    holey: [LruList; HOLEY],
    duel: Duel,
}

impl Heat {
    /// An order for `count` units of a cache of `extents` extents.
    #[must_use]
    pub fn new(count: u32, extents: u64, seed: u64) -> Self {
        Self {
            lanes: vec![Lane::Main; count as usize],
            live: vec![(0, 0); count as usize],
            probation: LruList::new(count),
            main: LruList::new(count),
            recent: LruList::new(count),
            holey: std::array::from_fn(|_| LruList::new(count)),
            duel: Duel::new(extents, seed),
        }
    }

    /// The maximum RAM in bytes for `count` units.
    #[must_use]
    pub const fn ram_bytes_max(count: u32) -> u64 {
        count as u64 * (8 + 1 + 8 * (3 + HOLEY as u64)) + Duel::ram_bytes_max()
    }

    fn queue(&mut self, weu: WeuId) -> &mut LruList {
        match self.lanes[weu.0 as usize] {
            Lane::Main => &mut self.main,
            Lane::Side | Lane::Dirty => &mut self.probation,
        }
    }

    /// The index of the list of units with holes to which a unit belongs, if any.
    fn level(&self, weu: WeuId) -> Option<usize> {
        let (live, entries) = self.live[weu.0 as usize];
        let left_max = entries.max(1) * (PARTS - HOLES_MIN);
        let left = live * PARTS;
        (left <= left_max).then(|| (left as usize * (HOLEY - 1)).div_ceil(left_max as usize))
    }

    fn note_holes(&mut self, weu: WeuId) {
        let level = self.level(weu);
        for (number, list) in self.holey.iter_mut().enumerate() {
            if Some(number) != level {
                list.remove(weu.0);
            } else if !list.contains(weu.0) {
                list.touch(weu.0);
            }
        }
    }

    fn count(&self) -> u32 {
        self.lanes.len() as u32
    }

    fn keep(&self, heat_min: u8, cooling: Cooling, main_min: u8) -> Keep {
        if self.count() < UNITS_MIN {
            return Keep::NOTHING;
        }
        Keep { heat_min, cooling, main_min }
    }

    /// Which extents of a unit with holes are copied forward.
    fn keep_of_holey(&self, weu: WeuId) -> Keep {
        let is_main = self.lanes[weu.0 as usize] == Lane::Main;
        let main_min = if is_main { 0 } else { PROMOTED_EARLY };
        let (live, entries) = self.live[weu.0 as usize];
        // To read a unit for a few extents that were not read again costs more than their hits are worth.
        let is_nearly_empty = live * NEARLY_EMPTY_PART <= entries;
        self.keep(u8::from(!is_main || self.duel.is_recency() || is_nearly_empty), Cooling::None, main_min)
    }
}

impl Eviction for Heat {
    fn opened(&mut self, weu: WeuId, lane: Lane) {
        self.lanes[weu.0 as usize] = lane;
        self.live[weu.0 as usize] = (0, 0);
    }

    fn looked_up(&mut self, key: ExtentKey, read: bool) {
        self.duel.looked_up(key, read);
    }

    fn touched(&mut self, weu: WeuId) {
        if self.recent.contains(weu.0) {
            self.recent.touch(weu.0);
        }
    }

    fn live_changed(&mut self, weu: WeuId, extents: u32, entries: u32) {
        let before = self.level(weu);
        self.live[weu.0 as usize] = (extents, entries);
        if self.recent.contains(weu.0) && self.level(weu) != before {
            self.note_holes(weu);
        }
    }

    fn enter(&mut self, weu: WeuId) {
        self.recent.touch(weu.0);
        self.queue(weu).touch(weu.0);
        self.note_holes(weu);
    }

    fn restored(&mut self, weu: WeuId) {
        self.lanes[weu.0 as usize] = Lane::Main;
        // The extents are reported one by one later, and then it is known which ones are overwritten.
        self.live[weu.0 as usize] = (1, 1);
        self.recent.put_oldest(weu.0);
        self.main.put_oldest(weu.0);
    }

    fn leave(&mut self, weu: WeuId) {
        self.recent.remove(weu.0);
        self.queue(weu).remove(weu.0);
        self.holey.iter_mut().for_each(|list| list.remove(weu.0));
    }

    fn victim(&mut self, units: &dyn Units) -> Option<Victim> {
        let allowed = |list: &LruList| list.oldest().take(LOOKED_AT_MAX).map(WeuId).find(|weu| !units.is_kept(*weu));
        if let Some(weu) = self.holey.iter().find_map(allowed) {
            return Some(Victim { weu, keep: self.keep_of_holey(weu) });
        }
        if self.duel.is_recency() {
            let weu = allowed(&self.recent)?;
            let is_main = self.lanes[weu.0 as usize] == Lane::Main;
            let heat_min = if is_main { 1 } else { PROMOTED_EARLY };
            return Some(Victim { weu, keep: self.keep(heat_min, Cooling::All, 0) });
        }
        let main = self.main.oldest().take(LOOKED_AT_MAX).map(WeuId).filter(|weu| !units.is_kept(*weu)).take(COMPARED);
        let main = main.min_by_key(|weu| units.heat(*weu));
        // Numbers of units in this band only.
        let (new, old) = (self.probation.len(), self.main.len());
        // At least one unit stays on probation, even if there are few units.
        let on_probation = new > 1 && new * PROBATION_PART > new + old;
        if (on_probation || main.is_none())
            && let Some(weu) = allowed(&self.probation)
        {
            return Some(Victim { weu, keep: self.keep(PROMOTED, Cooling::All, 0) });
        }
        Some(Victim { weu: main?, keep: self.keep(1, Cooling::ByOne, 0) })
    }

    fn grow(&mut self, count: u32) {
        let count = count.max(self.count());
        self.lanes.resize(count as usize, Lane::Main);
        self.live.resize(count as usize, (0, 0));
        [&mut self.probation, &mut self.main, &mut self.recent].into_iter().for_each(|list| list.grow(count));
        self.holey.iter_mut().for_each(|list| list.grow(count));
    }

    fn ram_bytes(&self) -> usize {
        let lists = self.probation.ram_bytes() + self.main.ram_bytes() + self.recent.ram_bytes();
        lists
            + self.holey.iter().map(LruList::ram_bytes).sum::<usize>()
            + self.live.capacity() * size_of::<(u32, u32)>()
            + self.lanes.capacity()
            + self.duel.ram_bytes()
    }
}

//! A map of each cache's write-evict units by age, with the share of each that is live.

use super::snapshot::json;
use crate::serve::{CacheEntry, Served};
use bytes::Bytes;
use nitro_cache::weu::{Unit, UnitState};
use nitro_port::Device;
use serde::Serialize;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Maximum number of units examined; in a larger cache, only every n-th unit is examined.
const UNITS_MAX: u32 = 1 << 16;
/// Maximum number of cells of the map; units of similar age share a cell.
const CELLS_MAX: usize = 720;
/// Maximum number of caches with maps.
const CACHES_MAX: usize = 16;
/// How long a map is reused.
const FRESH: Duration = Duration::from_secs(5);
/// The maximum RAM for making and keeping maps.
pub(super) const RAM_BYTES: u64 = UNITS_MAX as u64 * size_of::<Unit>() as u64 + (2 << 20);

/// The map of a cache.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Map {
    cache: String,
    /// Units of the cache.
    units: u64,
    /// Number of units for which one examined unit stands.
    stride: u64,
    unit_bytes: u64,
    /// Cells from the oldest units to the newest, then those of units that are neither full nor open.
    cells: Vec<Cell>,
}

/// Units of similar age.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Cell {
    state: UnitState,
    /// Mean live share of the units.
    live_percent: u64,
    /// Number of units that were opened after the oldest of them.
    age: u32,
    /// Number of units examined.
    units: u64,
}

/// The newest maps.
#[derive(Default)]
pub(super) struct Maps(RefCell<Option<(Instant, Bytes)>>);

impl Maps {
    /// The maps of all caches, as JSON.
    pub(super) fn get(&self, served: &Served) -> Bytes {
        let mut newest = self.0.borrow_mut();
        if let Some((_, bytes)) = newest.as_ref().filter(|(taken, _)| taken.elapsed() < FRESH) {
            return bytes.clone();
        }
        let real = served.caches.values().filter(|entry| entry.cache.devices().geometry().size_bytes > 0);
        let maps: Vec<_> = real.take(CACHES_MAX).map(|entry| map(entry)).collect();
        let bytes = json(&maps);
        *newest = Some((Instant::now(), bytes.clone()));
        bytes
    }
}

fn map(entry: &CacheEntry) -> Map {
    let manager = &entry.cache.settings().manager;
    let units = entry.cache.status().manager.weus;
    let stride = units.div_ceil(UNITS_MAX.into()).max(1);
    Map {
        cache: entry.name.clone(),
        units,
        stride,
        unit_bytes: manager.weu_bytes.into(),
        cells: cells(entry.cache.units(stride as u32)),
    }
}

/// The sorting rank of a unit: full and open units come first, by age.
fn rank(unit: &Unit) -> u8 {
    match unit.state {
        UnitState::Full | UnitState::Pinned | UnitState::Open => 0,
        UnitState::Unread => 1,
        UnitState::Free => 2,
        UnitState::Retired => 3,
    }
}

fn cells(mut units: Vec<Unit>) -> Vec<Cell> {
    units.sort_by(|a, b| rank(a).cmp(&rank(b)).then(b.age.cmp(&a.age)).then(a.live_percent.cmp(&b.live_percent)));
    let together = units.len().div_ceil(CELLS_MAX).max(1);
    units.chunks(together).map(cell).collect()
}

fn cell(units: &[Unit]) -> Cell {
    let count = units.len().max(1) as u64;
    let live: u64 = units.iter().map(|unit| u64::from(unit.live_percent)).sum();
    let most = |state| units.iter().filter(|unit| unit.state == state).count();
    let states =
        [UnitState::Full, UnitState::Pinned, UnitState::Open, UnitState::Free, UnitState::Unread, UnitState::Retired];
    Cell {
        state: states.into_iter().max_by_key(|state| most(*state)).unwrap_or(UnitState::Free),
        live_percent: live / count,
        age: units.iter().map(|unit| unit.age).max().unwrap_or(0),
        units: units.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_go_from_the_oldest_to_the_newest() {
        let unit = |state, live_percent, age| Unit { state, live_percent, age };
        let cells = cells(vec![
            unit(UnitState::Free, 0, 9),
            unit(UnitState::Full, 50, 3),
            unit(UnitState::Open, 0, 0),
            unit(UnitState::Pinned, 80, 7),
        ]);
        let told: Vec<_> = cells.iter().map(|cell| (cell.state, cell.live_percent, cell.age)).collect();
        let wanted =
            [(UnitState::Pinned, 80, 7), (UnitState::Full, 50, 3), (UnitState::Open, 0, 0), (UnitState::Free, 0, 9)];
        assert_eq!(told, wanted);
    }

    #[test]
    fn a_large_cache_has_as_many_cells_as_the_map_has_room_for() {
        let units = (0..UNITS_MAX).map(|age| Unit { state: UnitState::Full, live_percent: (age % 100) as u8, age });
        let cells = cells(units.collect());
        assert!(cells.len() <= CELLS_MAX && cells.len() > CELLS_MAX / 2);
        assert_eq!(cells.iter().map(|cell| cell.units).sum::<u64>(), u64::from(UNITS_MAX));
        assert!(json(&cells).len() < 1 << 17);
    }
}

//! The state in the journal at a restart.

use crate::format::journal::{LogPosition, Record};
use crate::format::weu::Head;
use crate::volume::WHOLE;
use crate::volume::registry::VolumeEntry;
use nitro_cache::FORGOTTEN_RUN_MAX;
use nitro_cache::pins::PinRanges;
use nitro_cache::settings::WEU_BYTES;
use nitro_cache::weu::layout::{BLOCK_BYTES, HEAD_BYTES, UNIT_BYTES};
use nitro_units::{ClassId, ExtentKey, Fingerprint, Generation, ObjectId, WeuId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The newest known state of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newest {
    /// Dirty, at an entry of a filling of a WEU.
    Dirty(WeuId, Generation, u16),
    /// Dirty, and lost.
    Lost,
    /// Clean: the origin has it, and a WEU may have it.
    Clean,
    /// All cached content is void.
    Void,
}

/// An entry of a WEU that may have no header yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsealed {
    pub(crate) key: ExtentKey,
    pub(crate) version: u64,
    pub(crate) start: u32,
    pub(crate) offset: u32,
    pub(crate) stored_bytes: u32,
    pub(crate) checksum: u32,
    pub(crate) raw: bool,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) class: ClassId,
}

impl Unsealed {
    /// Whether any WEU could hold it.
    fn is_possible(&self) -> bool {
        let aligned = self.offset.is_multiple_of(UNIT_BYTES);
        let blocks =
            !self.raw || self.stored_bytes > 0 && (self.offset | self.stored_bytes).is_multiple_of(BLOCK_BYTES);
        let end = self.offset.checked_add(self.stored_bytes);
        aligned && blocks && self.offset >= HEAD_BYTES && end.is_some_and(|end| u64::from(end) <= WEU_BYTES.max)
    }
}

/// The state that results from the journal's records, independent of their order in snapshot and log.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Above every version that was ever given.
    pub(crate) version: u64,
    pub(crate) keys: BTreeMap<ExtentKey, (u64, Newest)>,
    /// All fillings of a WEU up to this one are evicted.
    pub(crate) evicted: HashMap<WeuId, Generation>,
    /// Void entries of a filling, as a bitmap.
    dead: HashMap<WeuId, (Generation, Vec<u8>)>,
    pub(crate) unsealed: HashMap<(WeuId, Generation), BTreeMap<u16, Unsealed>>,
    /// WEUs that were restored before the first request and have records of duplicates, which are read after all entries.
    pub(super) recorded: Vec<Head>,
    /// The start whose records are being added.
    start: u32,
    /// For each start, the version from which on nothing had been committed when it began.
    pub(crate) limits: BTreeMap<u32, u64>,
    pub(crate) regions: BTreeSet<(ObjectId, u64)>,
    pub(crate) volumes: BTreeMap<ObjectId, VolumeEntry>,
    /// Pinned extents by their numbers.
    pub(crate) pins: BTreeMap<ObjectId, PinRanges>,
    /// The write log in use, and the position from which on it is needed.
    pub(crate) log: Option<LogPosition>,
}

impl State {
    /// Sets the start in which the following records were written.
    pub(crate) fn written_in(&mut self, start: u32) {
        self.start = start;
    }

    /// The last start that any record was written in.
    pub(crate) const fn last_start(&self) -> u32 {
        self.start
    }

    /// Adds a record.
    pub(crate) fn apply(&mut self, record: Record) {
        match record {
            Record::DirtyBase {
                key,
                version,
                weu,
                generation,
                start,
                entry,
                offset,
                stored_bytes,
                crc,
                raw_blocks,
                class,
                fingerprint,
            } => {
                let unsealed = Unsealed {
                    key,
                    version,
                    start,
                    offset,
                    stored_bytes,
                    checksum: crc,
                    raw: raw_blocks,
                    class,
                    fingerprint,
                };
                if unsealed.is_possible() {
                    self.unsealed.entry((weu, generation)).or_default().insert(entry, unsealed);
                }
                self.note(key, version, Newest::Dirty(weu, generation, entry));
            }
            Record::DirtyDup { key, version, weu, generation, entry } => {
                self.note(key, version, Newest::Dirty(weu, generation, entry));
            }
            Record::Clean { key, version } => {
                self.version = self.version.max(version + 1);
                match self.keys.get_mut(&key) {
                    Some(known) if known.0 == version => known.1 = Newest::Clean,
                    Some(_) => {}
                    None => self.note(key, version, Newest::Clean),
                }
            }
            Record::Lost { key, version } => self.note(key, version, Newest::Lost),
            Record::Forget { first, count, version } => {
                for n in 0..count.min(FORGOTTEN_RUN_MAX.into()) {
                    self.note(ExtentKey::from_raw(first.raw().wrapping_add(n)), version, Newest::Void);
                }
            }
            Record::Evicted { weu, generation } => self.evict(weu, generation),
            Record::Slot { weu, evicted, generation, dead } => {
                self.evict(weu, evicted);
                self.bury(weu, generation, dead);
            }
            Record::RegionOpened { object, region } => drop(self.regions.insert((object, region))),
            Record::RegionClosed { object, region } => drop(self.regions.remove(&(object, region))),
            Record::Volume { object, name, origin_bytes, uuid, mode, domain, identity } => {
                self.volumes.insert(object, VolumeEntry { name, origin_bytes, stamp: uuid, mode, domain, identity });
            }
            Record::VolumeRemoved { object } => {
                self.volumes.remove(&object);
                self.pins.remove(&object);
            }
            Record::Pins { object, ranges } if ranges.is_empty() => drop(self.pins.remove(&object)),
            Record::Pins { object, ranges } => drop(self.pins.insert(object, ranges)),
            Record::Log(at) => self.log = Some(at).filter(|at| at.uuid != LogPosition::default().uuid),
            Record::NextVersion { version } => {
                self.version = self.version.max(version);
                self.limits.entry(self.start).or_insert(version);
            }
        }
    }

    fn evict(&mut self, weu: WeuId, generation: Generation) {
        let known = self.evicted.entry(weu).or_default();
        *known = (*known).max(generation);
    }

    /// Notes which entries of a filling are void. Void entries stay void.
    fn bury(&mut self, weu: WeuId, generation: Generation, dead: Vec<u8>) {
        let known = self.dead.entry(weu).or_insert_with(|| (generation, Vec::new()));
        if known.0 < generation {
            *known = (generation, Vec::new());
        }
        if known.0 == generation {
            known.1.resize(known.1.len().max(dead.len()), 0);
            known.1.iter_mut().zip(dead).for_each(|(known, dead)| *known |= dead);
        }
    }

    fn note(&mut self, key: ExtentKey, version: u64, newest: Newest) {
        self.version = self.version.max(version + 1);
        let known = self.keys.entry(key).or_insert((version, newest));
        if known.0 < version {
            *known = (version, newest);
        }
    }

    /// Whether an entry of a WEU's header, or a record of a duplicate, is void for its key; `bit` is its number in the
    /// bitmap of the WEU.
    pub(crate) fn is_void(&self, weu: WeuId, generation: Generation, bit: u32, key: ExtentKey, version: u64) -> bool {
        let dead = self.dead.get(&weu).filter(|(g, _)| *g == generation);
        let bit = |bytes: &Vec<u8>| bytes.get(bit as usize / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
        dead.is_some_and(|(_, bytes)| bit(bytes)) || self.keys.get(&key).is_some_and(|(newest, _)| version < *newest)
    }

    /// From which version on entries of dirty WEUs that were filled in a start were never committed.
    pub(crate) fn limit(&self, start: u32) -> u64 {
        self.limits.range(start.saturating_add(1)..).next().map_or(u64::MAX, |(_, version)| *version)
    }

    /// Whether the newest content of an extent is dirty.
    pub(crate) fn is_dirty(&self, key: ExtentKey) -> bool {
        self.keys.get(&key).is_some_and(|(_, newest)| matches!(newest, Newest::Dirty(..) | Newest::Lost))
    }

    /// Whether writes to a write-intent region may have been in progress.
    pub(crate) fn is_open(&self, object: ObjectId, region: u64) -> bool {
        self.regions.contains(&(object, region)) || self.regions.contains(&(object, WHOLE))
    }

    /// The last filling of a slot that is known to be evicted.
    pub(crate) fn evicted(&self, weu: WeuId) -> Generation {
        self.evicted.get(&weu).copied().unwrap_or_default()
    }

    /// The last filling of any slot from number `count` on that a record speaks of.
    pub(crate) fn last_beyond(&self, count: u32) -> Generation {
        let evicted = self.evicted.iter().map(|(weu, generation)| (*weu, *generation));
        let dead = self.dead.iter().map(|(weu, (generation, _))| (*weu, *generation));
        let all = evicted.chain(dead).chain(self.unsealed.keys().copied());
        all.filter(|(weu, _)| weu.0 >= count).map(|(_, generation)| generation).max().unwrap_or_default()
    }

    /// The dirty extents, by key.
    pub(crate) fn dirty(&self) -> impl Iterator<Item = (ExtentKey, u64, Option<(WeuId, Generation, u16)>)> + '_ {
        self.keys.iter().filter_map(|(key, (version, newest))| match newest {
            Newest::Dirty(weu, generation, entry) => Some((*key, *version, Some((*weu, *generation, *entry)))),
            Newest::Lost => Some((*key, *version, None)),
            Newest::Clean | Newest::Void => None,
        })
    }
}

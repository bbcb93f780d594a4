//! Parsing of arbitrary SSD contents with valid checksums; for tests and fuzzing.

use super::short::page::{self, Owners};
use super::start::restored;
use super::{Piece, SsdOptions, checked};
use crate::format::ssd::{Entry, UnitTable, reseal_unit};
use crate::plan::{Plan, StoreOptions};
use bytes::Bytes;
use nitro_cache::CacheManager;
use nitro_units::{Generation, WeuId};

const UNIT_BYTES: u32 = 512 << 10;
const EXTENT_BYTES: u32 = 8192;
/// The maximum number of bytes of an input that are used.
const BYTES_MAX: usize = UNIT_BYTES as usize;

/// Parses bytes as a unit: header, table, and pieces. Returns whether they are valid.
pub(crate) fn take_unit(bytes: &[u8], filling: u64) -> bool {
    let mut bytes = bytes[..bytes.len().min(BYTES_MAX)].to_vec();
    reseal_unit(&mut bytes, 0, filling);
    let Some((at, len)) = UnitTable::place(&bytes, (0, UNIT_BYTES), filling) else { return false };
    let Some(table) = bytes.get(at..at + len).and_then(|table| UnitTable::decode(&bytes, table, filling)) else {
        return false;
    };
    let Some(entries) = restored(&table, UNIT_BYTES, EXTENT_BYTES, true) else { return false };
    let options = SsdOptions { unit_bytes: UNIT_BYTES, ..SsdOptions::default() };
    let Ok(plan) = Plan::new(&StoreOptions { size_bytes: 1 << 30, ..StoreOptions::default() }, 7, 1) else {
        return false;
    };
    let Ok(mut manager) = CacheManager::new(options.manager(9, &plan.superblock, 1)) else { return false };
    manager.begin_restore(table.version);
    if entries.is_empty() {
        manager.restore_free(WeuId(0), Generation(table.generation));
    } else {
        manager.restore_weu(WeuId(0), Generation(table.generation), &entries);
    }
    (1..9).for_each(|unit| manager.restore_free(WeuId(unit), Generation(0)));
    manager.end_restore();
    let whole = Bytes::from(bytes);
    for entry in &entries {
        let Some(location) = manager.lookup(entry.key) else { continue };
        let span = location.span();
        assert!(span.end <= UNIT_BYTES && location.weu == WeuId(0), "{location:?}");
        let piece = Piece { key: entry.key, ..Piece::page(1, filling) };
        if let Some(bytes) = checked(&piece, &location, &whole.slice(..whole.len().min(span.len()))) {
            take_short_page(&bytes);
        }
    }
    while manager.evict().is_some() {}
    assert_eq!(manager.stats().cached_extents, 0);
    true
}

/// Parses bytes as a page of short fingerprints, and merges another entry into it. Returns whether they are valid.
pub(crate) fn take_short_page(bytes: &[u8]) -> bool {
    let entries: Vec<_> = page::entries(bytes).collect();
    assert!(entries.len() <= page::ENTRIES_MAX, "{} entries", entries.len());
    let owners = Owners::new(1 << 20);
    assert!(entries.iter().all(|entry| owners.slot(entry.owner) < 1 << 20), "a slot that the store does not have");
    let new = page::Entry { tag: 1, owner: owners.owner(2, 3) };
    let merged = page::merged([new].into_iter(), bytes);
    assert!(merged[0] == new && merged.len() <= entries.len() + 1 && entries.iter().all(|old| merged.contains(old)));
    let is_page = entries.len() * page::ENTRY_BYTES == bytes.len();
    assert!(!is_page || page::encode(&entries) == bytes, "it does not come back");
    is_page
}

/// A page of short fingerprints.
pub(crate) fn sample_short_page() -> Vec<u8> {
    let owners = Owners::new(1 << 20);
    let entry = |n: u32| page::Entry { tag: n << 16 | 7, owner: owners.owner(n, n.into()) };
    page::encode(&(1..40).map(entry).collect::<Vec<_>>())
}

/// A unit with a piece of each kind.
pub(crate) fn sample_unit(filling: u64) -> Vec<u8> {
    let entry = |class: u8, offset, stored_bytes, raw| Entry {
        key: u64::from(class) << 40,
        offset,
        stored_bytes,
        check: 1,
        class,
        raw,
    };
    let entries = vec![
        entry(3, UNIT_BYTES - EXTENT_BYTES, EXTENT_BYTES, true),
        entry(1, 512, 300, false),
        entry(2, 816, 4104, false),
    ];
    let mut unit = vec![0; 512];
    UnitTable { unit: 0, generation: 3, version: 4, entries }.encode(&mut unit, 64, filling);
    unit
}

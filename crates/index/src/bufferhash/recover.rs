//! Opening an index, also after a crash.
//!
//! Above the incarnations that are known to be durable, incarnations are trusted up to the first gap in their sequence
//! numbers; those after the gap were never made durable. Their numbers are assigned again, in a new epoch. A gap below
//! the durable limit is damage: then older incarnations are discarded as far as the lost incarnation may have replaced
//! their entries. An entry may be lost, but an overwritten value never returns.
//! their entries: an entry may be lost, but an overwritten value never returns.

use super::epoch::Epoch;
use super::filters::Column;
use super::incarnation::{Fences, Incarnation, order_of};
use super::journal::Journal;
use super::log::Log;
use super::page::{Header, Page};
use super::plan::Plan;
use super::table::NONE;
use super::{BufferHash, Eviction, add};
use crate::hash::hash_of;
use crate::{Error, PAGE_BYTES};
use futures_util::stream::{self, StreamExt as _};
use nitro_port::Device;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// The number of slots that are read concurrently.
const READS: usize = 8;
const JOURNAL_CHUNK_PAGES: u32 = 64;

/// A complete incarnation.
struct Found {
    table: u32,
    before: u64,
    replaying: bool,
    incarnation: Incarnation,
}

/// The content of a slot.
#[derive(Default)]
struct Slot {
    found: Option<Found>,
    /// The super tables of incarnations that are not complete, by sequence number.
    partly: BTreeMap<u64, u32>,
    durable: u64,
}

/// Reads a slot, and ignores impossible contents.
fn read_slot(bytes: &[u8], slot: u64, plan: &Plan, epoch: Epoch, filter: &mut Column) -> Slot {
    let mut read = Slot::default();
    let offset = plan.slot_offset(slot);
    let key_bytes = usize::from(plan.shape.key_bytes);
    let mut firsts = Vec::new();
    let mut len = 0;
    let mut first: Option<Header> = None;
    let mut is_whole = true;
    let mut hashes = Vec::new();
    for (number, bytes) in bytes.chunks(PAGE_BYTES).enumerate() {
        let at = offset + (number * PAGE_BYTES) as u64;
        let page = Page::open(bytes, plan.shape, at, plan.seed);
        let header = page.map(|p| p.header()).filter(|h| {
            let fits = h.number % u64::from(plan.slots) == slot && h.number < 1 << 62;
            fits && epoch.admits(h.number, h.epoch)
                && !h.in_journal
                && h.place < plan.super_tables
                && h.pages as usize == number
        });
        let (Some(page), Some(header)) = (page, header) else {
            is_whole = false;
            continue;
        };
        read.durable = read.durable.max(header.durable.min(1 << 62));
        read.partly.insert(header.number, header.place);
        is_whole &= first.is_none_or(|f| (f.number, f.place, f.epoch) == (header.number, header.place, header.epoch));
        first = first.or(Some(header));
        let mut entries = page.entries().peekable();
        if let Some(entry) = entries.peek() {
            firsts.push(order_of(hash_of(&entry.bytes[..key_bytes], plan.seed), plan.super_bits()));
        }
        for entry in entries {
            len += 1;
            hashes.push(hash_of(&entry.bytes[..key_bytes], plan.seed) as u64);
        }
    }
    if let Some(header) = first.filter(|_| is_whole) {
        read.partly.clear();
        let incarnation = Incarnation { sequence: header.number, fences: Fences::new(firsts), len };
        read.found = Some(Found { table: header.place, before: header.neighbour, replaying: header.flag, incarnation });
        hashes.iter().for_each(|hash| filter.add(*hash));
    }
    read
}

/// The content of all slots.
#[derive(Default)]
struct Slots {
    found: BTreeMap<u64, (u32, u64, bool)>,
    partly: BTreeMap<u64, u32>,
    durable: u64,
    scanned_bytes: u64,
}

/// The incarnations that are trusted.
struct Verdict {
    /// The next sequence number.
    cut: u64,
    /// The trusted incarnations, with their super tables.
    alive: BTreeMap<u64, u32>,
    /// For each super table: its newest incarnation that was not made by replaying the journal.
    sealed: Vec<u64>,
}

fn judge(slots: &Slots, plan: &Plan) -> Verdict {
    let count = u64::from(plan.slots);
    let seen = || slots.found.keys().chain(slots.partly.keys()).copied();
    let past = seen().max().map_or(0, |n| n + 1);
    let mut cut = slots.durable.min(past);
    while slots.found.contains_key(&cut) {
        cut += 1;
    }
    // The incarnations of each super table, newest first.
    let mut chains: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (sequence, (table, ..)) in slots.found.range(..cut).rev() {
        chains.entry(*table).or_default().push(*sequence);
    }
    let mut explained: BTreeSet<u64> = slots.found.range(..cut).map(|(_, (_, before, _))| *before).collect();
    let lowest = past.saturating_sub(count);
    let mut floors: BTreeMap<u32, u64> = BTreeMap::new();
    for (sequence, table) in slots.partly.range(..cut) {
        explained.insert(*sequence);
        let floor = floors.entry(*table).or_default();
        *floor = (*floor).max(*sequence);
    }
    let lost = (lowest..cut).rev().find(|n| !slots.found.contains_key(n) && !explained.contains(n));
    let mut alive = BTreeMap::new();
    let mut sealed = vec![NONE; plan.super_tables as usize];
    for (table, chain) in chains {
        let floor = floors.get(&table).copied().max(lost).unwrap_or(0);
        for (i, sequence) in chain.iter().enumerate().take(plan.window as usize) {
            if *sequence < floor {
                break;
            }
            alive.insert(*sequence, table);
            let (_, before, replaying) = slots.found[sequence];
            if !replaying && sealed[table as usize] == NONE {
                sealed[table as usize] = *sequence;
            }
            if chain.get(i + 1) != Some(&before) {
                break;
            }
        }
    }
    Verdict { cut, alive, sealed }
}

pub(super) async fn open<D: Device>(device: D, plan: Plan, eviction: Eviction) -> Result<BufferHash<D>, Error> {
    let before = Epoch::read(&device, plan.seed).await?;
    let mut index = BufferHash::empty(device, plan, eviction, before);
    let read = |slot: u64| {
        let device = &index.device;
        async move { (slot, device.read(plan.slot_offset(slot), plan.incarnation_bytes() as usize).await) }
    };
    let mut slots = Slots::default();
    // The filters are built as if all incarnations were trusted; those of the others are dropped afterwards.
    let mut reading = stream::iter((0..u64::from(plan.slots)).map(read)).buffer_unordered(READS);
    while let Some((slot, bytes)) = reading.next().await {
        let mut filter = Column::new(plan.filter_shape());
        let read = read_slot(&bytes?, slot, &plan, before, &mut filter);
        slots.durable = slots.durable.max(read.durable);
        slots.partly.extend(read.partly);
        slots.scanned_bytes += plan.incarnation_bytes();
        if let Some(Found { table, before, replaying, incarnation }) = read.found {
            let sequence = incarnation.sequence;
            slots.found.insert(sequence, (table, before, replaying));
            index.tables[table as usize].lock().adopt(incarnation, &filter, &plan);
        }
    }
    drop(reading);
    add(&index.tally.background_read_bytes, slots.scanned_bytes);
    let (journals, durable) = read_journal(&index).await?;
    slots.durable = slots.durable.max(durable);
    let verdict = judge(&slots, &plan);
    index.device.flush().await?;
    index.epoch = before.next(verdict.cut)?;
    index.epoch.write(&index.device, plan.seed).await?;
    let mut log = Log::new(plan.slots, verdict.cut);
    for (sequence, table) in &verdict.alive {
        log.own(*sequence, *table as usize);
    }
    *index.log.lock() = log;
    *index.journal.lock().await = Journal::new(journals.as_ref().map_or(0, |j| j.half), index.epoch);
    for (number, table) in index.tables.iter().enumerate() {
        settle_table(table, number as u32, &verdict);
    }
    replay(&index, journals, &verdict).await?;
    // Replayed entries do not count as insertions.
    index.tables.iter().for_each(|table| table.lock().inserts = 0);
    Ok(index)
}

fn settle_table(table: &Mutex<super::table::SuperTable>, number: u32, verdict: &Verdict) {
    let table = &mut *table.lock();
    table.keep_only(|sequence| verdict.alive.get(&sequence) == Some(&number));
    table.newest = table.newest_alive();
}

/// The valid generation of the journal.
struct Read {
    half: usize,
    /// The number of pages up to the end of the last complete batch.
    pages: u32,
}

/// The newest generation in a half. Pages of older generations are remains: a generation is begun in a half only when
/// the other half has the valid one.
#[derive(Default)]
struct Half {
    generation: Option<u64>,
    /// Whether all pages so far belong to this generation.
    whole: bool,
    /// The number of pages up to the end of the last complete batch.
    pages: u32,
    /// The number of pages that were durable.
    durable_pages: u32,
}

impl Half {
    fn see(&mut self, number: u32, header: Option<Header>) {
        let Some(header) = header else {
            self.whole = false;
            return;
        };
        let generation = Some(header.number);
        if generation > self.generation {
            *self = Self { generation, whole: number == 0, pages: 0, durable_pages: 0 };
        }
        self.whole &= generation == self.generation;
        if generation == self.generation {
            self.durable_pages = self.durable_pages.max(header.pages);
        }
        if self.whole && header.flag {
            self.pages = number + 1;
        }
    }
}

/// Finds the valid generation. Returns it, and the sequence number below which all incarnations were durable.
async fn read_journal<D: Device>(index: &BufferHash<D>) -> Result<(Option<Read>, u64), Error> {
    let mut durable = 0;
    let mut halves = [Half::default(), Half::default()];
    for (at, half) in halves.iter_mut().enumerate() {
        for_pages(index, at, index.plan.journal_pages, |number, page| {
            let header = page.map(Page::header).filter(|h| h.in_journal && h.place == number);
            durable = durable.max(header.map_or(0, |h| h.durable.min(1 << 62)));
            half.see(number, header);
        })
        .await?;
    }
    let whole = |at: usize| halves[at].generation.filter(|_| halves[at].pages > 0);
    let newest = usize::from(whole(1) > whole(0));
    let lacks_pages = |half: &Half| half.pages < half.durable_pages && half.generation >= whole(newest);
    if halves.iter().any(lacks_pages) {
        return Err(Error::Damaged("a page of its journal fails its checksum".to_owned()));
    }
    let pages = halves[newest].pages;
    Ok((whole(newest).map(|_| Read { half: newest, pages }), durable))
}

/// Calls `each` for the first `pages` pages of a half; with `None` for a page that fails its checksum.
async fn for_pages<D: Device>(
    index: &BufferHash<D>,
    half: usize,
    pages: u32,
    mut each: impl FnMut(u32, Option<&Page<'_>>),
) -> Result<(), Error> {
    let offset = index.plan.journal_offset(half);
    for first in (0..pages).step_by(JOURNAL_CHUNK_PAGES as usize) {
        let count = JOURNAL_CHUNK_PAGES.min(pages - first);
        let at = offset + u64::from(first) * PAGE_BYTES as u64;
        let bytes = index.device.read(at, count as usize * PAGE_BYTES).await?;
        add(&index.tally.background_read_bytes, bytes.len() as u64);
        for (page, number) in bytes.chunks(PAGE_BYTES).zip(first..) {
            let at = offset + u64::from(number) * PAGE_BYTES as u64;
            each(number, Page::open(page, index.plan.shape, at, index.plan.seed).as_ref());
        }
    }
    Ok(())
}

/// Inserts the entries of the journal that are newer than the newest incarnation of their super table.
async fn replay<D: Device>(index: &BufferHash<D>, read: Option<Read>, verdict: &Verdict) -> Result<(), Error> {
    let Some(Read { half, pages, .. }) = read else { return Ok(()) };
    let plan = &index.plan;
    for first in (0..pages).step_by(JOURNAL_CHUNK_PAGES as usize) {
        let count = JOURNAL_CHUNK_PAGES.min(pages - first);
        let offset = plan.journal_offset(half) + u64::from(first) * PAGE_BYTES as u64;
        let bytes = index.device.read(offset, count as usize * PAGE_BYTES).await?;
        for (page, at) in bytes.chunks(PAGE_BYTES).zip((offset..).step_by(PAGE_BYTES)) {
            let Some(page) = Page::open(page, plan.shape, at, plan.seed) else { continue };
            let next = page.header().neighbour;
            for entry in page.entries() {
                let (key, value) = plan.shape.split(entry.bytes);
                let table = plan.super_table_of(hash_of(key, plan.seed));
                let sealed = verdict.sealed[table];
                if sealed == NONE || sealed < next {
                    index.put(key, value, entry.removed, true).await?;
                }
            }
        }
    }
    Ok(())
}

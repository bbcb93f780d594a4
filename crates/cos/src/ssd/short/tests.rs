use super::buffer::{self, Buffer};
use super::page::{self, ENTRIES_MAX, Entry, Owners, Spot};
use crate::format::record::SlotState;
use crate::format::region::ChunkKind;
use crate::plan::{Plan, StoreOptions};
use crate::slots::Slot;
use nitro_testkit::Rng;
use nitro_units::Fingerprint;
use proptest::prelude::*;
use std::collections::HashSet;

fn fingerprint(number: u64) -> Fingerprint {
    let mut random = Rng::new(number);
    let mut bytes = [0; 20];
    bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&random.next().to_le_bytes()[..part.len()]));
    Fingerprint(bytes)
}

fn slot(state: SlotState, sequence: u64) -> Slot {
    Slot { state, kind: ChunkKind::Data, leaving: false, sectors: 0, chunks: 0, sequence }
}

#[test]
fn a_million_entries_collide_rarely_and_fit_into_their_pages() {
    const COUNT: u64 = 1 << 20;
    let (pages, owners) = (page::pages_for(COUNT), Owners::new(4096));
    let mut table = vec![Vec::new(); pages as usize];
    let owner = |number: u64| owners.owner((number / 300) as u32, number / 300 + 7);
    for number in 0..COUNT {
        let spot = Spot::of(&fingerprint(number), pages);
        table[spot.page as usize].push(Entry { tag: spot.tag, owner: owner(number) });
    }
    let mut dropped = 0;
    let table: Vec<Vec<u8>> = table
        .into_iter()
        .map(|new| {
            let mut entries = page::merged(new.into_iter().rev(), &[]);
            dropped += entries.len().saturating_sub(ENTRIES_MAX);
            entries.truncate(ENTRIES_MAX);
            page::encode(&entries)
        })
        .collect();
    let find = |number: u64| {
        let spot = Spot::of(&fingerprint(number), pages);
        page::entries(&table[spot.page as usize]).filter(move |entry| entry.tag == spot.tag).map(|entry| entry.owner)
    };
    let (mut found, mut beside, mut wrong) = (0, 0, 0);
    for number in 0..COUNT {
        let places: Vec<_> = find(number).collect();
        found += places.iter().filter(|place| **place == owner(number)).count();
        // Those before the right one are read in vain.
        beside += places.iter().take_while(|place| **place != owner(number)).count();
        wrong += find(COUNT + number).count();
    }
    let percent = |count: usize| count as f64 * 100.0 / COUNT as f64;
    let bytes: usize = table.iter().map(Vec::len).sum();
    println!(
        "{COUNT} entries in {pages} pages of {:.2} bytes an entry; {:.4} % are dropped from full pages. Collisions: {:.4} % \
         of look-ups of what is there, {:.4} % of what is not",
        bytes as f64 / COUNT as f64,
        percent(dropped),
        percent(beside),
        percent(wrong),
    );
    assert!(percent(beside) < 0.01 && percent(wrong) < 0.01);
    assert!(percent(dropped) < 0.1 && found as u64 + dropped as u64 >= COUNT);
}

#[test]
fn an_entry_costs_few_bytes_written() {
    const COUNT: u64 = 1 << 20;
    let pages = page::pages_for(COUNT);
    let mut buffer = Buffer::new(pages, COUNT);
    let owner = Owners::new(16).owner(1, 2);
    let (mut merges, mut held) = (0_u64, 0);
    for number in 0..COUNT {
        let spot = Spot::of(&fingerprint(number), pages);
        assert!(buffer.push(spot.page, Entry { tag: spot.tag, owner }));
        held = held.max(buffer.ram_bytes());
        while buffer.is_full() {
            let (group, taken) = buffer.fullest().unwrap();
            let written: HashSet<u32> = taken.iter().map(|packed| buffer::unpack(group, *packed).0).collect();
            merges += written.len() as u64;
            buffer.remove(group, taken.len());
        }
    }
    // As if all pages were as full as planned from the beginning.
    let bytes = merges as f64 * (COUNT as f64 / f64::from(pages) * page::ENTRY_BYTES as f64 + 40.0) / COUNT as f64;
    let ram = held as f64 / COUNT as f64;
    println!("{bytes:.0} bytes are written for an entry; {ram:.2} bytes of RAM for each entry of the table");
    assert!(bytes < 150.0 && ram < 0.5, "{bytes} bytes written, {ram} of RAM");
}

#[test]
fn space_and_ram_are_within_bounds_for_all_sizes_of_chunks() {
    for (chunk_bytes, percent_max) in [(4096, 0.4), (8192, 0.4), (16384, 0.4), (131_072, 0.4)] {
        for size_bytes in [1 << 34, 1 << 37, 1 << 40] {
            let region_bytes = (64 << 10).max(chunk_bytes);
            let options = StoreOptions { size_bytes, chunk_bytes, region_bytes, ..StoreOptions::default() };
            let plan = Plan::new(&options, 1, 2).unwrap();
            let chunks = plan.chunks();
            let pages = page::pages_for(chunks);
            // An entry, and of each page its prefix, its padding and its entry in the unit's table.
            let bytes = chunks * page::ENTRY_BYTES as u64 + u64::from(pages) * (8 + 8 + 24);
            let percent = bytes as f64 * 100.0 / plan.content_bytes() as f64;
            let ram = Buffer::ram_bytes_max(pages, chunks) + u64::from(pages) * 22;
            let each = ram as f64 / chunks as f64;
            println!("{chunk_bytes} bytes a chunk, {size_bytes} of a store: {percent:.3} % and {each:.3} bytes of RAM");
            assert!(percent <= percent_max && each <= 1.0);
        }
    }
}

#[test]
fn entries_of_containers_that_are_gone_are_known() {
    for containers in [1, 2, 12, 4096, 4097, 1 << 20, (1 << 24) - 1, 1 << 24] {
        let owners = Owners::new(containers);
        for (number, sequence) in [(0, 1), (containers / 2, 5), (containers - 1, u64::MAX)] {
            let owner = owners.owner(number, sequence);
            assert_eq!(owners.slot(owner), number, "of {containers}");
            assert!(owners.is_of(owner, &slot(SlotState::Sealed, sequence)));
            assert!(!owners.is_of(owner, &slot(SlotState::Free, sequence)));
            let later = slot(SlotState::Sealed, sequence.wrapping_add(1));
            assert!(containers > 1 << 23 || !owners.is_of(owner, &later), "of {containers}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_page_or_none(bytes in prop::collection::vec(any::<u8>(), 0..5000), whole in any::<bool>()) {
        let len = if whole { (bytes.len() / page::ENTRY_BYTES * page::ENTRY_BYTES).min(4080) } else { bytes.len() };
        let is_page = crate::ssd::take_short_page(&bytes[..len]);
        prop_assert_eq!(is_page, len.is_multiple_of(page::ENTRY_BYTES) && len <= 4080);
    }

    #[test]
    fn what_is_pushed_is_found_until_it_is_merged(
        pushed in prop::collection::vec((0_u32..70, 0_u32..20, 0_u32..5), 1..200),
        merges in prop::collection::vec(0_usize..200, 0..20),
    ) {
        let owners = Owners::new(16);
        let mut buffer = Buffer::new(70, 70 * 600);
        let mut model: Vec<(u32, Entry)> = Vec::new();
        for (at, (page, tag, owner)) in pushed.into_iter().enumerate() {
            let entry = Entry { tag, owner: owners.owner(owner, 1) };
            prop_assert!(buffer.push(page, entry));
            model.push((page, entry));
            if merges.contains(&at) {
                let (group, taken) = buffer.fullest().unwrap();
                let taken: Vec<_> = taken.iter().map(|packed| buffer::unpack(group, *packed)).collect();
                let of_group: Vec<_> = model.iter().filter(|(page, _)| page / buffer::GROUP_PAGES == group).collect();
                prop_assert!(of_group.iter().copied().eq(&taken));
                buffer.remove(group, taken.len());
                model.retain(|(page, _)| page / buffer::GROUP_PAGES != group);
            }
            prop_assert_eq!(buffer.len(), model.len());
            let wanted: Vec<_> =
                model.iter().rev().filter(|(p, e)| *p == page && e.tag == tag).map(|(_, e)| e.owner).collect();
            prop_assert_eq!(buffer.owners(Spot { page, tag }), wanted);
            prop_assert!(buffer.ram_bytes() <= Buffer::ram_bytes_max(70, 70 * 600));
        }
    }
}

#[test]
fn the_buffer_takes_no_more_than_its_bound() {
    let (pages, chunks) = (70, 70 * 600);
    let mut buffer = Buffer::new(pages, chunks);
    let owners = Owners::new(16);
    let mut random = Rng::new(1);
    let taken = (0..100_000)
        .filter(|_| {
            let entry = Entry { tag: random.next() as u32 >> 8, owner: owners.owner(1, 2) };
            buffer.push(random.below(pages.into()) as u32, entry)
        })
        .count();
    assert!(buffer.is_full() && taken == buffer.len() && taken < 2200, "{taken}");
    assert!(buffer.ram_bytes() <= Buffer::ram_bytes_max(pages, chunks));
    let mut groups = HashSet::new();
    while let Some((group, entries)) = buffer.fullest() {
        assert!(groups.insert(group));
        buffer.remove(group, entries.len());
    }
    assert_eq!((buffer.len(), groups.len()), (0, 5));
}

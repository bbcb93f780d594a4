//! The cost of eviction policies.

use super::super::indexes::{Draws, Layer, Modelled, SHAPE, Watch, failed, log_bars};
use super::{RAM_BYTES_BESIDE, RAM_BYTES_PER_ENTRY, Scale, entries, plan};
use crate::load::{Latencies, mix};
use crate::report::{Section, Table};
use nitro_console::error::Error;
use nitro_console::progress::Progress;
use nitro_device::Reactor;
use nitro_index::FlashIndex;
use nitro_index::bufferhash::{BufferHash, Eviction};
use std::collections::HashSet;
use std::sync::Arc;

/// The hot entries as a share of the entries that the index holds; half of the look-ups are for hot entries.
const HOT: f64 = 0.1;

/// The results of one policy.
struct Policy {
    name: &'static str,
    hits: f64,
    lookup_us: f64,
    insert_us: f64,
    /// Per insertion after a miss: entries that eviction inserted again, bytes written, and bytes read in the
    /// background.
    kept: f64,
    written: f64,
    read_behind: f64,
    /// Erasures per million of these insertions.
    erasures: f64,
}

/// A skewed load: half of the look-ups are for the hot entries, which have the lowest numbers; the others are for the
/// whole range.
#[derive(Clone, Copy)]
struct Skewed {
    hot: u64,
    draws: Draws,
}

impl Skewed {
    fn number(self, n: u64) -> u64 {
        let chance = mix(n ^ 0xABCD_EF00);
        if chance & 1 == 0 { (chance >> 1) % self.hot } else { self.draws.draw(n) }
    }
}

/// The priority policy, which keeps the hot entries.
fn hot_entries(skewed: Skewed) -> Eviction {
    let entries = skewed.draws.entries;
    let keys: HashSet<[u8; 8]> = (0..skewed.hot).filter_map(|n| entries.key(n).first_chunk::<8>().copied()).collect();
    Eviction::Priority(Arc::new(move |key: &[u8], _: &[u8]| {
        key.first_chunk::<8>().is_some_and(|first| keys.contains(first))
    }))
}

pub(super) fn section(scale: &Scale) -> Result<Section, Error> {
    let count = scale.eviction_entries;
    let held = plan(count, count * RAM_BYTES_PER_ENTRY + RAM_BYTES_BESIDE)?.entries;
    let skewed = Skewed { hot: (held as f64 * HOT) as u64, draws: Draws { entries: entries(), range: held * 4 } };
    let kinds = [("FIFO", Eviction::Fifo), ("LRU", Eviction::Lru), ("priority", hot_entries(skewed))];
    let policies = kinds.into_iter().map(|(name, eviction)| run(name, eviction, skewed, count));
    let policies = policies.collect::<Result<Vec<_>, _>>()?;
    let columns = [
        "",
        "hits",
        "look-up, µs",
        "insertion, µs",
        "inserted again",
        "bytes written",
        "bytes read in the background",
        "erasures per million",
    ];
    let mut table = Table::new("Eviction policies: figures per insertion after a miss", &columns);
    let mut bars = Vec::new();
    for policy in &policies {
        table.rows.push(vec![
            policy.name.to_owned(),
            format!("{:.1} %", policy.hits * 100.0),
            format!("{:.2}", policy.lookup_us),
            format!("{:.3}", policy.insert_us),
            format!("{:.3}", policy.kept),
            format!("{:.1}", policy.written),
            format!("{:.1}", policy.read_behind),
            format!("{:.0}", policy.erasures),
        ]);
        let heights = [policy.lookup_us, policy.insert_us, policy.written];
        bars.push((policy.name.to_owned(), heights.map(Some).to_vec()));
    }
    Ok(Section {
        id: "clam-eviction",
        title: "Eviction policies".into(),
        text: format!(
            "A cache of {held} entries on the modelled page-mapped SSD: each drawn key is looked up, and inserted \
             after a miss. Half of the draws are from hot entries, whose number is {:.0} % of the entries that the \
             index holds; the other draws are from four times as many entries as it holds. LRU inserts entries again \
             that are found in the older half of the incarnations; the priority policy reads each incarnation before \
             it is evicted, and inserts the hot entries again. FIFO costs least, as the paper says; the other policies \
             have more hits.",
            HOT * 100.0
        ),
        charts: vec![log_bars(
            "Cost of a policy",
            "µs; bytes",
            &["look-up, µs", "insertion, µs", "bytes written per insertion"],
            bars,
        )],
        tables: vec![table],
        ..Section::default()
    })
}

fn run(name: &'static str, eviction: Eviction, skewed: Skewed, count: u64) -> Result<Policy, Error> {
    let reactor = Reactor::new().map_err(|e| failed(&e))?;
    let plan = plan(count, count * RAM_BYTES_PER_ENTRY + RAM_BYTES_BESIDE)?;
    let ssd = Modelled::new(Layer::PageMapped, plan.flash_bytes)?;
    let watch = Watch::modelled(ssd.clock.clone());
    let made = BufferHash::create(Arc::clone(&ssd.device), plan, eviction, 0x5EED);
    let index = reactor.block_on(made).map_err(|e| failed(&e))?;
    let (warm, measured) = (plan.entries * 3, plan.entries * 3);
    let progress = Progress::counting(warm + measured, "operations");
    let show = |n| progress.show(n);
    reactor.block_on(cache(&index, skewed, 0..warm, &watch, show)).map_err(|e| failed(&e))?;
    let (before, kept, worn) = (index.counters(), index.kept(), ssd.counters());
    let seen = reactor.block_on(cache(&index, skewed, warm..warm + measured, &watch, show)).map_err(|e| failed(&e))?;
    progress.end();
    let (after, wear) = (index.counters(), ssd.counters().since(&worn));
    let missed = (seen.looked - seen.hits).max(1) as f64;
    Ok(Policy {
        name,
        hits: seen.hits as f64 / seen.looked.max(1) as f64,
        lookup_us: seen.lookups.mean_us(),
        insert_us: seen.inserts.mean_us(),
        kept: (index.kept() - kept) as f64 / missed,
        written: (after.written_bytes - before.written_bytes) as f64 / missed,
        read_behind: (after.background_read_bytes - before.background_read_bytes) as f64 / missed,
        erasures: wear.erasures as f64 * 1e6 / missed,
    })
}

struct Seen {
    lookups: Latencies,
    inserts: Latencies,
    looked: u64,
    hits: u64,
}

/// Looks up entries, and inserts those that are missing.
async fn cache(
    index: &impl FlashIndex,
    skewed: Skewed,
    numbers: std::ops::Range<u64>,
    watch: &Watch,
    show: impl Fn(u64),
) -> Result<Seen, nitro_index::Error> {
    let entries = skewed.draws.entries;
    let mut seen = Seen { lookups: Latencies::default(), inserts: Latencies::default(), looked: 0, hits: 0 };
    debug_assert_eq!(entries.0, SHAPE);
    for n in numbers {
        let number = skewed.number(n);
        let (key, value) = (entries.key(number), entries.value(number));
        let (found, took) = watch.time(index.get(&key)).await;
        seen.lookups.add(took);
        seen.looked += 1;
        if found?.is_some() {
            seen.hits += 1;
        } else {
            let (entered, took) = watch.time(index.insert(&key, &value)).await;
            entered?;
            seen.inserts.add(took);
        }
        if n % 1024 == 0 {
            show(n);
        }
    }
    Ok(seen)
}

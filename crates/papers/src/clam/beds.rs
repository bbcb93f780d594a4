//! The tables under load: BufferHash and a conventional hash table, on this machine's SSD and on modelled SSDs.

use super::super::indexes::{
    Conventional, Draws, KeyValue, Layer, Load, Modelled, ModelledDevice, Scratch, Timed, Watch, failed, load,
};
use super::{HITS, RAM_BYTES_BESIDE, RAM_BYTES_PER_ENTRY, Scale, entries, plan};
use crate::report::say;
use crate::settings::IndexPaper;
use nitro_console::error::Error;
use nitro_console::progress::Progress;
use nitro_device::{FileDevice, Reactor};
use nitro_index::FlashIndex;
use nitro_index::bufferhash::{BufferHash, Eviction, Plan};
use nitro_model::Counters;
use nitro_port::Device;
use std::sync::Arc;

/// The shares of look-ups that are measured (the paper's table of workloads).
pub(super) const SHARES: [f64; 3] = [0.0, 0.5, 1.0];
/// The seed of all indexes; the load is the same in every run.
const SEED: u64 = 0x5EED;

/// The results of one table.
pub(super) struct Bed {
    /// The name in charts.
    pub(super) name: &'static str,
    /// The load in which each drawn key is looked up, then inserted.
    pub(super) pairs: Timed,
    /// The mean time of an operation in microseconds, for each of [`SHARES`].
    pub(super) mixes: [f64; 3],
    /// The counters of the modelled SSD over all loads, and the number of insertions.
    pub(super) wear: Option<Counters>,
    pub(super) inserted: u64,
}

/// The results of all tables.
pub(super) struct Beds {
    pub(super) here: Bed,
    pub(super) here_plain: Bed,
    pub(super) mapped: Bed,
    pub(super) mapped_plain: Bed,
    pub(super) hybrid: Bed,
    pub(super) hybrid_plain: Bed,
}

/// The sizes of a BufferHash that fills a modelled SSD.
pub(super) fn modelled_plan(scale: &Scale) -> Result<Plan, Error> {
    // An entry takes 33 bytes; a part of the SSD is left for the journal.
    let count = scale.modelled_bytes * 10 / 11 / 33;
    plan(count, count * RAM_BYTES_PER_ENTRY + RAM_BYTES_BESIDE)
}

impl Beds {
    pub(super) fn measure(args: &IndexPaper, scale: &Scale) -> Result<Self, Error> {
        let reactor = Reactor::new().map_err(|e| failed(&e))?;
        Ok(Self {
            here: real(args, scale, &reactor)?,
            here_plain: real_plain(args, scale, &reactor)?,
            mapped: modelled("BufferHash, page-mapped SSD", Layer::PageMapped, scale, &reactor)?,
            mapped_plain: modelled_plain("conventional, page-mapped SSD", Layer::PageMapped, scale, &reactor)?,
            hybrid: modelled("BufferHash, hybrid SSD", Layer::Hybrid, scale, &reactor)?,
            hybrid_plain: modelled_plain("conventional, hybrid SSD", Layer::Hybrid, scale, &reactor)?,
        })
    }

    pub(super) fn all(&self) -> [&Bed; 6] {
        [&self.here, &self.here_plain, &self.mapped, &self.mapped_plain, &self.hybrid, &self.hybrid_plain]
    }
}

/// A table that is laid out, before its loads.
struct Ready<'a, T> {
    name: &'static str,
    table: &'a T,
    draws: Draws,
    /// The first draw that was not inserted yet.
    next: u64,
    operations: u64,
    watch: Watch,
    counters: &'a dyn Fn() -> Option<Counters>,
}

impl<T: KeyValue> Ready<'_, T> {
    /// Runs all loads, beginning with pairs of look-up and insertion.
    fn measure(self, reactor: &Reactor) -> Result<Bed, Error> {
        let Self { name, table, draws, next, operations, watch, counters } = self;
        let before = counters();
        let step = |number: u64, lookups: Option<f64>| {
            let of = Load { draws, count: operations, first: next + number * operations, lookups };
            let progress = Progress::counting(operations, "operations");
            let timed = reactor.block_on(load(table, of, &watch, |n| progress.show(n)));
            progress.end();
            check(name, timed.map_err(|e| failed(&e))?)
        };
        say(&format!("{name}: look-ups, then insertions"));
        let pairs = step(0, None)?;
        let mut inserted = pairs.inserted;
        say(&format!("{name}: look-ups and insertions, mixed"));
        let mut mixes = [0.0; SHARES.len()];
        for (number, (share, mean)) in (1..).zip(SHARES.iter().zip(&mut mixes)) {
            let timed = step(number, Some(*share))?;
            *mean = timed.mean_us();
            inserted += timed.inserted;
        }
        let wear = counters().zip(before).map(|(after, before)| after.since(&before));
        Ok(Bed { name, pairs, mixes, wear, inserted })
    }
}

fn check(name: &str, timed: Timed) -> Result<Timed, Error> {
    if timed.wrong > 0 {
        return Err(Error::new(name, format!("{} values were wrong", timed.wrong)).or("please report this"));
    }
    Ok(timed)
}

/// The number of draws after which an index is full and evicts.
pub(super) fn until_full(plan: &Plan) -> u64 {
    plan.entries * 11 / 10
}

fn real(args: &IndexPaper, scale: &Scale, reactor: &Reactor) -> Result<Bed, Error> {
    let plan = scale.plan()?;
    let (_scratch, device) = Scratch::create(args, "clam", plan.flash_bytes)?;
    let index = reactor.block_on(BufferHash::create(device, plan, Eviction::Fifo, SEED)).map_err(|e| failed(&e))?;
    let index = Arc::new(index);
    let (draws, count) = (Draws::hitting(entries(), plan.entries, HITS), until_full(&plan));
    let progress = Progress::counting(count, "entries inserted");
    let enter = async move |index: &BufferHash<Arc<FileDevice>>, n| {
        let number = draws.draw(n);
        FlashIndex::insert(index, &draws.entries.key(number), &draws.entries.value(number)).await.map(|()| true)
    };
    say("BufferHash, this SSD: fill");
    args.drive(2).run(&index, 0..count, enter, |n| progress.show(n))?;
    progress.end();
    let ready = Ready {
        name: "BufferHash, this SSD",
        table: &*index,
        draws,
        next: count,
        operations: scale.operations,
        watch: Watch::real(),
        counters: &|| None,
    };
    ready.measure(reactor)
}

/// A BufferHash on a modelled SSD.
pub(super) type ModelledIndex = BufferHash<Arc<ModelledDevice>>;

/// A new BufferHash on a modelled SSD that it fills.
pub(super) fn on_modelled(layer: Layer, plan: Plan, reactor: &Reactor) -> Result<(ModelledIndex, Modelled), Error> {
    let ssd = Modelled::new(layer, plan.flash_bytes)?;
    let made = BufferHash::create(Arc::clone(&ssd.device), plan, Eviction::Fifo, SEED);
    Ok((reactor.block_on(made).map_err(|e| failed(&e))?, ssd))
}

/// Inserts the draws 0 to `count`, with progress.
pub(super) fn inserted(
    table: &impl KeyValue,
    (draws, count): (Draws, u64),
    watch: &Watch,
    reactor: &Reactor,
) -> Result<Timed, Error> {
    let progress = Progress::counting(count, "entries inserted");
    let fill = Load { draws, count, first: 0, lookups: Some(0.0) };
    let timed = reactor.block_on(load(table, fill, watch, |n| progress.show(n))).map_err(|e| failed(&e))?;
    progress.end();
    Ok(timed)
}

fn modelled(name: &'static str, layer: Layer, scale: &Scale, reactor: &Reactor) -> Result<Bed, Error> {
    let plan = modelled_plan(scale)?;
    let (index, ssd) = on_modelled(layer, plan, reactor)?;
    let (draws, count) = (Draws::hitting(entries(), plan.entries, HITS), until_full(&plan));
    say(&format!("{name}: fill"));
    let watch = Watch::modelled(ssd.clock.clone());
    inserted(&index, (draws, count), &watch, reactor)?;
    let counters = || Some(ssd.counters());
    // Few of the operations write: more are needed to measure the cost of writes.
    let operations = scale.modelled_operations * 8;
    Ready { name, table: &index, draws, next: count, operations, watch, counters: &counters }.measure(reactor)
}

/// The number of entries, from 0, that are laid out.
fn held(draws: Draws) -> u64 {
    (draws.range as f64 * HITS) as u64
}

/// A conventional table that holds a share [`HITS`] of the range of `draws`.
async fn laid_out<D: Device>(device: D, draws: Draws, room: u64) -> Result<Conventional<D>, Error> {
    Conventional::create(device, draws.entries, room, 0..held(draws)).await.map_err(|e| failed(&e))
}

fn real_plain(args: &IndexPaper, scale: &Scale, reactor: &Reactor) -> Result<Bed, Error> {
    let (room, draws) = (scale.plain_entries, plain_draws(scale.plain_entries));
    let bytes = Conventional::<Arc<FileDevice>>::bytes_for(entries(), room);
    let (_scratch, device) = Scratch::create(args, "clam-conventional", bytes)?;
    let table = reactor.block_on(laid_out(device, draws, room))?;
    let ready = Ready {
        name: "conventional, this SSD",
        table: &table,
        draws,
        next: 0,
        operations: scale.plain_operations,
        watch: Watch::real(),
        counters: &|| None,
    };
    ready.measure(reactor)
}

/// Draws from a range of which a share [`HITS`] is in the table; the table has room for the insertions of the load.
fn plain_draws(room: u64) -> Draws {
    Draws { entries: entries(), range: room * 2 }
}

/// A conventional table on a modelled SSD whose pages were all written at random.
pub(super) struct Aged {
    pub(super) table: Conventional<Arc<ModelledDevice>>,
    pub(super) ssd: Modelled,
    pub(super) draws: Draws,
    /// The first draw that was not inserted yet.
    next: u64,
}

impl Aged {
    /// Lays the table out, and ages it.
    pub(super) fn new(name: &str, layer: Layer, scale: &Scale, reactor: &Reactor) -> Result<Self, Error> {
        // A page has 127 entries, and 70 % of the pages' capacity is used.
        let room = scale.modelled_bytes / 4096 * 127 * 7 / 10;
        let draws = plain_draws(room);
        let ssd = Modelled::new(layer, scale.modelled_bytes)?;
        let table = reactor.block_on(laid_out(Arc::clone(&ssd.device), draws, room))?;
        // As many pages as the SSD has are written at random first, so that the log is full and merges are under way.
        say(&format!("{name}: random writes"));
        let next = scale.modelled_bytes / 4096;
        inserted(&table, (draws, next), &Watch::modelled(ssd.clock.clone()), reactor)?;
        Ok(Self { table, ssd, draws, next })
    }

    /// The numbers of entries from 0 that it holds for certain.
    pub(super) fn held(&self) -> u64 {
        held(self.draws)
    }
}

fn modelled_plain(name: &'static str, layer: Layer, scale: &Scale, reactor: &Reactor) -> Result<Bed, Error> {
    let Aged { table, ssd, draws, next } = Aged::new(name, layer, scale, reactor)?;
    let watch = Watch::modelled(ssd.clock.clone());
    let counters = || Some(ssd.counters());
    let operations = scale.modelled_operations;
    Ready { name, table: &table, draws, next, operations, watch, counters: &counters }.measure(reactor)
}

//! Figures 9 and 10 by the length of the runs of chunks that change together.

use super::aged::{Cost, Costs, alone, cached};
use super::bed::{Bed, CHUNK_BYTES};
use super::{Runs, Scale, restore};
use crate::report::{Table, say};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_testkit::VirtualTime;

/// The lengths of runs, in chunks: a chunk, a region, and eight regions.
const RUN_CHUNKS: [usize; 3] = [1, 8, 64];
/// The sizes of reads, in bytes.
const SIZES: [u64; 3] = [8 << 10, 128 << 10, 1 << 20];

/// The figures of one length.
pub(super) struct OfLength {
    run_chunks: usize,
    /// Reads of the first generation: of the store alone, and with a cache.
    young: [Costs; 2],
    /// Reads of the last one.
    aged: [Costs; 2],
    /// The overlap of the oldest generations with the last one.
    overlap: f64,
    /// The time to restore them with (D, C), over that with (ND, C).
    restored: f64,
}

async fn reads(bed: &mut Bed, scale: &Scale, generation: usize) -> Result<[Costs; 2], Error> {
    Ok([alone(bed, scale, generation, &SIZES).await?, cached(bed, scale, generation, &SIZES).await?])
}

/// Ages a store with each length.
pub(super) async fn measure(scale: Scale, clock: &VirtualTime) -> Result<Vec<OfLength>, Error> {
    let mut all = Vec::new();
    for run_chunks in RUN_CHUNKS {
        say(&format!("changes in runs of {}", Size(run_chunks as u64 * CHUNK_BYTES)));
        let scale = Scale { runs: Runs::Equal(run_chunks), ..scale };
        let mut bed = Bed::new(scale, clock.clone()).await?;
        bed.age(1).await?;
        let young = reads(&mut bed, &scale, 1).await?;
        bed.reopen().await?;
        bed.age(scale.generations).await?;
        let aged = reads(&mut bed, &scale, scale.generations).await?;
        let (overlap, restored) = restore::oldest(&mut bed, &scale).await?;
        all.push(OfLength { run_chunks, young, aged, overlap, restored });
    }
    Ok(all)
}

/// The tables of Figure 9 and of Figure 10.
pub(super) fn tables(all: &[OfLength]) -> [Table; 2] {
    let columns = [
        "length of runs",
        "size of a read",
        "COS, ms",
        "times as long when aged",
        "requests",
        "times as many when aged",
        "Nitro COS, ms",
        "times as long when aged",
    ];
    let mut reads = Table::new("By the length of the runs that change", &columns);
    let columns = ["length of runs", "overlap of the oldest", "time of (D, C) divided by that of (ND, C)"];
    let mut restores = Table::new("The oldest snapshots by the length of the runs that change", &columns);
    for of in all {
        let length = Size(of.run_chunks as u64 * CHUNK_BYTES).to_string();
        reads.rows.extend(SIZES.iter().enumerate().map(|(at, size)| {
            let mut row = vec![length.clone(), Size(*size).to_string()];
            row.extend(of.row(at));
            row
        }));
        restores.rows.push(vec![length, format!("{:.0} %", of.overlap * 100.0), format!("{:.3}", of.restored)]);
    }
    [reads, restores]
}

impl OfLength {
    /// The figures of the reads of one size.
    fn row(&self, at: usize) -> [String; 6] {
        let pair = |system: usize, figure: fn(&Cost) -> f64, decimals: usize| {
            let of = |costs: &[Costs; 2]| costs[system].get(at).map_or(0.0, figure);
            let (young, aged) = (of(&self.young), of(&self.aged));
            [format!("{young:.decimals$}"), format!("{:.2}", aged / young)]
        };
        let [ms, longer] = pair(0, |cost| cost.milliseconds, 1);
        let [requests, more] = pair(0, |cost| cost.requests, 2);
        let [nitro, nitro_longer] = pair(1, |cost| cost.milliseconds, 1);
        [ms, longer, requests, more, nitro, nitro_longer]
    }
}

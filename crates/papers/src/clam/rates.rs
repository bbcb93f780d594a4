//! Operations per dollar, and the wear of the flash.

use super::super::indexes::log_bars;
use super::beds::{Bed, Beds};
use crate::report::{Holds, Section, Table, Verdict};

/// Operations per second per dollar of the paper's BufferHash.
const LOOKUPS: f64 = 42.0;
const INSERTS: f64 = 420.0;
const DRAM: f64 = 2.5;

/// Look-ups and insertions per second, one at a time.
fn rates(bed: &Bed) -> [f64; 2] {
    [&bed.pairs.lookups, &bed.pairs.inserts].map(|all| 1e6 / all.mean_us())
}

/// Claim B4.
pub(super) fn dollars(beds: &Beds, dollars: f64) -> Section {
    let mut table = Table::new(
        "Operations a second, and per dollar",
        &["", "look-ups/s", "insertions/s", "dollars", "look-ups/s/$", "insertions/s/$"],
    );
    let mut bars = Vec::new();
    for bed in [&beds.here, &beds.here_plain, &beds.mapped, &beds.mapped_plain] {
        let [lookups, inserts] = rates(bed);
        let cells =
            [lookups, inserts, dollars, lookups / dollars, inserts / dollars].map(|value| format!("{value:.1}"));
        table.rows.push(std::iter::once(bed.name.to_owned()).chain(cells).collect());
        bars.push((bed.name.to_owned(), vec![Some(lookups / dollars), Some(inserts / dollars)]));
    }
    let theirs = [
        ("the paper: BufferHash, 4 GB of RAM and an SSD of 32 GB", ["16000", "160000", "400", "42", "420"]),
        ("the paper: DRAM, 128 GB", ["300000", "300000", "120000", "2.5", "2.5"]),
    ];
    for (name, cells) in theirs {
        table.rows.push(std::iter::once(name).chain(cells).map(str::to_owned).collect());
    }
    bars.push(("the paper: BufferHash".to_owned(), vec![Some(LOOKUPS), Some(INSERTS)]));
    bars.push(("the paper: DRAM".to_owned(), vec![Some(DRAM), Some(DRAM)]));
    let [lookups, inserts] = rates(&beds.here).map(|rate| rate / dollars);
    let found = format!(
        "{lookups:.0} look-ups and {inserts:.0} insertions per second per dollar, if this machine costs {dollars:.0} dollars"
    );
    Section {
        id: "clam-dollars",
        title: "Operations per second per dollar".into(),
        text: format!(
            "Computed from the mean latencies of one operation at a time; SSD and RAM are assumed to cost {dollars:.0} \
             dollars (the paper's cost 400 at prices of 2009: an SSD of 128 GB from 225 dollars, DRAM of that size \
             from 120,000 dollars). The price of this machine's SSD is not known; --dollars sets another price."
        ),
        charts: vec![log_bars("Operations a second per dollar", "operations/s/$", &["look-ups", "insertions"], bars)],
        tables: vec![table],
        verdicts: vec![Verdict::new("B4", found, Holds::NotComparable).noting(
            "this divides the rates of today's hardware by a price of 2009: neither drive nor prices are the \
             paper's. What would settle it: the price of this machine's SSD and RAM, and the price of as much DRAM \
             in the same year",
        )],
    }
}

/// The wear that insertions cause on the modelled SSDs.
pub(super) fn wear(beds: &Beds) -> Section {
    let mut table = Table::new(
        "Per million insertions, on the modelled SSD",
        &["", "pages written", "write amplification", "erasures", "mean ms per insertion"],
    );
    let mut bars = Vec::new();
    for bed in [&beds.mapped, &beds.mapped_plain, &beds.hybrid, &beds.hybrid_plain] {
        let Some(wear) = bed.wear else { continue };
        let each = 1e6 / bed.inserted.max(1) as f64;
        let erasures = wear.erasures as f64 * each;
        let row = [
            bed.name.to_owned(),
            format!("{:.0}", wear.host_writes as f64 * each),
            format!("{:.2}", wear.write_amplification()),
            format!("{erasures:.0}"),
            format!("{:.3}", bed.pairs.inserts.mean_us() / 1000.0),
        ];
        table.rows.push(row.to_vec());
        bars.push((bed.name.to_owned(), vec![Some(erasures)]));
    }
    Section {
        id: "clam-erasures",
        title: "Conventional hash table on flash: erasures".into(),
        text: "Figures for a statement of the talk: insertions in place are random writes of single pages, each of \
               which costs the SSD copies and erasures; incarnations are written in sequence, and leave whole blocks \
               of garbage. Pages have 4 KiB, erase blocks 128 KiB, over-provisioning is 7 %; the SSDs are full, and \
               were overwritten before the measurement."
            .into(),
        charts: vec![log_bars("Erasures per million insertions", "erasures", &["erasures"], bars)],
        tables: vec![table],
        ..Section::default()
    }
}

//! RAM per entry and flash reads per look-up: published systems, and this one (claim S1).

use super::super::indexes::{SHAPE, failed};
use super::Scale;
use super::memory::{STORES, WITHOUT_HASH_STORES, WRITES, amplification};
use super::queries::Alone;
use super::served::Served;
use crate::load::{Drive, Entries};
use crate::report::{Band, Chart, Holds, Point, Points, Section, Table, Verdict};
use nitro_console::error::Error;
use nitro_device::{RamDevice, Reactor};
use nitro_index::bufferhash::{self, BufferHash, Eviction};
use nitro_index::{FlashIndex, Options};
use std::sync::Arc;

/// Published figures: bytes of RAM for each entry, flash reads for each look-up, and their source. Those with "about"
/// are estimated from the order of the systems between the marks of the axis on the talk's slide.
const PUBLISHED: [(&str, f64, f64, &str); 6] = [
    ("SkimpyStash", 1.0, 5.0, "SIGMOD 2011: 1 ± 0.5 bytes; reads: about, between 4 and 6 on the slide"),
    ("HashCache", 1.4, 4.5, "NSDI 2009: 11 bits (SetMem); reads: about, between 4 and 6 on the slide"),
    (
        "BufferHash",
        4.0,
        3.0,
        "NSDI 2010: 4 GB for 32 GB of entries of 32 bytes; reads: about, between 2 and 4 on the slide",
    ),
    ("FlashStore", 6.0, 1.1, "VLDB 2010: 6 bytes; reads: about 1, below 2 on the slide"),
    (
        "FAWN-DS",
        12.0,
        1.0,
        "SOSP 2009: entries of 6 bytes, half of the table full; reads: about 1, below 2 on the slide",
    ),
    ("SILT", 0.7, 1.01, "SOSP 2011, and the talk"),
];
/// The paper's figures.
const RAM_BYTES: f64 = 0.7;
const READS: f64 = 1.01;
/// The maximum number of entries of the BufferHash that is measured for comparison: its figures do not depend on the
/// number.
const BUFFERHASH_ENTRIES_MAX: u64 = 1_000_000;

/// Bytes of RAM for each entry, and pages read for each look-up of an existing entry.
struct Place {
    ram_bytes: f64,
    reads: f64,
}

/// Measures a BufferHash with its paper's RAM, on a device in RAM: the kind of device changes neither figure.
fn bufferhash(scale: &Scale) -> Result<Place, Error> {
    let count = scale.entries.min(BUFFERHASH_ENTRIES_MAX);
    let options = Options { shape: SHAPE, entries: count, ram_bytes: count * 4 + (800 << 10) };
    let plan = bufferhash::Plan::new(&options).map_err(|e| failed(&e))?;
    let reactor = Reactor::new().map_err(|e| failed(&e))?;
    let device = Arc::new(RamDevice::new(plan.flash_bytes, 4096));
    let made = reactor.block_on(BufferHash::create(device, plan, Eviction::Fifo, 0x5EED));
    let index = Arc::new(made.map_err(|e| failed(&e))?);
    let (entries, drive) = (Entries(SHAPE), Drive { threads: 1, depth: 1 });
    let enter = async move |index: &BufferHash<Arc<RamDevice>>, n| {
        index.insert(&entries.key(n), &entries.value(n)).await.map(|()| true)
    };
    drive.run(&index, 0..count, enter, |_| ())?;
    let look = async move |index: &BufferHash<Arc<RamDevice>>, n| {
        Ok(index.get(&entries.key(n)).await?.is_some_and(|value| value[..] == *entries.value(n)))
    };
    let looked = drive.run(&index, 0..count, look, |_| ())?;
    if looked.wrong > 0 {
        return Err(Error::new("BufferHash", format!("{} entries were not found", looked.wrong)));
    }
    let counters = index.counters();
    Ok(Place {
        ram_bytes: counters.ram_bytes as f64 / plan.entries as f64,
        reads: counters.hit_reads as f64 / counters.hits.max(1) as f64,
    })
}

/// Judges S1.
pub(super) fn section(served: &Served, alone: &Alone, scale: &Scale) -> Result<Section, Error> {
    let buffered = bufferhash(scale)?;
    let most = served.filling.iter().map(|sample| sample.ram_bytes).max().unwrap_or(0);
    let silt = Place { ram_bytes: most as f64 / served.entries as f64, reads: served.reads_per_hit };
    let ours = [("BufferHash here", &buffered), ("SILT here", &silt)];
    let mut table = Table::new("The landscape", &["", "bytes of RAM per entry", "flash reads per look-up", "from"]);
    for (name, ram, reads, from) in PUBLISHED {
        table.rows.push(vec![name.to_owned(), format!("{ram}"), format!("{reads}"), from.to_owned()]);
    }
    for (name, place) in ours {
        let cells = [format!("{:.2}", place.ram_bytes), format!("{:.3}", place.reads), "measured".to_owned()];
        table.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    }
    let point = |name: &str, x, y| Point { name: name.to_owned(), x, y };
    let published = PUBLISHED.map(|(name, ram, reads, _)| point(name, ram, reads)).to_vec();
    let measured = ours.map(|(name, place)| point(name, place.ram_bytes, place.reads)).to_vec();
    Ok(Section {
        id: "silt-landscape",
        title: "The landscape".into(),
        text: format!(
            "RAM per entry and flash reads per look-up of an existing entry; smaller is better. The chart shows \
             published figures, and figures measured here: a SILT of {} entries, with its maximum RAM during the fill, \
             and a BufferHash with entries of 20 + 12 bytes and 4 bytes of RAM per entry.",
            served.entries
        ),
        charts: vec![Chart::Points(Points {
            title: "Memory overhead and read amplification".into(),
            x_label: "bytes of RAM per entry".into(),
            y_label: "flash reads per look-up".into(),
            kinds: vec![("published".into(), published), ("measured here".into(), measured)],
        })],
        tables: vec![table],
        verdicts: vec![verdict(served, &silt, alone.bytes())],
    })
}

fn verdict(served: &Served, silt: &Place, stores: [f64; 3]) -> Verdict {
    let writes = amplification(served);
    let found = format!(
        "bytes of RAM per entry: {:.2} at most during the fill, {:.2} at rest; {:.3} flash reads per look-up; \
         {writes:.2} bytes written per byte inserted; bytes of RAM per entry by kind of store: {}",
        silt.ram_bytes,
        served.rested.ram_bytes as f64 / served.entries as f64,
        silt.reads,
        stores.map(|bytes| format!("{bytes:.2}")).join(", ")
    );
    Verdict::new("S1", found, judge([silt.ram_bytes, silt.reads, writes], stores)).because(
        "RAM that does not grow with the number of entries (buffers, partly filled logs) is divided among few entries \
         here, and a small index merges more often for its size; a page of 4 KiB holds three entries of 1020 bytes, \
         and a quarter of it is empty; and the tables of our logs hold fewer bits of a key than the paper's",
    )
}

/// S1: RAM bytes for each entry, flash reads for each look-up, and write amplification; and RAM bytes for each entry of
/// log, hash and sorted store.
fn judge(found: [f64; 3], stores: [f64; 3]) -> Holds {
    let near = |found: [f64; 3], theirs: [f64; 3]| (0..3).all(|n| Band::at(theirs[n]).has(found[n]));
    // The order of the claim: each store takes less RAM than the one before it, and all together less than without hash
    // stores; a look-up takes about one read.
    let order = stores[0] > stores[1] && stores[1] > stores[2] && found[0] < WITHOUT_HASH_STORES && found[1] < 1.25;
    Holds::of(near(found, [RAM_BYTES, READS, WRITES]) && near(stores, STORES), order && found[2] < 2.0 * WRITES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_can_fail() {
        assert_eq!(judge([RAM_BYTES, READS, WRITES], STORES), Holds::Holds);
        // Less RAM is not the paper's figure either.
        assert_eq!(judge([0.45, READS, WRITES], [4.4, 2.1, 0.04]), Holds::InDirection);
        assert_eq!(judge([1.4, READS, WRITES], STORES), Holds::DoesNot);
        assert_eq!(judge([RAM_BYTES, 2.0, WRITES], STORES), Holds::DoesNot);
        assert_eq!(judge([RAM_BYTES, READS, 12.0], STORES), Holds::DoesNot);
        assert_eq!(judge([RAM_BYTES, READS, WRITES], [6.5, 2.2, 3.0]), Holds::DoesNot);
    }
}

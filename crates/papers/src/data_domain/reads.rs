//! D1: the requests of the disk for a random read of 8 KiB, one by one.

use super::Work;
use super::bed::{Design, Image, Kind, Requests, System, check};
use super::failed;
use crate::report::{Band, Bars, Chart, Holds, Section, Table, Verdict};
use crate::store::bed::{CHUNK_BYTES, Draws};
use hashbrown::HashMap;
use nitro_console::error::Error;
use nitro_cos::{Fpi, Settings, SsdOptions};

/// Requests of the paper for a read: without an SSD, with the FMD cache, and with the data cache.
const PAPER: [f64; 3] = [8.0, 4.0, 0.0];
/// A read whose mean number of requests is below this asks the disk for nothing.
const NOTHING: f64 = 0.05;
/// The share of index requests in random reads, by the paper.
pub(super) const INDEX_SHARE: f64 = 0.5;

/// The requests of reads in one design.
struct Counted {
    name: &'static str,
    /// The mean of each kind.
    mean: [f64; Kind::ALL.len()],
    requests: Requests,
    /// The most frequent sequence, and its share of the reads.
    usual: (Vec<Kind>, f64),
}

impl Counted {
    fn of(name: &'static str, reads: &[Vec<Kind>]) -> Self {
        let requests = Requests::of(&reads.concat());
        let mut times: HashMap<&[Kind], usize> = HashMap::new();
        reads.iter().for_each(|read| *times.entry(read).or_default() += 1);
        // Of sequences that are equally frequent, the longest, so that the result does not depend on the order of a map.
        let usual = times.into_iter().max_by_key(|(kinds, times)| (*times, kinds.len()));
        let usual = usual.map_or((Vec::new(), 0.0), |(k, times)| (k.to_vec(), times as f64 / reads.len() as f64));
        Self { name, mean: requests.0.map(|count| count as f64 / reads.len() as f64), requests, usual }
    }

    fn total(&self) -> f64 {
        self.mean.iter().sum()
    }

    /// The usual sequence in words.
    fn told(&self) -> String {
        let names: Vec<_> = self.usual.0.iter().map(|kind| kind.name()).collect();
        let share = self.usual.1 * 100.0;
        if names.is_empty() {
            format!("none ({share:.0} %)")
        } else {
            format!("{} ({share:.0} %)", names.join(" → "))
        }
    }
}

/// What is on the SSD.
fn only(fmd: bool, data: bool) -> SsdOptions {
    SsdOptions { fmd, data, fpi: Fpi::Off, ..SsdOptions::default() }
}

fn designs(image: &Image) -> [(&'static str, Design); 7] {
    // Only what a read itself waits for.
    let paper = Design::paper();
    let paper = Design { settings: Settings { nsio_prefetch_bytes: 0, ..paper.settings }, ..paper };
    let bytes = image.ssd_bytes();
    let short = Design { short: true, ..paper };
    [
        ("the paper's store, no SSD", paper),
        ("FMD cache", paper.with_ssd(only(true, false), bytes)),
        ("fingerprint cache (FPI)", short),
        ("FMD and FPI", short.with_ssd(only(true, false), bytes)),
        ("FMD, FPI and data", short.with_ssd(only(true, true), bytes)),
        ("our store, no SSD", Design::own()),
        ("our store, with SSD", Design::own().with_ssd(SsdOptions::default(), bytes)),
    ]
}

/// Reads chunks of the volume. Returns the requests of each read.
async fn read(system: &System, image: &Image, chunks: &[usize]) -> Result<Vec<Vec<Kind>>, Error> {
    let volume = system.volume().await?;
    let mut reads = Vec::new();
    for chunk in chunks.iter().copied() {
        system.take();
        let read = volume.read_range(chunk as u64 * CHUNK_BYTES, CHUNK_BYTES as usize).await.map_err(|e| failed(&e))?;
        check(&read, &image.contents[chunk..=chunk])?;
        reads.push(system.take());
    }
    Ok(reads)
}

/// The section, and the requests of random reads without an SSD.
pub(super) async fn section(image: &Image, work: &Work) -> Result<(Section, Requests), Error> {
    let mut draws = Draws::new(0xD1);
    let chunks: Vec<usize> = (0..work.reads).map(|_| draws.below(image.contents.len() as u64) as usize).collect();
    let mut all = Vec::new();
    for (name, design) in designs(image) {
        let system = System::open(image, &design).await?;
        if design.ssd.is_some() {
            // Another order, so that RAM does not have what comes first.
            let warming: Vec<usize> = chunks.iter().rev().copied().collect();
            read(&system, image, &warming).await?;
        }
        all.push(Counted::of(name, &read(&system, image, &chunks).await?));
    }
    let random = all.first().map(|first| first.requests).unwrap_or_default();
    Ok((shown(&all, work), random))
}

fn shown(all: &[Counted], work: &Work) -> Section {
    let mut columns = vec!["store", "requests of a read"];
    columns.extend(Kind::ALL.iter().map(|kind| kind.name()));
    let mut means = Table::new("Requests of the disk for a random read of 8 KiB, on average", &columns);
    let mut told = Table::new(
        "The most frequent list of requests of a read",
        &["store", "requests", "one by one (share of the reads)"],
    );
    for counted in all {
        let mut row = vec![counted.name.to_owned(), format!("{:.2}", counted.total())];
        row.extend(counted.mean.iter().map(|mean| format!("{mean:.2}")));
        means.rows.push(row);
        told.rows.push(vec![counted.name.to_owned(), counted.usual.0.len().to_string(), counted.told()]);
    }
    let bars = Kind::ALL.iter().enumerate().filter(|(at, _)| all.iter().any(|c| c.requests.0[*at] > 0));
    let chart = Chart::Bars(Bars {
        title: "Requests of the disk for a random read of 8 KiB".into(),
        y_label: "requests a read".into(),
        log_y: false,
        groups: all.iter().map(|counted| counted.name.to_owned()).collect(),
        bars: bars.map(|(at, kind)| (kind.name().to_owned(), all.iter().map(|c| Some(c.mean[at])).collect())).collect(),
    });
    Section {
        id: "data-domain-reads",
        title: "The requests of a random read, one by one".into(),
        text: format!(
            "{} chunks of the images are read at random, one at a time, and each request of the disk is noted with what it is \
             for. The volume is open, so that the directory is not asked; nothing is read ahead. With an SSD, the same \
             chunks were read once before. The recipe's root is in RAM; its other blocks and all chunks are found by their \
             fingerprints: two requests for the index, one for the container's metadata, one for the content. In our own \
             store, recipes have places.",
            work.reads
        ),
        charts: vec![chart],
        tables: vec![told, means],
        verdicts: vec![verdict(all)],
    }
}

fn verdict(all: &[Counted]) -> Verdict {
    let [base, fmd, short, both, data, own, own_ssd] = all else {
        return Verdict::not_judged("D1", "not all designs were measured");
    };
    let found = format!(
        "{:.2} requests without an SSD (usually {}), {:.2} with the FMD cache ({}), {:.2} with the FPI cache alone, {:.2} with \
         both, {:.2} with the data cache; our store: {:.2}, with its SSD {:.2}",
        base.total(),
        base.usual.0.len(),
        fmd.total(),
        fmd.usual.0.len(),
        short.total(),
        both.total(),
        data.total(),
        own.total(),
        own_ssd.total(),
    );
    let why = format!(
        "of the requests without an SSD, {:.0} % are for the index; RAM answers the rest of the paper's {} for {:.0} % of the \
         reads",
        base.requests.index_share() * 100.0,
        PAPER[0],
        (1.0 - base.usual.1) * 100.0
    );
    Verdict::new("D1", found, judge([base.total(), fmd.total(), data.total()])).because(&why)
}

/// D1: mean requests of a read without an SSD, with the FMD cache, and with the data cache.
fn judge([base, fmd, data]: [f64; 3]) -> Holds {
    let near = Band::at(PAPER[0]).has(base) && Band::at(PAPER[1]).has(fmd) && data <= NOTHING;
    Holds::of(near, base > fmd && fmd > data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_can_fail() {
        assert_eq!(judge([8.0, 4.0, 0.0]), Holds::Holds);
        assert_eq!(judge([8.0, 4.0, 1.0]), Holds::InDirection);
        assert_eq!(judge([2.0, 1.0, 0.0]), Holds::InDirection);
        assert_eq!(judge([4.0, 4.0, 0.0]), Holds::DoesNot);
    }

    #[test]
    fn the_usual_list_is_the_most_frequent_one() {
        let usual = vec![Kind::IndexLevel1, Kind::IndexLevel2, Kind::Metadata, Kind::Data];
        let counted = Counted::of("", &[usual.clone(), vec![Kind::Data], usual.clone()]);
        assert_eq!(counted.usual, (usual, 2.0 / 3.0));
        assert_eq!((counted.total(), counted.requests.index()), (3.0, 4));
    }
}

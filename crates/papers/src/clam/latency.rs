//! Latencies: means, distributions, and means by the share of look-ups.

use super::super::indexes::log_bars;
use super::beds::{Bed, Beds, SHARES};
use crate::load::Latencies;
use crate::report::{Band, Chart, Holds, Line, Lines, Section, Table, Verdict};

/// The paper's means in microseconds, of look-ups and insertions.
const BUFFERHASH_US: [f64; 2] = [60.0, 6.0];
const BERKELEYDB_US: [f64; 2] = [4600.0, 4800.0];
/// Means in microseconds of a run on a similar machine. BerkeleyDB did 16.7K hits, 16.8K misses and 12.2K insertions
/// per second, one at a time. RocksDB did 13.6K hits, 340K misses and 179K insertions, which were not synced.
const BERKELEYDB_PEER_US: [f64; 2] = [1e6 / 16.76e3, 1e6 / 12.2e3];
const ROCKSDB_PEER_US: [f64; 2] = [0.4 * 1e6 / 13.6e3 + 0.6 * 1e6 / 340e3, 1e6 / 179e3];
/// The paper's means on the Transcend drive, by the share of look-ups.
const BUFFERHASH_MIX_US: [f64; 3] = [7.0, 90.0, 120.0];
const BERKELEYDB_MIX_US: [f64; 3] = [18_400.0, 10_300.0, 300.0];

fn us(value: f64) -> String {
    match value {
        large if large >= 100.0 => format!("{large:.0}"),
        medium if medium >= 10.0 => format!("{medium:.1}"),
        small => format!("{small:.2}"),
    }
}

fn ms(value_us: f64) -> String {
    let digits = if value_us >= 1000.0 { 1 } else { 4 };
    format!("{:.digits$}", value_us / 1000.0)
}

/// Claim B1.
pub(super) fn means(beds: &Beds) -> Section {
    let mut table = Table::new(
        "Microseconds per operation, 40 % hits",
        &["", "look-up", "insertion", "hits", "99 % of look-ups", "99 % of insertions"],
    );
    for bed in beds.all() {
        let Bed { name, pairs, .. } = bed;
        let p99 = [&pairs.lookups, &pairs.inserts].map(|all| us(all.quantile_us(0.99)));
        let [lookup, insert] = [&pairs.lookups, &pairs.inserts].map(|all| us(all.mean_us()));
        let hits = format!("{:.1} %", pairs.hit_share() * 100.0);
        table.rows.push([(*name).to_owned(), lookup, insert, hits].into_iter().chain(p99).collect());
    }
    let others = [
        ("the paper: BufferHash", BUFFERHASH_US),
        ("the paper: BerkeleyDB", BERKELEYDB_US),
        ("another run: BerkeleyDB 5.3", BERKELEYDB_PEER_US),
        ("another run: RocksDB 7.8", ROCKSDB_PEER_US),
    ];
    for (name, [lookup, insert]) in others {
        let row = [name.to_owned(), us(lookup), us(insert), "40 %".to_owned(), "–".into(), "–".into()];
        table.rows.push(row.to_vec());
    }
    let ours = beds.all().map(|bed| (bed.name, [bed.pairs.lookups.mean_us(), bed.pairs.inserts.mean_us()]));
    let all = ours.into_iter().chain(others).map(|(name, [lookup, insert])| (name.to_owned(), vec![lookup, insert]));
    let bars = all.map(|(name, heights)| (name, heights.into_iter().map(Some).collect())).collect();
    Section {
        id: "clam-latency",
        title: "Average latency".into(),
        text: "One operation at a time. On the modelled SSDs, the time of an operation is the virtual time of the \
               device plus the real time of the processor. The other run's figures are not measured here: they are \
               from 10 million entries on a machine of this kind (BerkeleyDB 5.3 with its hash table, RocksDB 7.8; \
               insertions of several keys at a time)."
            .into(),
        charts: vec![log_bars("Microseconds per operation", "µs", &["look-up", "insertion"], bars)],
        tables: vec![table],
        verdicts: vec![means_verdict(beds)],
    }
}

fn means_verdict(beds: &Beds) -> Verdict {
    let mean = |bed: &Bed| [bed.pairs.lookups.mean_us(), bed.pairs.inserts.mean_us()];
    let ([lookup, insert], [plain_lookup, plain_insert]) = (mean(&beds.here), mean(&beds.here_plain));
    let ([mapped, mapped_insert], [mapped_plain, mapped_plain_insert]) = (mean(&beds.mapped), mean(&beds.mapped_plain));
    let found = format!(
        "this SSD: look-up {} ms, insertion {} ms; a conventional table's {} and {}. Modelled, page-mapped: {} and {}; conventional {} and \
         {}",
        ms(lookup),
        ms(insert),
        ms(plain_lookup),
        ms(plain_insert),
        ms(mapped),
        ms(mapped_insert),
        ms(mapped_plain),
        ms(mapped_plain_insert)
    );
    Verdict::new("B1", found, judge_means([lookup, insert], [plain_lookup, plain_insert])).because(
        "both SSDs and the programs differ: BerkeleyDB's milliseconds were those of a drive of 2008 that collected \
         garbage below random writes. This machine's SSD completes a random write in less than 0.1 ms, so that a \
         conventional table loses less",
    )
}

/// B1: the means of look-ups and insertions in microseconds, of BufferHash and of a conventional table.
fn judge_means(ours: [f64; 2], plain: [f64; 2]) -> Holds {
    let near = |found: [f64; 2], theirs: [f64; 2]| (0..2).all(|n| Band::at(theirs[n]).has(found[n]));
    let order = ours[1] < ours[0] && (0..2).all(|n| ours[n] < plain[n]);
    Holds::of(near(ours, BUFFERHASH_US) && near(plain, BERKELEYDB_US), order)
}

/// B2: the 99th percentiles of insertions and look-ups in microseconds, those of a conventional table, and the
/// percentage of its insertions and look-ups that take over 5 ms, on the SSD with the highest percentage.
fn judge_tails(ours: [f64; 2], plain: [f64; 2], slow: [f64; 2]) -> Holds {
    let under = ours[0] <= 100.0 * 1.25 && ours[1] <= 200.0 * 1.25;
    let near = slow.iter().all(|share| Band::at(40.0).has(*share));
    Holds::of(under && near, under && (0..2).all(|n| ours[n] < plain[n]))
}

/// B3: means in microseconds by the share of look-ups: on this SSD, on the modelled one, and of a conventional table on
/// the modelled one.
fn judge_mixes(here: [f64; 3], hybrid: [f64; 3], plain: [f64; 3]) -> Holds {
    let near = |found: [f64; 3], theirs: [f64; 3]| (0..3).all(|n| Band::at(theirs[n]).has(found[n]));
    let rises = |ours: [f64; 3]| ours[0] < ours[1] && ours[1] < ours[2];
    let falls = plain[0] > plain[1] && plain[1] > plain[2];
    let wins = (0..3).all(|n| hybrid[n] < plain[n]);
    Holds::of(
        near(hybrid, BUFFERHASH_MIX_US) && near(plain, BERKELEYDB_MIX_US),
        rises(here) && rises(hybrid) && falls && wins,
    )
}

/// The points of distributions: microseconds, six points per decade, from 0.1 µs to 1 s.
fn grid() -> impl Iterator<Item = f64> {
    (-6..=36).map(|step| 10f64.powf(f64::from(step) / 6.0))
}

/// A line of a distribution: the share of the operations that took at most a time, in milliseconds.
fn line(name: &str, latencies: &Latencies) -> Line {
    let all = grid().map(|us| (us / 1000.0, latencies.share_within_us(us)));
    let mut points: Vec<(f64, f64)> = all.skip_while(|point| point.1 == 0.0).collect();
    // The line starts at the last point with a share of 0 and ends at the first point with a share of 1.
    let end = points.iter().position(|point| point.1 == 1.0).map_or(points.len(), |at| at + 1);
    points.truncate(end);
    Line { name: name.to_owned(), points }
}

fn distribution(title: &str, mut lines: Vec<Line>, theirs: [&[(f64, f64)]; 2]) -> Chart {
    for (name, points) in ["the paper: BufferHash", "the paper: BerkeleyDB"].into_iter().zip(theirs) {
        lines.push(Line { name: name.to_owned(), points: points.to_vec() });
    }
    Chart::Lines(Lines {
        title: title.to_owned(),
        x_label: "milliseconds".into(),
        y_label: "share of operations".into(),
        log_x: true,
        log_y: false,
        y_min: 0.0,
        lines,
        events: Vec::new(),
    })
}

/// Claim B2.
pub(super) fn distributions(beds: &Beds) -> Section {
    let all = [&beds.here, &beds.here_plain, &beds.mapped, &beds.mapped_plain];
    let inserts = all.map(|bed| line(bed.name, &bed.pairs.inserts)).to_vec();
    let lookups = all.map(|bed| line(bed.name, &bed.pairs.lookups)).to_vec();
    // Points that the talk states, or labels on its charts.
    let insert_points: [&[(f64, f64)]; 2] = [&[(0.1, 0.99)], &[(5.0, 0.6)]];
    let lookup_points: [&[(f64, f64)]; 2] = [&[(0.01, 0.6), (0.2, 0.99)], &[(5.0, 0.6)]];
    let here = &beds.here.pairs;
    let p99 = [here.inserts.quantile_us(0.99), here.lookups.quantile_us(0.99)];
    let slow = |latencies: &Latencies| 100.0 * (1.0 - latencies.share_within_us(5000.0));
    let plain = [&beds.here_plain, &beds.mapped_plain, &beds.hybrid_plain]
        .map(|bed| (slow(&bed.pairs.inserts), slow(&bed.pairs.lookups)));
    let slowest = [0, 1].map(|n| plain.iter().map(|slow| [slow.0, slow.1][n]).fold(0.0, f64::max));
    let table = &beds.here_plain.pairs;
    let holds = judge_tails(p99, [table.inserts.quantile_us(0.99), table.lookups.quantile_us(0.99)], slowest);
    let found = format!(
        "this SSD: 99 % of insertions within {} ms, of look-ups within {} ms. Insertions and look-ups of a \
         conventional table that take over 5 ms: this SSD {:.1} and {:.1} %, page-mapped {:.1} and {:.1} %, hybrid \
         {:.1} and {:.1} %",
        ms(p99[0]),
        ms(p99[1]),
        plain[0].0,
        plain[0].1,
        plain[1].0,
        plain[1].1,
        plain[2].0,
        plain[2].1
    );
    let why = "BerkeleyDB's look-ups waited for garbage collection that its own writes caused; here one operation runs \
               at a time, the SSD does not collect in the background, and only insertions pay for collection";
    Section {
        id: "clam-cdf",
        title: "Distributions of latencies".into(),
        text: "The same run: the share of operations that took at most the time on the axis. The paper's points are \
               those that the talk names: 99 % of BufferHash's insertions under 0.1 ms; 60 % of its look-ups without a \
               flash read, 99 % under 0.2 ms; 40 % of BerkeleyDB's operations over 5 ms."
            .into(),
        charts: vec![
            distribution("Insertions: share within a time", inserts, insert_points),
            distribution("Look-ups: share within a time", lookups, lookup_points),
        ],
        verdicts: vec![Verdict::new("B2", found, holds).because(why)],
        ..Section::default()
    }
}

/// Claim B3.
pub(super) fn mixes(beds: &Beds) -> Section {
    let ours = beds.all().map(|bed| (bed.name, bed.mixes));
    let theirs = [("the paper: BufferHash", BUFFERHASH_MIX_US), ("the paper: BerkeleyDB", BERKELEYDB_MIX_US)];
    let columns = ["look-ups", "0", "0.5", "1"];
    let mut table = Table::new("Microseconds per operation, by the share of look-ups", &columns);
    let mut bars = Vec::new();
    for (name, means) in ours.into_iter().chain(theirs) {
        table.rows.push(std::iter::once(name.to_owned()).chain(means.map(us)).collect());
        bars.push((name.to_owned(), means.map(Some).to_vec()));
    }
    let groups = SHARES.map(|share| format!("{share} look-ups"));
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    Section {
        id: "clam-mixes",
        title: "Other mixes of operations".into(),
        text: "Mixes of insertions and look-ups; 40 % of the look-ups hit. The paper's figures are from a Transcend \
               drive; of the modelled SSDs, the one with hybrid mapping is most similar to it."
            .into(),
        charts: vec![log_bars("Microseconds per operation", "µs", &groups, bars)],
        tables: vec![table],
        verdicts: vec![mixes_verdict(beds)],
    }
}

fn mixes_verdict(beds: &Beds) -> Verdict {
    let (here, hybrid, plain) = (beds.here.mixes, beds.hybrid.mixes, beds.hybrid_plain.mixes);
    let told = |means: [f64; 3]| means.map(ms).join(" / ");
    let found = format!(
        "this SSD: {} ms, conventional {}; modelled, hybrid: {} ms, conventional {}",
        told(here),
        told(beds.here_plain.mixes),
        told(hybrid),
        told(plain)
    );
    Verdict::new("B3", found, judge_mixes(here, hybrid, plain)).because(
        "the order of the costs is the same, but their amount depends on the drive: the modelled one programs an \
         incarnation on 16 planes at once, and has few log blocks, which determine how often it merges",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judges_can_fail() {
        assert_eq!(judge_means(BUFFERHASH_US, BERKELEYDB_US), Holds::Holds);
        // The latencies of a faster drive are not the paper's, but have its order.
        assert_eq!(judge_means([35.0, 0.7], [82.5, 165.0]), Holds::InDirection);
        assert_eq!(judge_means([35.0, 0.7], [30.0, 165.0]), Holds::DoesNot);
        assert_eq!(judge_tails([90.0, 190.0], [6000.0, 6000.0], [40.0, 40.0]), Holds::Holds);
        assert_eq!(judge_tails([90.0, 190.0], [6000.0, 6000.0], [40.0, 0.0]), Holds::InDirection);
        assert_eq!(judge_tails([90.0, 300.0], [6000.0, 6000.0], [40.0, 40.0]), Holds::DoesNot);
        assert_eq!(judge_mixes(BUFFERHASH_MIX_US, BUFFERHASH_MIX_US, BERKELEYDB_MIX_US), Holds::Holds);
        assert_eq!(judge_mixes([0.3, 17.0, 36.0], [1.0, 25.0, 49.0], [2891.0, 1523.0, 120.0]), Holds::InDirection);
        assert_eq!(judge_mixes([0.3, 17.0, 36.0], [1.0, 25.0, 49.0], [2891.0, 1523.0, 40.0]), Holds::DoesNot);
    }
}

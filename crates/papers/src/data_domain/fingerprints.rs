//! D2: what the fingerprint index costs, and what short fingerprints on the SSD save: requests, space and collisions.

use super::bed::{Image, Requests};
use super::collisions::Drawn;
use super::index::{full_bytes, table_bytes};
use super::reads;
use super::restores::{CONTAINERS, LOOKUPS, READ_BYTES, REGION_BYTES_A_STREAM, Restored};
use crate::report::{Band, Holds, Section, Table, Verdict, judge_up_to, percents};
use nitro_console::size::Size;

/// The paper's figures: the share of index requests in a restore, the index and the short fingerprints in percent of the
/// physical space, the bound of collisions, and the gain of a restore, in percent.
const INDEX_SHARE: f64 = 0.25;
const FULL_PERCENT: f64 = 1.5;
const SHORT_PERCENT: f64 = 0.4;
const COLLISIONS_PERCENT: f64 = 0.01;
const RESTORE_PERCENT: f64 = 32.0;

/// Space of indexes, in percent of the physical space.
struct Space {
    contents: u64,
    full: f64,
    short: f64,
    own: f64,
}

impl Space {
    fn of(image: &Image) -> Self {
        let (contents, physical) = (image.stats.chunks, image.stats.stored_bytes as f64);
        let percent = |bytes: u64| 100.0 * bytes as f64 / physical;
        // Pages of our own short fingerprints are as long as their entries, of six bytes.
        Self {
            contents,
            full: percent(full_bytes(contents)),
            short: percent(table_bytes(contents)),
            own: percent(contents * 6),
        }
    }
}

pub(super) fn section(image: &Image, restored: &Restored, drawn: &Drawn, random: Requests) -> Section {
    let space = Space::of(image);
    let mut spaces = Table::new("Space of the fingerprint index", &["index", "percent of the physical space", "paper"]);
    spaces.rows = vec![
        vec![
            "two levels on the disk: full fingerprints".into(),
            format!("{:.2}", space.full),
            format!("{FULL_PERCENT}"),
        ],
        vec!["on the SSD: four bytes and a place".into(), format!("{:.2}", space.short), format!("{SHORT_PERCENT}")],
        vec!["our store's SSD: three bytes in a page, and a container".into(), format!("{:.2}", space.own), "–".into()],
    ];
    let title = format!("Collisions of short fingerprints among {} contents", drawn.contents);
    let mut collisions =
        Table::new(title, &["short fingerprint", "percent of the contents, drawn", "by the birthday argument"]);
    let percent = |value: f64| format!("{value:.6}");
    collisions.rows = vec![
        vec!["our store: 24 bits in a page".into(), percent(drawn.own_percent()), percent(drawn.law_percent(24))],
        vec!["four bytes in a page".into(), percent(drawn.paper_percent()), percent(drawn.law_percent(32))],
        vec!["four bytes without pages".into(), "–".into(), percent(drawn.alone_percent())],
    ];
    Section {
        id: "data-domain-index",
        title: "The fingerprint index in restores, and on the SSD".into(),
        text: format!(
            "Generations are restored, each with reads of {} one after the other. RAM has the fingerprints \
             of {CONTAINERS} containers, and {} of regions for each restore. A look-up that RAM does not answer reads \
             both levels of the index (with the cache: a page of the SSD), and the metadata of the container, which then answers \
             for the chunks that follow. How many look-ups a restore takes depends on the age of the generation; the paper \
             counts one for a MiB, so the claim is judged on the generation whose restore comes nearest to that, and on \
             several of it and its neighbours. The paper's gain is that \"on I/O bound configurations\": there, the speed follows from \
             the time for which a disk is busy for a MiB, so the gain is that in this time. Restores at the same time read a part of a generation each, from different places on, and RAM has as many containers that their \
             look-ups come nearest to that number, too. Space is that of {} contents in {} of containers; pages of hash tables are 70 % full. \
             Fingerprints are drawn for a store of {} contents, of which the pages of {} were looked at. A collision costs a read \
             of the disk: the full fingerprint decides.",
            Size(READ_BYTES),
            Size(REGION_BYTES_A_STREAM),
            space.contents,
            Size(image.stats.stored_bytes),
            drawn.contents,
            drawn.sampled,
        ),
        charts: restored.charts(),
        tables: vec![restored.table(), spaces, collisions],
        verdicts: vec![verdict(&space, restored, drawn, random)],
    }
}

fn verdict(space: &Space, restored: &Restored, drawn: &Drawn, random: Requests) -> Verdict {
    let (sequential, gains) = (restored.base().requests.index_share(), restored.gains());
    let told = restored.told();
    let parts = Parts {
        sequential,
        random: random.index_share(),
        full: space.full,
        short: space.short,
        collisions: drawn.own_percent(),
        gains: &gains,
    };
    let found = format!(
        "index: {:.0} % of the requests of a restore ({:.1} of {:.1} for a MiB, of generation {}), {:.0} % of those of random \
         reads; {:.2} % of the \
         physical space on the disk, {:.2} % with four bytes on the SSD ({:.2} % in our store), with collisions of {:.4} % of \
         {} contents; restores {}; if the disks are the bound {}",
        parts.sequential * 100.0,
        restored.base().per_mebibyte(restored.base().requests.index()),
        restored.base().per_mebibyte(restored.base().requests.all()),
        restored.label(),
        parts.random * 100.0,
        parts.full,
        parts.short,
        space.own,
        parts.collisions,
        drawn.contents,
        told.join(", "),
        percents(&gains),
    );
    let judged = parts.judge();
    let [saved, rest] = restored.milliseconds();
    let shares: Vec<f64> = restored.index_percents();
    let lacking: Vec<_> = judged
        .iter()
        .filter(|(_, holds)| *holds != Holds::Holds)
        .map(|(name, holds)| format!("{name}: {}", holds.words()))
        .collect();
    let why = format!(
        "parts outside a quarter of the paper's figures: {}. This restore takes {:.2} look-ups a MiB (the paper: {LOOKUPS}), and \
         {:.2} requests for other than the index (the paper: about 6); of all ages, the index has {:.0} to {:.0} % of the requests. Without \
         look-ups of the index, a restore saves {:.1} ms of the disks for each of their requests, and the others take {:.1} ms: arms leave \
         the data for the index, and come back. \
         A full entry of 28 bytes is {:.1} times as long as a short one of 12; the paper's is {:.1} times as long",
        lacking.join("; "),
        restored.base().lookups(),
        restored.base().per_mebibyte(restored.base().requests.all() - restored.base().requests.index()),
        shares.iter().copied().fold(f64::MAX, f64::min),
        shares.iter().copied().fold(0.0, f64::max),
        saved,
        rest,
        space.full / space.short,
        FULL_PERCENT / SHORT_PERCENT,
    );
    Verdict::new("D2", found, judged.iter().fold(Holds::Holds, |all, (_, holds)| all.and(*holds))).because(&why)
}

/// The figures of D2.
struct Parts<'a> {
    /// Shares of index requests.
    sequential: f64,
    random: f64,
    /// Percent of the physical space.
    full: f64,
    short: f64,
    /// Percent of the contents.
    collisions: f64,
    /// Percent of a restore's speed.
    gains: &'a [f64],
}

impl Parts<'_> {
    fn judge(&self) -> [(&'static str, Holds); 5] {
        let shares = Band::at(INDEX_SHARE).has(self.sequential) && Band::at(reads::INDEX_SHARE).has(self.random);
        let space = Band::at(FULL_PERCENT).has(self.full) && Band::at(SHORT_PERCENT).has(self.short);
        [
            ("shares of index requests", Holds::of(shares, 0.0 < self.sequential && self.sequential < self.random)),
            ("space", Holds::of(space, self.short < self.full)),
            ("collisions", Holds::of(self.collisions < COLLISIONS_PERCENT, false)),
            ("restores", judge_up_to(RESTORE_PERCENT, self.gains)),
            ("all were measured", if self.gains.is_empty() { Holds::NotJudged } else { Holds::Holds }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(parts: &Parts<'_>) -> Holds {
        parts.judge().iter().fold(Holds::Holds, |all, (_, holds)| all.and(*holds))
    }

    #[test]
    fn the_judge_can_fail() {
        let gains = [10.0, 30.0];
        let good = Parts { sequential: 0.25, random: 0.5, full: 1.4, short: 0.4, collisions: 0.004, gains: &gains };
        assert_eq!(judged(&good), Holds::Holds);
        assert_eq!(judged(&Parts { sequential: 0.1, ..good }), Holds::InDirection);
        assert_eq!(judged(&Parts { sequential: 0.6, ..good }), Holds::DoesNot);
        assert_eq!(judged(&Parts { short: 0.2, ..good }), Holds::InDirection);
        assert_eq!(judged(&Parts { short: 2.0, ..good }), Holds::DoesNot);
        assert_eq!(judged(&Parts { collisions: 0.02, ..good }), Holds::DoesNot);
        assert_eq!(judged(&Parts { gains: &[5.0], ..good }), Holds::InDirection);
        assert_eq!(judged(&Parts { gains: &[-1.0, 32.0], ..good }), Holds::DoesNot);
        assert_eq!(judged(&Parts { gains: &[], ..good }), Holds::NotJudged);
    }
}

//! The report of Figure 8.

use super::{Found, Scale};
use crate::kind::Kind;
use crate::nitro::OVERHEADS;
use crate::nitro::judges::{ALL_HITS, NO_HITS_MAX, n17};
use crate::report::{Bars, Chart, Holds, Section, Table, Verdict, percents};

pub(super) fn section(scale: Scale, tps: &Found, cos: &Found) -> Section {
    let systems = [("TPS", tps), ("COS", cos)];
    let bars = systems.iter().flat_map(|(name, found)| {
        [("0", &found.misses), ("100", &found.hits)]
            .map(|(hits, figures)| (format!("{name}, {hits} % hits"), figures.iter().copied().map(Some).collect()))
    });
    Section {
        id: OVERHEADS,
        title: "Figure 8: overheads, boot storm".into(),
        text: format!(
            "Measured on this machine with the real engine, one read at a time, without a RAM cache. 100 % hits: the \
             boot of {} machines, generated from one recorded boot of Debian, is read from a warm cache, and compared \
             with the same reads of a file on the same SSD without a cache. 0 % hits: the boot of one machine is read \
             from an emulated 7200 rpm disk through an empty cache, and compared with the disk alone. The figures are \
             medians of {} and {} rounds. The disk holds a plain file (TPS), or a store (`nitro cos` with default \
             settings) in which the machines are an object (COS). The store is opened again for each measurement, so \
             that none of its data are in RAM. At 0 % hits no extent is read twice, but a cache in front of a COS may \
             find content that a boot has twice by the recipes.",
            scale.machines, scale.rounds[0], scale.rounds[1]
        ),
        charts: vec![Chart::Bars(Bars {
            title: "Read response time relative to no cache".into(),
            y_label: "% more".into(),
            log_y: false,
            groups: Kind::ALL.map(|kind| kind.name().to_owned()).into(),
            bars: bars.collect(),
        })],
        tables: vec![overheads(&systems), requests(&systems)],
        verdicts: vec![verdict(&systems)],
    }
}

fn overheads(systems: &[(&str, &Found); 2]) -> Table {
    let columns =
        ["", "TPS, 0 % hits", "COS, 0 % hits", "the paper", "TPS, 100 % hits", "COS, 100 % hits", "the paper"];
    let mut table = Table::new("Read response time relative to no cache", &columns);
    for (number, kind) in Kind::ALL.into_iter().enumerate() {
        let mut row = vec![kind.name().to_owned()];
        row.extend(systems.map(|(_, found)| percents(&found.misses[number..=number])));
        row.push(format!("≤ +{NO_HITS_MAX} %"));
        row.extend(systems.map(|(_, found)| percents(&found.hits[number..=number])));
        row.push(format!("+{} %", ALL_HITS[number]));
        table.rows.push(row);
    }
    table
}

fn requests(systems: &[(&str, &Found); 2]) -> Table {
    let columns = [
        "0 % hits",
        "TPS: ms per read",
        "disk requests per read",
        "COS: ms per read",
        "disk requests per read",
        "found by recipes",
    ];
    let mut table = Table::new(
        "Response time and disk requests per read at 0 % hits; at 100 % hits the disk has no requests",
        &columns,
    );
    let names = std::iter::once("no cache").chain(Kind::ALL.map(Kind::name));
    for (number, name) in names.enumerate() {
        let mut row = vec![name.to_owned()];
        for (_, found) in systems {
            let cost = found.costs[number];
            row.extend([format!("{:.2}", cost.response_ms), format!("{:.2}", cost.requests)]);
        }
        row.push(format!("{:.1} %", systems[1].1.costs[number].by_recipes * 100.0));
        table.rows.push(row);
    }
    table
}

fn verdict(systems: &[(&str, &Found); 2]) -> Verdict {
    let mut holds = Holds::Holds;
    let mut found = Vec::new();
    for (name, Found { hits, misses, .. }) in systems {
        holds = holds.and(n17(misses, hits));
        let [dc, d, c, plain] = [0, 1, 2, 3].map(|number| percents(&hits[number..=number]));
        found.push(format!(
            "{name}: 0 % hits {}; 100 % hits: (ND, NC) {plain}, (D, NC) {d}, (ND, C) {c}, (D, C) {dc}",
            percents(misses)
        ));
    }
    let why = "these are figures of one machine and one run. On an SSD that is faster than the paper's, the same \
               microseconds are a larger share; a long read is one request if its extents lie together on the SSD, and \
               several if the cache has them apart. Compressed extents are shorter to read, and since 2014 LZ4 has \
               become faster by a larger factor than SSDs";
    Verdict::new("N17", found.join(". "), holds).because(why)
}

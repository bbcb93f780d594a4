//! Tables 3 and 4 and Figures 4 to 7: performance and cost, and the verdicts on F1 to F4.

use super::figures::Figures;
use super::judges::{self, Found, OVER_LRU, PUBLISHED, Published};
use super::systems::System;
use crate::report::{Band, Bars, Chart, Section, Table, Verdict};
use nitro_sim::cost::Prices;

/// The identifiers of F1 to F4 for a set of figures: the generated load's, or the recordings'.
pub(super) type Ids = [&'static str; 4];
pub(super) const GENERATED: Ids = ["F1", "F2", "F3", "F4"];

/// The systems of the paper's tables.
const TABLE3: [System; 3] = [System::None, System::Lru, System::Dss];

/// The paper's figures and those found, for each speed of disks that the table of prices has.
fn pairs(figures: &Figures, prices: &Prices) -> Vec<(usize, Published, Found)> {
    let of = |paper: &Published| {
        let hdd = prices.hdds.iter().position(|hdd| hdd.rpm == paper.rpm)?;
        let found = Found {
            iops: TABLE3.map(|system| figures.iops(hdd, system)),
            speed: figures.speed(hdd, System::Dss),
            dollars: TABLE3.map(|system| figures.millionths(prices, hdd, system)),
        };
        Some((hdd, *paper, found))
    };
    PUBLISHED.iter().filter_map(of).collect()
}

/// The tables of performance with the verdicts on F1 to F3.
pub(super) fn section(
    id: &'static str,
    title: &str,
    text: String,
    figures: &Figures,
    prices: &Prices,
    ids: Ids,
) -> Section {
    let mut tables = Vec::new();
    for (hdd, kind) in prices.hdds.iter().enumerate() {
        let of = |what: &str| format!("{}: {what}", kind.name);
        tables.push(by_phase(figures, hdd, of("IOPS"), &|points, at| format!("{:.0}", points[at].iops)));
        tables
            .push(by_phase(figures, hdd, of("seconds (virtual)"), &|points, at| format!("{:.1}", points[at].seconds)));
        tables
            .push(by_phase(figures, hdd, of("read hits, %"), &|points, at| format!("{:.1}", points[at].hits * 100.0)));
        tables.push(overall(figures, hdd, of("overall")));
    }
    let charts = prices.hdds.iter().enumerate().map(|(hdd, kind)| chart(figures, hdd, &kind.name)).collect();
    let verdicts = verdicts(figures, prices, ids);
    Section { id, title: title.into(), text, charts, tables, verdicts }
}

fn by_phase(
    figures: &Figures,
    hdd: usize,
    title: String,
    cell: &dyn Fn(&[super::figures::Point], usize) -> String,
) -> Table {
    let mut table = Table::new(title, &["phase"]);
    table.columns.extend(System::ALL.map(|system| system.name().to_owned()));
    for (at, phase) in figures.phases.iter().enumerate() {
        let cells = System::ALL
            .map(|system| figures.points(hdd, system))
            .into_iter()
            .map(|points| if at < points.len() { cell(points, at) } else { "–".to_owned() });
        table.rows.push(std::iter::once(phase.clone()).chain(cells).collect());
    }
    table
}

fn overall(figures: &Figures, hdd: usize, title: String) -> Table {
    let columns = [
        "system",
        "mean IOPS",
        "lowest to highest run",
        "IOPS / LRU",
        "IOPS / LRU by phase",
        "speed of the application, %",
    ];
    let mut table = Table::new(title, &columns);
    for system in System::ALL {
        let (low, high) = figures.iops_range(hdd, system);
        let by_phase: Vec<_> = figures.over_lru(hdd, system).iter().map(|ratio| format!("{ratio:.2}")).collect();
        table.rows.push(vec![
            system.name().into(),
            format!("{:.0}", figures.iops(hdd, system)),
            format!("{low:.0} to {high:.0}"),
            format!("{:.2}", figures.iops(hdd, system) / figures.iops(hdd, System::Lru)),
            by_phase.join(", "),
            format!("{:.0}", figures.speed(hdd, system)),
        ]);
    }
    if let Some(paper) = PUBLISHED.get(hdd) {
        for (name, iops) in ["the paper: no cache", "the paper: LRU", "the paper: DSS"].iter().zip(paper.iops) {
            let is_dss = name.ends_with("DSS");
            table.rows.push(vec![
                (*name).to_owned(),
                format!("{iops:.0}"),
                "–".into(),
                format!("{:.2}", iops / paper.iops[1]),
                "–".into(),
                if is_dss { format!("{:.0}", paper.speed) } else { "–".into() },
            ]);
        }
    }
    table
}

fn chart(figures: &Figures, hdd: usize, name: &str) -> Chart {
    let ratios = |system: System| figures.over_lru(hdd, system).into_iter().map(Some).collect();
    Chart::Bars(Bars {
        title: format!("IOPS relative to LRU, {name}"),
        y_label: "IOPS / LRU's".into(),
        log_y: true,
        groups: figures.phases.clone(),
        bars: System::ALL.iter().map(|system| (system.name().to_owned(), ratios(*system))).collect(),
    })
}

fn verdicts(figures: &Figures, prices: &Prices, ids: Ids) -> Vec<Verdict> {
    let pairs = pairs(figures, prices);
    let mut verdicts = Vec::new();
    for (id, (.., paper, found)) in ids.into_iter().zip(&pairs) {
        let [none, lru, dss] = found.iops;
        let text = format!(
            "{none:.0} IOPS without, {lru:.0} with LRU, {dss:.0} with classes ({:.1} ×); application speed {:.0} %",
            dss / lru,
            found.speed
        );
        verdicts.push(Verdict::new(id, text, judges::table3(paper, found)).because(&apart(paper, found)));
    }
    let over: Vec<f64> = pairs.iter().flat_map(|(hdd, ..)| figures.over_lru(*hdd, System::Dss)).collect();
    let low = over.iter().copied().fold(f64::INFINITY, f64::min);
    let high = over.iter().copied().fold(0.0, f64::max);
    let slow_beats_fast = slow_beats_fast(figures, &pairs);
    let text = format!(
        "{low:.2} to {high:.1} × LRU by workload; 7200 rpm with classes {} 15K without and with LRU",
        if slow_beats_fast { "beats" } else { "does not beat" }
    );
    let mut reasons = Vec::new();
    let phase_of = |ratio: f64| {
        let at = over.iter().position(|other| other.total_cmp(&ratio).is_eq()).unwrap_or(0);
        figures.phases.get(at % figures.phases.len().max(1)).map_or("", String::as_str)
    };
    for (what, bound, found) in [("lowest", OVER_LRU.low, low), ("highest", OVER_LRU.high, high)] {
        if !Band::at(bound).has(found) {
            reasons.push(format!("the {what} ratio ({}) is {found:.2}, in the paper {bound}", phase_of(found)));
        }
    }
    if let ([(slow, ..), (fast, ..)], false) = (pairs.as_slice(), slow_beats_fast) {
        let of =
            |hdd, system| format!("{:.0} IOPS in {:.1} s", figures.iops(hdd, system), figures.seconds(hdd, system));
        reasons.push(format!(
            "7200 rpm with classes: {}; 15K without: {}; 15K with LRU: {}",
            of(*slow, System::Dss),
            of(*fast, System::None),
            of(*fast, System::Lru)
        ));
    }
    verdicts.push(Verdict::new(ids[2], text, judges::by_workload(&over, slow_beats_fast)).because(&reasons.join("; ")));
    verdicts
}

/// Which figures are not the paper's.
fn apart(paper: &Published, found: &Found) -> String {
    let names = ["without", "with LRU", "with classes"];
    let mut all: Vec<(String, f64, f64)> = names
        .iter()
        .zip(paper.iops.into_iter().zip(found.iops))
        .map(|(name, (a, b))| (format!("IOPS {name}"), a, b))
        .collect();
    all.push(("ratio to LRU".into(), paper.iops[2] / paper.iops[1], found.iops[2] / found.iops[1]));
    all.push(("speed of the application in percent".into(), paper.speed, found.speed));
    let out: Vec<_> = all.iter().filter(|(_, a, b)| !Band::at(*a).has(*b)).collect();
    let words = out.iter().map(|(name, a, b)| format!("{name}: {b:.1}, in the paper {a:.1}"));
    words.collect::<Vec<_>>().join("; ")
}

/// Whether the slowest disks with classes have more IOPS, and take less time, than the fastest without a cache and with LRU.
fn slow_beats_fast(figures: &Figures, pairs: &[(usize, Published, Found)]) -> bool {
    let [(slow, ..), (fast, ..)] = pairs else { return false };
    [System::None, System::Lru].iter().all(|other| {
        figures.iops(*slow, System::Dss) > figures.iops(*fast, *other)
            && figures.seconds(*slow, System::Dss) < figures.seconds(*fast, *other)
    })
}

/// The costs by the paper's prices, with the verdict on F4, and by those of today.
pub(super) fn costs(
    id: &'static str,
    figures: &Figures,
    prices: &Prices,
    today: &Prices,
    claim: &'static str,
) -> Section {
    let pairs: Vec<_> = pairs(figures, prices).into_iter().map(|(_, paper, found)| (paper, found)).collect();
    let of = |(paper, found): &(Published, Found)| {
        let [none, lru, dss] = found.dollars;
        format!("{none:.2} / {lru:.2} / {dss:.2} ({} rpm), {:+.0} % against LRU", paper.rpm, 100.0 * (dss / lru - 1.0))
    };
    let text = pairs.iter().map(of).collect::<Vec<_>>().join("; ");
    let mut reasons = Vec::new();
    for (paper, found) in &pairs {
        for (name, (paper_costs, here)) in
            ["without", "with LRU", "with classes"].iter().zip(paper.dollars.into_iter().zip(found.dollars))
        {
            if !Band::at(paper_costs).has(here) {
                reasons.push(format!("{} rpm {name}: {here:.2}, in the paper {paper_costs:.2}", paper.rpm));
            }
        }
    }
    let verdict = Verdict::new(claim, text, judges::table4(&pairs)).because(&reasons.join("; "));
    Section {
        id,
        title: "Table 4: cost for each MB and I/O per second".into(),
        text: "The price of the disks, and of the part of an SSD that the cache of 100 GB takes, for each MB of the disks' \
               capacity and each I/O per second (mean of the phases), in millionths of a dollar. Prices of May 2012 are those \
               that follow from the paper's Tables 3 and 4 (`crates/sim/src/cost/prices.toml`). Those of today are in \
               `prices-today.toml`, with their sources; they change the ratio of SSD to disk, and nothing else: the disks are \
               simulated as those of 2012."
            .into(),
        tables: vec![
            cost_table("Prices of May 2012", figures, prices),
            cost_table("Prices of today", figures, today),
        ],
        verdicts: vec![verdict],
        ..Section::default()
    }
}

fn cost_table(title: &str, figures: &Figures, prices: &Prices) -> Table {
    let columns = ["disks", "system", "cost", "against no cache, %", "against LRU, %", "the paper"];
    let mut table = Table::new(title, &columns);
    for (hdd, kind) in prices.hdds.iter().enumerate() {
        let cost = |system| figures.millionths(prices, hdd, system);
        let paper = PUBLISHED.iter().find(|paper| paper.rpm == kind.rpm);
        for system in System::ALL {
            let at = TABLE3.iter().position(|other| *other == system);
            let published = paper.zip(at).map(|(paper, at)| paper.dollars[at]);
            let against = |other| format!("{:+.0}", 100.0 * (cost(system) / cost(other) - 1.0));
            table.rows.push(vec![
                kind.name.clone(),
                system.name().into(),
                format!("{:.2}", cost(system)),
                against(System::None),
                against(System::Lru),
                crate::report::shown(published, 2),
            ]);
        }
    }
    table
}

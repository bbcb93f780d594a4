//! Two-level selection and associativity under TPC-H (claims A3 and A4).

use super::bed::{EXTENT_BYTES, Load, Point, Run};
use super::tables::measured;
use super::{CPU_NS, Scale};
use crate::report::{Band, Bars, Chart, Holds, Section, Table, Verdict, percent_more};
use nitro_console::error::Error;

/// The sizes of caches.
const SIZES: [&str; 3] = ["small", "medium", "large"];
/// The paper's speed-ups by two-level selection: direct-mapped, fully associative.
const TWO_LEVEL: [f64; 2] = [1.95, 1.53];
/// The paper's medium direct-mapped cache with two-level selection against the large one without it: percent faster, and
/// points of hit ratio.
const MEDIUM: (f64, f64) = (20.0, -10.0);
/// The paper's fully associative cache against the direct-mapped one: the speed-up when large, the points of conflict misses,
/// the gain of the medium one over the large direct-mapped one in percent, and the ratio of metadata.
const ASSOCIATIVE: (f64, f64, f64, f64) = (1.36, 15.0, 32.0, 4.7);
/// A change of speed below this is none.
const NOISE: f64 = 0.005;

/// Speed, hit ratio in percent, and RAM of one run.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    speed: f64,
    hits: f64,
    ram: f64,
}

/// The runs by size, from the smallest cache on.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    mapped: [Cell; 3],
    mapped_two_level: [Cell; 3],
    associative: [Cell; 3],
    associative_two_level: [Cell; 3],
    /// The number of blocks of the large cache.
    blocks: f64,
}

impl Found {
    fn of(runs: &[Run], large_bytes: u64) -> Self {
        let cell = |at: usize| {
            let run = runs.get(at).cloned().unwrap_or_default();
            Cell { speed: run.per_second, hits: run.hit_percent, ram: run.ram_bytes }
        };
        let three = |first: usize| std::array::from_fn(|size| cell(first + size));
        // The first run has no cache.
        Self {
            mapped: three(1),
            mapped_two_level: three(4),
            associative: three(7),
            associative_two_level: three(10),
            blocks: large_bytes as f64 / f64::from(EXTENT_BYTES),
        }
    }

    /// The speed-ups by two-level selection, by size: direct-mapped, fully associative.
    fn two_level(&self) -> [[f64; 3]; 2] {
        let of = |with: &[Cell; 3], without: &[Cell; 3]| std::array::from_fn(|at| with[at].speed / without[at].speed);
        [of(&self.mapped_two_level, &self.mapped), of(&self.associative_two_level, &self.associative)]
    }

    /// The medium direct-mapped cache with two-level selection against the large one without it.
    fn medium(&self) -> (f64, f64) {
        let (medium, large) = (self.mapped_two_level[1], self.mapped[2]);
        (percent_more(medium.speed, large.speed), medium.hits - large.hits)
    }

    /// The speed-ups of full associativity, and the conflict misses that it avoids in points of hit ratio, by size.
    fn associativity(&self) -> ([f64; 3], [f64; 3]) {
        let speed = std::array::from_fn(|at| self.associative[at].speed / self.mapped[at].speed);
        (speed, std::array::from_fn(|at| self.associative[at].hits - self.mapped[at].hits))
    }

    fn medium_associative(&self) -> f64 {
        percent_more(self.associative[1].speed, self.mapped[2].speed)
    }

    fn ram_ratio(&self) -> f64 {
        self.associative[2].ram / self.mapped[2].ram
    }
}

fn most(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// A3: the best speed-up of each kind; none slows down; and the medium cache against the large one.
fn judge_two_level(found: &Found) -> Holds {
    let (ratios, (faster, points)) = (found.two_level(), found.medium());
    let near = (0..2).all(|kind| Band::at(TWO_LEVEL[kind]).has(most(&ratios[kind])));
    let near = near && Band::at(MEDIUM.0).has(faster) && Band::at(MEDIUM.1).has(points);
    let gains = ratios.iter().all(|kind| most(kind) > 1.0 + NOISE && kind.iter().all(|ratio| *ratio > 1.0 - NOISE));
    Holds::of(near && gains, gains && faster > 0.0 && points < 0.0)
}

/// A4: full associativity is faster at every size, has fewer misses, and the medium one beats the large direct-mapped one;
/// and takes more RAM.
fn judge_associativity(found: &Found) -> Holds {
    let (speed, conflicts) = found.associativity();
    let (large, points, medium, ram) = ASSOCIATIVE;
    let near = Band::at(large).has(speed[2]) && Band::at(points).has(most(&conflicts));
    let near = near && Band::at(medium).has(found.medium_associative()) && Band::at(ram).has(found.ram_ratio());
    let better = speed.iter().all(|ratio| *ratio > 1.0) && conflicts.iter().all(|points| *points > 0.0);
    Holds::of(near && better, better && found.medium_associative() > 0.0 && found.ram_ratio() > 1.0)
}

fn by_size(figures: &[f64; 3], unit: &str) -> String {
    figures.map(|figure| format!("{figure:.2}")).join(", ") + unit
}

/// The parts of A3 that differ.
fn why_two_level(found: &Found) -> String {
    let (ratios, (faster, points)) = (found.two_level(), found.medium());
    let mut parts = Vec::new();
    for (kind, (name, ratios)) in ["direct-mapped", "fully associative"].iter().zip(ratios).enumerate() {
        for (size, ratio) in SIZES.iter().zip(ratios).filter(|(_, ratio)| *ratio <= 1.0 - NOISE) {
            parts.push(format!("the {size} {name} cache is slower with it ({ratio:.2} ×)"));
        }
        if !Band::at(TWO_LEVEL[kind]).has(most(&ratios)) {
            parts.push(format!("the best {name} one is {:.2} × as fast", most(&ratios)));
        }
    }
    if !(Band::at(MEDIUM.0).has(faster) && Band::at(MEDIUM.1).has(points)) {
        parts.push(format!(
            "the medium one has {:.1} % hits against {:.1} % of the large one, and its speed differs by {faster:+.0} %",
            found.mapped_two_level[1].hits, found.mapped[2].hits
        ));
    }
    parts.join("; ")
}

/// The parts of A4 that differ.
fn why_associativity(found: &Found) -> String {
    let (speed, conflicts) = found.associativity();
    let mut parts = Vec::new();
    for (at, size) in SIZES.iter().enumerate().filter(|(at, _)| speed[*at] <= 1.0) {
        parts.push(format!(
            "the {size} associative cache is slower ({:.3} ×), with {:+.1} points of hits: LRU evicts what is read again, as \
             two-level selection among the same places has {:.1} % hits instead of {:.1}",
            speed[at], conflicts[at], found.associative_two_level[at].hits, found.associative[at].hits
        ));
    }
    if !Band::at(ASSOCIATIVE.0).has(speed[2]) {
        parts.push(format!("the large one is {:.2} × as fast", speed[2]));
    }
    if !Band::at(ASSOCIATIVE.1).has(most(&conflicts)) {
        parts.push(format!("conflicts are up to {:.1} points of hits", most(&conflicts)));
    }
    if !Band::at(ASSOCIATIVE.3).has(found.ram_ratio()) {
        parts.push(format!(
            "the index takes {:.1} times as much RAM: {:.0} bytes for a block instead of {:.0}",
            found.ram_ratio(),
            found.associative[2].ram / found.blocks,
            found.mapped[2].ram / found.blocks
        ));
    }
    parts.join("; ")
}

/// The kinds of caches, in the order of the runs.
const KINDS: [&str; 4] = ["direct-mapped", "direct-mapped, two levels", "associative", "associative, two levels"];

/// What is assumed of the load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Assumed {
    name: &'static str,
    /// Whether each table and its indices are files of their own; otherwise the database is one contiguous file.
    file_per_table: bool,
    /// The exponent of the popularity of pages that are probed.
    skew: f64,
    /// The least response time of a request, in nanoseconds.
    pub(super) cpu_ns: u64,
}

impl Assumed {
    /// What the generator needs to know of it.
    pub(super) const fn place(&self) -> (bool, f64) {
        (self.file_per_table, self.skew)
    }
}

/// The load on which the claims are judged: MyISAM's files, and uniform keys.
pub(super) const MAIN: Assumed = Assumed {
    name: "as judged: a file for each table, uniform probes",
    file_per_table: true,
    skew: 0.0,
    cpu_ns: CPU_NS,
};
/// Other assumptions, one or two of which differ. With half a millisecond for each request, a cache with everything is
/// about 14 times as fast as the disks, as the paper's best.
pub(super) const VARIED: [Assumed; 5] = [
    Assumed { name: "one contiguous file", file_per_table: false, ..MAIN },
    Assumed { name: "probes with Zipf's law, exponent 0.5", skew: 0.5, ..MAIN },
    Assumed { name: "probes with Zipf's law, exponent 1", skew: 1.0, ..MAIN },
    Assumed { name: "one contiguous file, exponent 1", file_per_table: false, skew: 1.0, ..MAIN },
    Assumed { name: "half a millisecond of the processor for each request", cpu_ns: 500_000, ..MAIN },
];

/// A load's runs, the first of which has no cache.
fn measure(load: &Load<'_>, caches: [u64; 3], scale: &Scale) -> Result<Vec<Run>, Error> {
    let (mapped, associative) = (caches.map(Point::direct_mapped), caches.map(Point::associative));
    let mut points = vec![Point::NONE];
    points.extend(mapped.into_iter().chain(mapped.map(Point::two_level)));
    points.extend(associative.into_iter().chain(associative.map(Point::two_level)));
    load.run(&points, scale)
}

fn chart(runs: &[Run]) -> Chart {
    let speed = |at: usize| runs.get(at).map(|run| run.per_second / runs[0].per_second);
    let bars = KINDS
        .iter()
        .enumerate()
        .map(|(kind, name)| ((*name).to_owned(), (0..3).map(|size| speed(1 + kind * 3 + size)).collect::<Vec<_>>()));
    Chart::Bars(Bars {
        title: "TPC-H: speed over HDDs alone".into(),
        y_label: "times the speed of HDDs".into(),
        log_y: false,
        groups: SIZES.map(str::to_owned).to_vec(),
        bars: bars.collect(),
    })
}

fn table(runs: &[Run]) -> Table {
    let names: Vec<String> = std::iter::once("HDDs alone".to_owned())
        .chain(KINDS.iter().flat_map(|kind| SIZES.map(|size| format!("{size}, {kind}"))))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    measured("TPC-H by cache", "queries/s", &names, runs)
}

fn two_level_figures(found: &Found) -> String {
    let (ratios, (faster, points)) = (found.two_level(), found.medium());
    format!(
        "two-level selection, small to large: direct-mapped {}, fully associative {}; medium direct-mapped with it against the \
         large one: {faster:+.0} % speed at {points:+.1} points of hits",
        by_size(&ratios[0], " ×"),
        by_size(&ratios[1], " ×")
    )
}

fn associativity_figures(found: &Found) -> String {
    let (speeds, conflicts) = found.associativity();
    format!(
        "fully associative against direct-mapped, small to large: {}; conflict misses avoided: {}; the medium one against the \
         large direct-mapped one: {:+.0} %; RAM of the index: {:.1} ×",
        by_size(&speeds, " ×"),
        by_size(&conflicts, " points"),
        found.medium_associative(),
        found.ram_ratio()
    )
}

/// The figures of both claims with each assumption.
fn varied_table(all: &[(&str, Found)]) -> Table {
    let columns = [
        "assumption",
        "two levels, direct-mapped",
        "two levels, associative",
        "medium with two levels against large direct-mapped",
        "A3",
        "associative against direct-mapped",
        "conflict misses avoided",
        "medium associative against large direct-mapped",
        "A4",
    ];
    let mut table = Table::new("The claims under other assumptions (small, medium, large)", &columns);
    for (name, found) in all {
        let (ratios, (faster, points), (speeds, conflicts)) =
            (found.two_level(), found.medium(), found.associativity());
        table.rows.push(vec![
            (*name).to_owned(),
            by_size(&ratios[0], " ×"),
            by_size(&ratios[1], " ×"),
            format!("{faster:+.0} %, {points:+.1} points of hits"),
            judge_two_level(found).words().to_owned(),
            by_size(&speeds, " ×"),
            by_size(&conflicts, " points"),
            format!("{:+.0} %", found.medium_associative()),
            judge_associativity(found).words().to_owned(),
        ]);
    }
    table
}

/// In which of the other assumptions a judge gives at least the direction.
fn elsewhere(others: &[(&str, Found)], judge: fn(&Found) -> Holds) -> String {
    let holds = |found: &Found| matches!(judge(found), Holds::Holds | Holds::InDirection);
    let names: Vec<&str> = others.iter().filter(|(_, found)| holds(found)).map(|(name, _)| *name).collect();
    match names.is_empty() {
        true => format!("With none of the {} other assumptions does it hold in direction", others.len()),
        false => format!("It holds at least in direction with: {}", names.join("; ")),
    }
}

/// Runs TPC-H with every cache, as it is judged, and with other assumptions.
pub(super) fn section(load: &Load<'_>, varied: &[Load<'_>], caches: [u64; 3], scale: &Scale) -> Result<Section, Error> {
    let runs = measure(load, caches, scale)?;
    let found = Found::of(&runs, caches[2]);
    let mut all = vec![(MAIN.name, found)];
    for (assumed, load) in VARIED.iter().zip(varied) {
        all.push((assumed.name, Found::of(&measure(load, caches, scale)?, caches[2])));
    }
    let verdict = |id, figures: fn(&Found) -> String, judge: fn(&Found) -> Holds, why: fn(&Found) -> String| {
        let reason = format!("{}. {}", why(&found), elsewhere(&all[1..], judge));
        Verdict::new(id, figures(&found), judge(&found)).because(&reason)
    };
    Ok(Section {
        id: "azor-tpch",
        title: "TPC-H: differentiation of data, and associativity".into(),
        text: "All 22 queries run several times with other parameters; the last time is measured. The small, medium and large \
               cache hold a quarter, a half and all of the database. Conflict misses are those that a direct-mapped cache has in \
               addition to a fully associative one with LRU; they depend on where the database is on the volume. The claims are \
               judged with a file for each table, as MySQL's MyISAM has them, and run again under other assumptions. The RAM of \
               the index is measured in large caches without counters. Unless a row says otherwise, queries take next to no time \
               of the processor, so that a cache that holds everything gains more than the paper's (14 times the HDDs' speed)."
            .into(),
        charts: vec![chart(&runs)],
        tables: vec![table(&runs), varied_table(&all)],
        verdicts: vec![
            verdict("A3", two_level_figures, judge_two_level, why_two_level),
            verdict("A4", associativity_figures, judge_associativity, why_associativity),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(speeds: [f64; 3], hits: [f64; 3], ram: f64) -> [Cell; 3] {
        std::array::from_fn(|at| Cell { speed: speeds[at], hits: hits[at], ram })
    }

    /// The figures of the paper.
    fn paper() -> Found {
        Found {
            mapped: cells([1.0, 1.5, 2.0], [30.0, 50.0, 80.0], 10.0),
            mapped_two_level: cells([1.95, 2.4, 2.5], [35.0, 70.0, 85.0], 20.0),
            associative: cells([1.2, 2.64, 2.72], [40.0, 65.0, 95.0], 47.0),
            associative_two_level: cells([1.84, 2.7, 2.72], [45.0, 70.0, 95.0], 57.0),
            blocks: 1.0,
        }
    }

    #[test]
    fn the_judge_of_two_levels_can_fail() {
        assert_eq!(judge_two_level(&paper()), Holds::Holds);
        let little = Found { mapped_two_level: cells([1.1, 2.4, 2.5], [35.0, 70.0, 85.0], 20.0), ..paper() };
        assert_eq!(judge_two_level(&little), Holds::Holds, "1.6 is within a quarter of 1.95");
        let less = Found { mapped_two_level: cells([1.1, 2.05, 2.2], [35.0, 70.0, 85.0], 20.0), ..paper() };
        assert_eq!(judge_two_level(&less), Holds::InDirection);
        let slower = Found { associative_two_level: cells([1.84, 2.0, 2.72], [45.0, 70.0, 95.0], 57.0), ..paper() };
        assert_eq!(judge_two_level(&slower), Holds::DoesNot);
        assert!(why_two_level(&slower).contains("medium fully associative"), "{}", why_two_level(&slower));
        let more_hits = Found { mapped_two_level: cells([1.95, 2.4, 2.5], [35.0, 90.0, 85.0], 20.0), ..paper() };
        assert_eq!(judge_two_level(&more_hits), Holds::DoesNot, "the medium one has more hits");
    }

    #[test]
    fn the_judge_of_associativity_can_fail() {
        assert_eq!(judge_associativity(&paper()), Holds::Holds);
        let dear = Found { associative: cells([1.2, 2.64, 2.72], [40.0, 65.0, 95.0], 90.0), ..paper() };
        assert_eq!(judge_associativity(&dear), Holds::InDirection, "nine times the RAM");
        let slow = Found { associative: cells([0.9, 2.64, 2.72], [40.0, 65.0, 95.0], 47.0), ..paper() };
        assert_eq!(judge_associativity(&slow), Holds::DoesNot, "slower when small");
        assert!(why_associativity(&slow).contains("small associative"));
        let behind = Found { associative: cells([1.2, 1.9, 2.72], [40.0, 65.0, 95.0], 47.0), ..paper() };
        assert_eq!(judge_associativity(&behind), Holds::DoesNot, "medium behind the large direct-mapped one");
    }
}

//! The section on the WAN optimizer, and claim B6.

use super::super::beds::{Aged, modelled_plan, on_modelled, until_full};
use super::super::{HITS, Scale, entries};
use super::{Sent, best_link, content, generated, ideal, improvement, object_throughput, through};
use crate::clam::beds::inserted;
use crate::indexes::{Draws, Layer, Watch};
use crate::report::{Band, Chart, Holds, Line, Lines, Section, Table, Verdict, percents, reason, say};
use nitro_console::error::Error;
use nitro_device::Reactor;
use std::path::Path;

/// The redundancy of the generated streams: the shares of chunks that the receiver has. The paper's packet traces had about
/// a half and about 15 %.
const SHARES: [f64; 2] = [0.5, 0.15];
/// The links of the chart, in Mbit/s.
const LINKS: [f64; 9] = [10.0, 20.0, 50.0, 100.0, 200.0, 300.0, 400.0, 500.0, 1000.0];
/// The link of the paper's measurement of objects, in bit/s, and the share of it that the objects would take.
const OBJECTS_LINK: f64 = 10e6;
const OBJECTS_LOAD: f64 = 0.95;
/// The tables, the paper's drives, and the fastest links at which they are at their best in the paper, in Mbit/s.
const TABLES: [(&str, &str, Option<f64>); 4] = [
    ("BufferHash, page-mapped SSD", "Intel", Some(500.0)),
    ("BufferHash, hybrid SSD", "Transcend", Some(200.0)),
    ("conventional, page-mapped SSD", "–", None),
    ("conventional, hybrid SSD", "Transcend, BerkeleyDB", Some(10.0)),
];

/// The streams as one table sends them: those of [`SHARES`], and the file's.
struct Run {
    generated: Vec<Vec<Sent>>,
    content: Option<Vec<Sent>>,
}

/// Runs all streams through each of [`TABLES`].
fn measure(scale: &Scale, file: Option<&Path>, reactor: &Reactor) -> Result<Vec<Run>, Error> {
    let plan = modelled_plan(scale)?;
    let count = scale.modelled_operations * 4;
    let layers = [Layer::PageMapped, Layer::Hybrid];
    let mut runs = Vec::new();
    let chunks = |file: Option<&Path>| file.map(content::chunks).transpose();
    for (layer, (name, ..)) in layers.iter().zip(TABLES) {
        say(&format!("WAN optimizer: {name}"));
        let (index, ssd) = on_modelled(*layer, plan, reactor)?;
        let (draws, filled) = (Draws::hitting(entries(), plan.entries, HITS), until_full(&plan));
        inserted(&index, (draws, filled), &Watch::modelled(ssd.clock.clone()), reactor)?;
        // Of the newer half, so that nothing that is repeated has been evicted.
        let known = |random: u64| draws.draw(filled - 1 - random % (plan.entries / 2));
        let stream = |share| through(reactor, &index, &ssd.clock, generated(entries(), share, count, known));
        let generated = SHARES.map(stream).into_iter().collect::<Result<_, _>>()?;
        let content = chunks(file)?.map(|chunks| through(reactor, &index, &ssd.clock, chunks.into_iter()));
        runs.push(Run { generated, content: content.transpose()? });
    }
    for (layer, (name, ..)) in layers.iter().zip(&TABLES[2..]) {
        say(&format!("WAN optimizer: {name}"));
        let aged = Aged::new(name, *layer, scale, reactor)?;
        let held = aged.held();
        let count = count / 4;
        let stream = |share| {
            through(reactor, &aged.table, &aged.ssd.clock, generated(entries(), share, count, |random| random % held))
        };
        let generated = SHARES.map(stream).into_iter().collect::<Result<_, _>>()?;
        let content = chunks(file)?.map(|chunks| through(reactor, &aged.table, &aged.ssd.clock, chunks.into_iter()));
        runs.push(Run { generated, content: content.transpose()? });
    }
    Ok(runs)
}

/// Claim B6.
pub(in super::super) fn section(scale: &Scale, file: Option<&Path>) -> Result<Section, Error> {
    let reactor = Reactor::new().map_err(|e| crate::indexes::failed(&e))?;
    let runs = measure(scale, file, &reactor)?;
    let named = || TABLES.iter().zip(&runs);
    let line = |(name, sent): (&str, &Vec<Sent>)| Line {
        name: name.to_owned(),
        points: LINKS.iter().map(|link| (*link, improvement(sent, link * 1e6))).collect(),
    };
    let mut charts = vec![chart(
        "half of the chunks repeated",
        named().map(|((name, ..), run)| line((name, &run.generated[0]))).collect(),
    )];
    if runs.iter().all(|run| run.content.is_some()) {
        let lines = named().filter_map(|((name, ..), run)| Some(line((name, run.content.as_ref()?))));
        charts.push(chart("the file's content", lines.collect()));
    }
    let mut links =
        Table::new("The fastest link that is used at its best, Mbit/s", &["", "the paper", "the paper's drive"]);
    links.columns.extend(SHARES.map(|share| format!("{:.0} % repeated", share * 100.0)));
    links.columns.extend(file.map(|_| "the file".to_owned()));
    for ((name, drive, theirs), run) in named() {
        let theirs = theirs.map_or_else(|| "–".to_owned(), |link| format!("{link:.0}"));
        let ours = run.generated.iter().chain(&run.content).map(|sent| format!("{:.0}", best_link(sent) / 1e6));
        links.rows.push([(*name).to_owned(), theirs, (*drive).to_owned()].into_iter().chain(ours).collect());
    }
    let mut objects = Table::new(
        "Objects on a link of 10 Mbit/s with half of the chunks repeated",
        &["", "bytes of the stream for each byte sent", "mean throughput of an object, Mbit/s"],
    );
    for ((name, ..), run) in named() {
        let sent = &run.generated[0];
        let mean = object_throughput(sent, OBJECTS_LINK, OBJECTS_LOAD) / 1e6;
        objects.rows.push(vec![(*name).to_owned(), format!("{:.2}", ideal(sent)), format!("{mean:.2}")]);
    }
    Ok(Section {
        id: "clam-wan",
        title: "A WAN optimizer".into(),
        text: "The paper's application (§8): a stream is cut into chunks of 4 KiB; the sender looks each fingerprint up, sends 24 \
               bytes for content that the receiver has, and inserts what is new. The index has one operation at a time, and the \
               link sends what the index has finished. Indexes are full: what is new evicts the oldest in BufferHash. Streams are \
               generated with known redundancy; `--content FILE` adds one of real content, cut by content into chunks of 4 KiB on \
               average. The link is used at its best if the stream is sent at 90 % or more of the speed that it would have with an \
               index that takes no time. Time is that of modelled SSD and link; the store of the contents, a disk that is written \
               in sequence, is not modelled. Objects have sizes as files on the web, arrive at random, and would take 95 % of the \
               link without an optimizer."
            .into(),
        charts,
        tables: vec![links, objects],
        verdicts: vec![verdict(&runs)],
    })
}

fn chart(what: &str, lines: Vec<Line>) -> Chart {
    Chart::Lines(Lines {
        title: format!("Effective bandwidth, {what}"),
        x_label: "link, Mbit/s".into(),
        y_label: "times the link's".into(),
        log_x: true,
        log_y: true,
        y_min: 0.01,
        lines,
        events: Vec::new(),
    })
}

fn verdict(runs: &[Run]) -> Verdict {
    let best = |n: usize| runs.get(n).map_or(0.0, |run| best_link(&run.generated[0]) / 1e6);
    let object =
        |n: usize| runs.get(n).map_or(1.0, |run| object_throughput(&run.generated[0], OBJECTS_LINK, OBJECTS_LOAD));
    let links = [best(0), best(1), best(3)];
    let more = (object(1) / object(3) - 1.0) * 100.0;
    let found = format!(
        "at its best up to {:.0} Mbit/s (page-mapped) and {:.0} (hybrid); conventional up to {:.0}; an object at 10 Mbit/s {}",
        links[0],
        links[1],
        links[2],
        percents(&[more])
    );
    let outside: Vec<_> = ["page-mapped", "hybrid", "conventional"]
        .iter()
        .zip(links)
        .zip(LINKS_OF_PAPER)
        .filter(|((_, ours), theirs)| !Band::at(*theirs).has(*ours))
        .map(|((name, ours), theirs)| format!("{name} {ours:.0} Mbit/s (the paper: {theirs:.0})"))
        .collect();
    let object = crate::report::Part::new("objects", &["10 Mbit/s"], &[more], Band::at(OBJECT_GAIN));
    let why = match outside.as_slice() {
        [] => String::new(),
        names => format!(
            "Links: {}. The costs of look-ups and insertions are those of the modelled drives",
            names.join(", ")
        ),
    };
    Verdict::new("B6", found, judge(links, more)).because(&reason(&[object], &why))
}

/// The paper's fastest links, in Mbit/s: Intel, Transcend, and BerkeleyDB.
const LINKS_OF_PAPER: [f64; 3] = [500.0, 200.0, 10.0];
/// The paper's gain of an object, in percent.
const OBJECT_GAIN: f64 = 65.0;

/// B6: the fastest links of BufferHash on both drives and of the conventional table, in Mbit/s; and the gain of an object at
/// 10 Mbit/s, in percent.
fn judge(links: [f64; 3], object_more: f64) -> Holds {
    let [mapped, hybrid, plain] = links;
    let near = links.iter().zip(LINKS_OF_PAPER).all(|(ours, theirs)| Band::at(theirs).has(*ours));
    let order = mapped > hybrid && hybrid > plain;
    Holds::of(near, order).and(Band::at(OBJECT_GAIN).judge(&[object_more]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claim_can_hold_and_fail() {
        assert_eq!(judge([500.0, 200.0, 10.0], 65.0), Holds::Holds);
        assert_eq!(judge([900.0, 200.0, 10.0], 65.0), Holds::InDirection);
        assert_eq!(judge([500.0, 200.0, 10.0], 20.0), Holds::InDirection);
        assert_eq!(judge([500.0, 600.0, 10.0], 65.0), Holds::DoesNot);
        assert_eq!(judge([500.0, 200.0, 300.0], 65.0), Holds::DoesNot);
        assert_eq!(judge([500.0, 200.0, 10.0], -5.0), Holds::DoesNot);
    }
}

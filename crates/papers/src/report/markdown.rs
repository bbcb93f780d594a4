//! The report as Markdown.

use super::{Report, Verdict, overview, svg, verdicts};
use crate::report::{Chart, Holds, Table};

/// The whole report; charts are shown as tables.
pub(super) fn page(report: &Report) -> String {
    let verdicts = verdicts(report);
    let mut out = format!(
        "# {}\n\nMade by `{}` (nitro {}), in {:.0} s.\n{}\n## Method\n\n{}\n\n## Claims\n\n",
        report.title,
        report.command,
        report.version,
        report.seconds,
        summary(&verdicts),
        report.about
    );
    for Verdict { id, claim, found, holds, reason } in verdicts {
        let reason = if reason.is_empty() { String::new() } else { format!("  - {}\n", line(reason)) };
        out += &format!("- **{id}: {}.** {}\n  - Here: {}\n{reason}", holds.words(), line(claim), line(found));
    }
    for section in &report.sections {
        out += &format!("\n## {}\n\n{}\n", section.title, section.text);
        // Bars have a table already.
        for chart in section.charts.iter().filter(|chart| !matches!(chart, Chart::Bars(_))) {
            out += &table(&Table { title: svg::title(chart).to_owned(), ..svg::figures(chart) });
        }
        section.tables.iter().for_each(|one| out += &table(one));
    }
    if !report.failures.is_empty() {
        out += "\n## Could not be run\n\n";
        report.failures.iter().for_each(|failure| out += &format!("- {failure}\n"));
    }
    out
}

/// How many claims of each paper have which verdict.
fn summary(verdicts: &[&Verdict]) -> String {
    let mut all = Table::new("", &[""]);
    all.columns.extend(Holds::ALL.map(|holds| holds.words().to_owned()));
    for paper in overview::by_paper(verdicts) {
        let counts = paper.counts();
        let count = |holds| counts.iter().find(|(other, _)| *other == holds).map_or(0, |(_, count)| *count);
        all.rows.push(std::iter::once(paper.name.to_owned()).chain(Holds::ALL.map(|h| count(h).to_string())).collect());
    }
    table(&all)
}

fn line(text: &str) -> String {
    text.replace('\n', " ")
}

fn cell(text: &str) -> String {
    line(&text.replace('|', "\\|"))
}

fn table(table: &Table) -> String {
    let row =
        |cells: &[String]| format!("| {} |\n", cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(" | "));
    let mut out = format!("\n{}\n\n{}|{}\n", table.title, row(&table.columns), "---|".repeat(table.columns.len()));
    table.rows.iter().for_each(|cells| out += &row(cells));
    out
}

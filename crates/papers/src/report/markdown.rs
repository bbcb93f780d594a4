//! The report as Markdown.

use super::{Report, svg, verdicts};
use crate::report::{Chart, Table};

/// The whole report; charts are shown as tables.
pub(super) fn page(report: &Report) -> String {
    let mut out = format!(
        "# {}\n\nMade by `{}` (nitro {}), in {:.0} s. {}\n\n## Claims\n\n\
         | | the paper | here | verdict |\n|---|---|---|---|\n",
        report.title, report.command, report.version, report.seconds, report.about
    );
    for verdict in verdicts(report) {
        let reason = if verdict.reason.is_empty() { String::new() } else { format!(": {}", verdict.reason) };
        out += &format!(
            "| {} | {} | {} | **{}**{} |\n",
            verdict.id,
            cell(verdict.claim),
            cell(&verdict.found),
            verdict.holds.words(),
            cell(&reason)
        );
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

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn table(table: &Table) -> String {
    let row =
        |cells: &[String]| format!("| {} |\n", cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(" | "));
    let mut out = format!("\n{}\n\n{}|{}\n", table.title, row(&table.columns), "---|".repeat(table.columns.len()));
    table.rows.iter().for_each(|cells| out += &row(cells));
    out
}

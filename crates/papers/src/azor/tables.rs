//! What the tables and charts of several sections share.

use super::bed::Run;
use crate::report::{Bars, Chart, Table};
use nitro_console::size::Size;

/// The figures of runs, a row each.
pub(super) fn measured(title: &str, speed: &str, names: &[&str], runs: &[Run]) -> Table {
    let columns = ["", speed, "hits", "mean response", "disks busy", "SSD busy", "written to the SSD"];
    let mut table = Table::new(title, &columns);
    for (name, run) in names.iter().zip(runs) {
        table.rows.push(vec![
            (*name).to_owned(),
            figure(run.per_second),
            format!("{:.1} %", run.hit_percent),
            format!("{:.2} ms", run.response_ms),
            format!("{:.0} %", run.disks_percent),
            format!("{:.1} %", run.ssd_percent),
            Size(run.ssd_written as u64).to_string(),
        ]);
    }
    table
}

/// A speed with three digits or more.
pub(super) fn figure(speed: f64) -> String {
    if speed >= 100.0 { format!("{speed:.0}") } else { format!("{speed:.3}") }
}

/// The speeds of runs, a bar each.
pub(super) fn bars(title: &str, label: &str, names: &[&str], runs: &[Run]) -> Chart {
    Chart::Bars(Bars {
        title: title.into(),
        y_label: label.into(),
        log_y: false,
        groups: names.iter().map(|name| (*name).to_owned()).collect(),
        bars: vec![(label.into(), runs.iter().map(|run| Some(run.per_second)).collect())],
    })
}

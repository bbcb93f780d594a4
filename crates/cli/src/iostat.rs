//! `nitro iostat`: the I/O of each volume, interval by interval.

use crate::args::IostatArgs;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Listening, Table};
use nitro_console::screen;
use nitro_server::control::protocol::Status;
use nitro_server::control::rates::{Row, rows, total};
use std::time::Duration;

/// Prints rates: since the start of the server, or over each interval.
pub(crate) fn run(args: &IostatArgs) -> Result<(), Error> {
    let mut client = args.server.connect()?;
    let mut before = Status::default();
    if args.interval.is_some() {
        before = client.status()?;
    }
    let mut paper = Paper { format: args.server.output.format, all: args.extended, printed: None };
    for round in 0.. {
        if let Some(interval) = args.interval {
            if args.count.is_some_and(|count| round == count) {
                return Ok(());
            }
            if output::pause(Duration::from_secs_f64(interval))? == Listening::No {
                return Ok(());
            }
        }
        let now = client.status()?;
        let (rows, total) = (rows(&before, &now), total(&before, &now));
        if output::print(&paper.render(&rows, &total, screen::size())?)? == Listening::No || args.interval.is_none() {
            return Ok(());
        }
        before = now;
    }
    Ok(())
}

/// A column: its name in CSV and JSON, its header in tables, its rank, and its cell. If there is no room for all
/// columns, those with the highest ranks are left out first.
type Column = (&'static str, &'static str, u8, fn(&Row) -> Cell);

enum Cell {
    Text(String),
    Number(f64),
    /// Of the cache; absent where several volumes share it.
    Shared(Option<f64>),
    Milliseconds(Option<f64>),
    Percent(Option<f64>),
}

/// In the order of the fields of [`Row`].
const COLUMNS: [Column; 23] = [
    ("volume", "volume", 0, |r| Cell::Text(r.volume.clone())),
    ("time", "time", 20, |r| Cell::Text(r.time.to_string())),
    ("seconds", "seconds", 19, |r| Cell::Number(r.seconds)),
    ("reads_per_second", "reads/s", 1, |r| Cell::Number(r.reads_per_second)),
    ("read_mib_per_second", "rd_MiB/s", 5, |r| Cell::Number(r.read_mib_per_second)),
    ("hit_percent", "hit_%", 1, |r| Cell::Percent(r.hit_percent)),
    ("read_mean_ms", "rd_ms", 3, |r| Cell::Milliseconds(r.read_mean_ms)),
    ("read_p99_ms", "rd_p99", 2, |r| Cell::Milliseconds(r.read_p99_ms)),
    ("writes_per_second", "writes/s", 1, |r| Cell::Number(r.writes_per_second)),
    ("write_mib_per_second", "wr_MiB/s", 5, |r| Cell::Number(r.write_mib_per_second)),
    ("write_mean_ms", "wr_ms", 3, |r| Cell::Milliseconds(r.write_mean_ms)),
    ("write_p99_ms", "wr_p99", 2, |r| Cell::Milliseconds(r.write_p99_ms)),
    ("origin_reads_per_second", "org_rd/s", 7, |r| Cell::Number(r.origin_reads_per_second)),
    ("origin_writes_per_second", "org_wr/s", 8, |r| Cell::Number(r.origin_writes_per_second)),
    ("ssd_read_mib_per_second", "ssd_rd_MiB/s", 10, |r| Cell::Shared(r.ssd_read_mib_per_second)),
    ("ssd_write_mib_per_second", "ssd_wr_MiB/s", 9, |r| Cell::Shared(r.ssd_write_mib_per_second)),
    ("drops_per_second", "drops/s", 11, |r| Cell::Shared(r.drops_per_second)),
    ("dirty_mib", "dirty_MiB", 4, |r| Cell::Number(r.dirty_mib)),
    ("destage_mib_per_second", "dest_MiB/s", 6, |r| Cell::Number(r.destage_mib_per_second)),
    ("limit_waiting", "w_limit", 12, |r| Cell::Number(r.limit_waiting)),
    ("dirty_waiting", "w_dirty", 13, |r| Cell::Number(r.dirty_waiting)),
    ("journal_waiting", "w_jrnl", 14, |r| Cell::Number(r.journal_waiting)),
    ("ram_waiting", "w_ram", 15, |r| Cell::Number(r.ram_waiting)),
];
/// Width of the first column, and its maximum; width of the others.
const NAME_WIDTH: usize = 10;
const NAME_WIDTH_MAX: usize = 24;
const WIDTH: usize = 8;

impl Cell {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(value) => format!("{value:.1}"),
            Self::Shared(value) => value.map_or_else(String::new, |value| format!("{value:.1}")),
            Self::Milliseconds(value) => value.map_or_else(String::new, |value| format!("{value:.3}")),
            Self::Percent(value) => value.map_or_else(String::new, |value| format!("{value:.1}")),
        }
    }
}

/// The state of the output.
struct Paper {
    format: Format,
    /// Whether all columns are printed, even if they are wider than the terminal.
    all: bool,
    /// Lines since the last header; `None`: no header was printed yet.
    printed: Option<usize>,
}

impl Paper {
    fn render(&mut self, rows: &[Row], total: &Row, screen: (u16, u16)) -> Result<String, Error> {
        match self.format {
            Format::Json => rows.iter().map(output::json_line).collect(),
            Format::Csv => {
                let mut table = Table::new(COLUMNS.map(|(name, ..)| name));
                rows.iter().for_each(|row| table.row(COLUMNS.map(|(.., cell)| cell(row).text()).to_vec()));
                let head = self.printed.is_none();
                self.printed = Some(rows.len());
                Ok(table.csv(head))
            }
            Format::Table => Ok(self.table(rows, total, screen)),
        }
    }

    fn table(&mut self, rows: &[Row], total: &Row, (width, height): (u16, u16)) -> String {
        let longest = rows.iter().map(|row| row.volume.chars().count()).max().unwrap_or(0);
        let name = longest.clamp(NAME_WIDTH, NAME_WIDTH_MAX);
        let columns = if self.all { COLUMNS.to_vec() } else { fitting(width.into(), name) };
        let sum = (rows.len() > 1).then_some(total);
        let lines = rows.len() + usize::from(sum.is_some());
        let mut out = String::new();
        // One line of the screen is left for the next prompt.
        let is_full = |printed: usize| printed + lines + 1 > usize::from(height).saturating_sub(1);
        if self.printed.is_none_or(is_full) {
            out += &line(&columns, name, |(_, head, ..)| (*head).to_owned());
            self.printed = Some(1);
        }
        for row in rows.iter().chain(sum) {
            out += &line(&columns, name, |(.., cell)| cell(row).text());
        }
        self.printed = self.printed.map(|printed| printed + lines);
        out
    }
}

/// The columns that fit, in their order.
fn fitting(width: usize, name: usize) -> Vec<Column> {
    let mut columns = COLUMNS.to_vec();
    let taken = |columns: &[Column]| name + columns.iter().skip(1).map(|column| 1 + width_of(column)).sum::<usize>();
    while columns.len() > 1 && taken(&columns) > width {
        // The last column with the highest rank.
        let Some(least) = (0..columns.len()).max_by_key(|at| columns[*at].2) else { break };
        columns.remove(least);
    }
    columns
}

fn width_of((_, head, ..): &Column) -> usize {
    // The time has ten digits.
    head.len().max(if *head == "time" { 10 } else { WIDTH })
}

fn line(columns: &[Column], name: usize, text: impl Fn(&Column) -> String) -> String {
    let mut out = String::new();
    for (i, column) in columns.iter().enumerate() {
        let cell: String = text(column);
        if i == 0 {
            let short: String = cell.chars().take(name).collect();
            out += &format!("{short:<name$}");
        } else {
            out += &format!(" {cell:>width$}", width = width_of(column));
        }
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_console::screen::USUAL;
    use nitro_server::control::rates::TOTAL;

    fn row(volume: &str) -> Row {
        Row { volume: volume.to_owned(), ..Row::default() }
    }

    #[test]
    fn the_head_of_a_csv_is_printed_once() {
        let mut paper = Paper { format: Format::Csv, all: false, printed: None };
        let csv = paper.render(&[row("vm")], &row(TOTAL), USUAL).unwrap();
        assert!(csv.starts_with("volume,time,seconds,reads_per_second") && csv.lines().count() == 2);
        assert_eq!(paper.render(&[row("vm")], &row(TOTAL), USUAL).unwrap().lines().count(), 1);
    }

    #[test]
    fn csv_and_json_name_columns_alike() {
        let json = serde_json::to_value(row("vm")).unwrap();
        let names: std::collections::BTreeSet<_> = COLUMNS.iter().map(|(name, ..)| (*name).to_owned()).collect();
        assert_eq!(json.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>(), names);
    }

    #[test]
    fn a_table_is_as_wide_as_the_screen_and_repeats_its_head() {
        let rows = [row("a"), row("b")];
        let mut paper = Paper { format: Format::Table, all: false, printed: None };
        let mut text = String::new();
        for _ in 0..10 {
            text += &paper.render(&rows, &row(TOTAL), (80, 12)).unwrap();
        }
        let heads: Vec<_> = text.lines().enumerate().filter(|(_, l)| l.starts_with("volume")).map(|(i, _)| i).collect();
        assert_eq!(heads, [0, 10, 20, 30]);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            text.contains("rd_p99") && text.contains("wr_p99") && text.contains("hit_%") && text.contains("\ntotal")
        );
        let mut wide = Paper { format: Format::Table, all: true, printed: None };
        let text = wide.render(&rows, &row(TOTAL), (80, 24)).unwrap();
        assert!(text.contains("drops/s") && text.contains("dest_MiB/s") && text.contains("time"));
    }
}

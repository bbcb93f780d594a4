//! `nitro cache fsck`

use super::reactor;
use crate::args::OutputArgs;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::progress::Progress;
use nitro_console::size::Size;
use nitro_engine::inspect::{self, Problem, Report, Severity};
use nitro_port::Device;
use nitro_server::serve;
use std::path::PathBuf;

/// Checks a cache and prints its problems; fails if metadata or dirty data are damaged.
pub(super) fn run(paths: &[PathBuf], output: OutputArgs) -> Result<(), Error> {
    let what = serve::title(paths);
    let device = reactor()?.block_on(serve::open_devices_to_look(paths))?;
    let size_bytes = device.geometry().size_bytes;
    let progress = Progress::new(size_bytes, "checked");
    let share = |done: u64, of: u64| (size_bytes as f64 * done as f64 / of.max(1) as f64) as u64;
    let checked = reactor()?.block_on(inspect::check(&device, |done, of| progress.show(share(done, of))));
    progress.end();
    let report = checked.map_err(|e| {
        Error::with_sources(&what, &e).or("without a superblock nothing can be found; is this the right device?")
    })?;
    let text = match output.format {
        Format::Table => table(&what, &report),
        Format::Json => output::json_pretty(&report)?,
        Format::Csv => csv(&report),
    };
    output::print(&text)?;
    match (report.worst(), report.problems.len() as u64 + report.problems_left_out) {
        (None, _) => Ok(()),
        (Some(Severity::DataLost), count) => {
            Err(Error::new(what, format_args!("{count} problems; dirty data are lost"))
                .or("nitro cache salvage can extract the rest"))
        }
        (Some(Severity::Metadata), count) => {
            Err(Error::new(what, format_args!("{count} problems with its structures"))
                .or("extract the dirty data with nitro cache salvage, then format the cache with --format"))
        }
        // A crash leaves such problems in units that were being refilled; the origin has the damaged content.
        (Some(Severity::CostsAMiss), _) => Ok(()),
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::CostsAMiss => "costs a miss",
        Severity::Metadata => "structure",
        Severity::DataLost => "data lost",
    }
}

fn where_it_is(problem: &Problem) -> String {
    let weu = problem.weu.map_or_else(String::new, |weu| format!(", write-evict unit {weu}"));
    let content = problem.content.as_ref().map_or_else(String::new, |range| {
        let volume = range.volume.clone().unwrap_or_else(|| format!("number {}", range.object));
        format!(", {} bytes at {} of volume {volume}", range.len, range.offset)
    });
    format!("at {}{weu}{content}", problem.offset)
}

fn table(what: &str, report: &Report) -> String {
    let counts = &report.counts;
    let mut out = format!(
        "{what}: {} of {} write-evict units in use, {} extents in {} checked, {} dirty, {} lost\n",
        counts.weus + counts.unsealed_weus,
        counts.slots,
        counts.extents,
        Size(counts.stored_bytes),
        counts.dirty_extents,
        counts.lost_extents,
    );
    for note in &report.notes {
        out += &format!("  note: {note}\n");
    }
    for (problem, count) in merged(&report.problems) {
        let times = if count > 1 { format!(", {count} times") } else { String::new() };
        out += &format!("  {}: {}{times} ({})\n", word(problem.severity), problem.what, where_it_is(&problem));
    }
    if report.problems_left_out > 0 {
        out += &format!("  and {} more that cost a miss\n", report.problems_left_out);
    }
    if report.problems.is_empty() {
        out += "  nothing is wrong\n";
    }
    out
}

/// The problems, with one for each range of a volume in which all extents of a write-evict unit have the same, and their numbers.
fn merged(problems: &[Problem]) -> Vec<(Problem, u64)> {
    let mut all: Vec<(Problem, u64)> = Vec::new();
    for problem in problems {
        if let Some((last, count)) = all.last_mut()
            && is_alike(last, problem)
            && let (Some(range), Some(next)) = (&mut last.content, &problem.content)
            && (range.object, range.offset + range.len) == (next.object, next.offset)
        {
            range.len += next.len;
            last.len += problem.len;
            *count += 1;
        } else {
            all.push((problem.clone(), 1));
        }
    }
    all
}

fn is_alike(one: &Problem, other: &Problem) -> bool {
    (one.severity, one.weu, &one.what) == (other.severity, other.weu, &other.what)
}

fn csv(report: &Report) -> String {
    let mut table = Table::new(["severity", "offset", "len", "what", "where"]);
    for problem in &report.problems {
        let Problem { severity, offset, len, what, .. } = problem;
        let place = where_it_is(problem);
        table.row(vec![word(*severity).to_owned(), offset.to_string(), len.to_string(), what.clone(), place]);
    }
    table.csv(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_engine::inspect::VolumeRange;

    #[test]
    fn damage_of_a_range_is_one_line() {
        let problem = |weu, offset| Problem {
            severity: Severity::DataLost,
            what: "stored extent: wrong checksum".to_owned(),
            offset: 4096 + offset,
            len: 4096,
            weu: Some(weu),
            content: Some(VolumeRange { object: 1, volume: Some("vm".to_owned()), offset, len: 8192 }),
        };
        let mut problems: Vec<_> = (0..256).map(|n| problem(3, n * 8192)).collect();
        problems.extend((256..512).map(|n| problem(4, n * 8192)));
        problems.push(problem(4, 1 << 30));
        let report = Report { problems, ..Report::default() };
        let text = table("cache c", &report);
        assert_eq!(text.lines().filter(|line| line.contains("data lost")).count(), 3, "{text}");
        assert!(text.contains("256 times (at 4096, write-evict unit 3, 2097152 bytes at 0 of volume vm)"), "{text}");
        assert_eq!(csv(&report).lines().count(), 514, "each has its line for programs");
    }
}

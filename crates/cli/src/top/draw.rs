//! The screen: a line for the server, faults, totals with their history, caches, volumes.

use super::Shown;
use nitro_console::screen::duration;
use nitro_console::size::Size;
use nitro_server::control::faults::Severity;
use nitro_server::control::protocol::{Cache, Volume};
use nitro_server::control::rates::Row;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline, Table};

/// Maximum number of faults that are shown.
const FAULTS_MAX: usize = 3;
/// A part of a cache's space: bytes, name, colour.
type Part = (u64, &'static str, Color);

pub(super) fn all(frame: &mut Frame<'_>, shown: &Shown) {
    let faults = shown.faults.len().min(FAULTS_MAX) as u16 + u16::from(shown.problem.is_some());
    let caches = shown.status.caches.iter().filter(|cache| cache.health != "none").count().min(4) as u16;
    let [head, problems, totals, past, space, volumes, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(faults),
        Constraint::Length(1),
        Constraint::Length(4),
        Constraint::Length(2 * caches),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(heading(shown), head);
    frame.render_widget(Paragraph::new(faults_of(shown)), problems);
    frame.render_widget(sums(shown), totals);
    lines_of_past(frame, shown, past);
    let each = shown.status.caches.iter().filter(|cache| cache.health != "none").take(4);
    frame.render_widget(Paragraph::new(each.flat_map(|c| cache(c, space.width)).collect::<Vec<_>>()), space);
    frame.render_widget(table(shown, volumes.width), volumes);
    frame.render_widget(Line::styled("q quit   ↑↓ scroll", Style::new().add_modifier(Modifier::DIM)), keys);
}

fn bold(text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), Style::new().add_modifier(Modifier::BOLD))
}

fn heading(shown: &Shown) -> Line<'static> {
    let server = &shown.status.server;
    let ram = Size(shown.status.ram.resident_bytes);
    Line::from(vec![
        bold(format!("nitro {}", server.version)),
        Span::raw(format!("  up {}, {} clients, RAM {ram}", duration(server.uptime_seconds), server.connections)),
    ])
}

fn faults_of(shown: &Shown) -> Vec<Line<'static>> {
    let colour = |severity| match severity {
        Severity::Critical => Color::Red,
        Severity::Warning => Color::Yellow,
        Severity::Notice => Color::Cyan,
    };
    let told = shown.faults.iter().take(FAULTS_MAX);
    let faults = told.map(|f| Line::styled(format!("{}: {}", f.subject, f.what), Style::new().fg(colour(f.severity))));
    let problem = shown.problem.iter().map(|why| Line::styled(why.clone(), Style::new().fg(Color::Red)));
    problem.chain(faults).collect()
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1} %"))
}

fn milliseconds(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"))
}

fn sums(shown: &Shown) -> Line<'static> {
    let Some(total) = &shown.total else { return Line::raw("measuring …") };
    Line::from(vec![
        Span::raw("hits "),
        bold(percent(total.hit_percent)),
        Span::raw("  reads "),
        bold(format!("{:.0}/s", total.reads_per_second)),
        Span::raw(format!(" {:.1} MiB/s", total.read_mib_per_second)),
        Span::raw("  writes "),
        bold(format!("{:.0}/s", total.writes_per_second)),
        Span::raw(format!(" {:.1} MiB/s", total.write_mib_per_second)),
        Span::raw(format!("  dirty {:.0} MiB", total.dirty_mib)),
    ])
}

fn lines_of_past(frame: &mut Frame<'_>, shown: &Shown, area: Rect) {
    let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Length(2), Constraint::Fill(1)]);
    let [left, _, right] = halves.areas(area);
    let newest = |past: &std::collections::VecDeque<u64>, width: u16| {
        past.iter().skip(past.len().saturating_sub(width.into())).copied().collect::<Vec<_>>()
    };
    for (area, title, past, max, colour) in [
        (left, "requests/s", &shown.requests, None, Color::Blue),
        (right, "hits, %", &shown.hits, Some(100), Color::Green),
    ] {
        let [head, line] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        let data = newest(past, line.width);
        let most = data.iter().max().copied().unwrap_or(0);
        frame.render_widget(
            Line::styled(format!("{title}, up to {most}"), Style::new().add_modifier(Modifier::DIM)),
            head,
        );
        let sparkline = Sparkline::default().data(data).style(Style::new().fg(colour));
        frame.render_widget(max.map_or(sparkline.clone(), |max| sparkline.max(max)), line);
    }
}

/// Two lines for a cache: its state, and a bar for the parts of its space.
fn cache(cache: &Cache, width: u16) -> [Line<'static>; 2] {
    let shrinks = cache.dedup_ratio * cache.compression_ratio;
    let (cached, capacity) = (Size(cache.cached_bytes), Size(cache.capacity_bytes));
    let told = |reduction: String| {
        format!(
            " {}: {cached} on {capacity}, {reduction}, written {}",
            cache.health,
            Size(cache.counters.ssd_written_bytes())
        )
    };
    let name = format!("cache {}", cache.name);
    let whole = told(format!("{shrinks:.2} : 1 ({:.2} × {:.2})", cache.dedup_ratio, cache.compression_ratio));
    let fits = name.chars().count() + whole.chars().count() <= usize::from(width);
    let text = if fits { whole } else { told(format!("{shrinks:.2} : 1")) };
    [Line::from(vec![bold(name), Span::raw(text)]), bar(cache, width)]
}

fn bar(cache: &Cache, width: u16) -> Line<'static> {
    let space = &cache.space;
    let parts: [Part; 7] = [
        (space.live_bytes, "live", Color::Blue),
        (space.overwritten_bytes, "overwritten", Color::Yellow),
        (space.pinned_bytes, "pinned", Color::Magenta),
        (space.open_bytes, "open", Color::Green),
        (space.free_bytes, "free", Color::DarkGray),
        (space.unread_bytes, "unread", Color::Gray),
        (space.retired_bytes, "retired", Color::Red),
    ];
    let all = parts.iter().map(|part| part.0).sum::<u64>().max(1);
    let spans = parts.iter().filter(|part| part.0 > 0).map(|(bytes, name, colour)| {
        let cells = (u128::from(*bytes) * u128::from(width) / u128::from(all)) as usize;
        let text = format!(" {name} {}", Size(*bytes));
        let text: String = format!("{text:<cells$}").chars().take(cells).collect();
        Span::styled(text, Style::new().bg(*colour).fg(Color::Black))
    });
    Line::from(spans.collect::<Vec<_>>())
}

/// A column: its header, its width, whether only wide screens have it, and its cell.
type Column = (&'static str, u16, bool, fn(&Row, &Volume) -> String);

const COLUMNS: [Column; 12] = [
    ("volume", 14, false, |row, _| row.volume.clone()),
    ("hits", 8, false, |row, _| percent(row.hit_percent)),
    ("reads/s", 8, false, |row, _| format!("{:.0}", row.reads_per_second)),
    ("p99 ms", 8, false, |row, _| milliseconds(row.read_p99_ms)),
    ("writes/s", 8, false, |row, _| format!("{:.0}", row.writes_per_second)),
    ("p99 ms", 8, false, |row, _| milliseconds(row.write_p99_ms)),
    ("dirty MiB", 9, false, |row, _| format!("{:.0}", row.dirty_mib)),
    ("state", 9, false, |_, volume| state(volume).to_owned()),
    ("waits for", 12, true, waits_for),
    ("mode", 13, true, |_, volume| volume.mode.clone()),
    ("dest. MiB/s", 10, true, |row, _| format!("{:.1}", row.destage_mib_per_second)),
    ("clients", 7, true, |_, volume| volume.clients.to_string()),
];

/// What most of a volume's requests wait for before they begin, and how many of them do.
fn waits_for(row: &Row, volume: &Volume) -> String {
    // A request that has waited for longer than the interval is counted when it begins.
    let limit = row.limit_waiting.max(volume.waiting_limit as f64);
    let slowed = row.dirty_waiting + row.journal_waiting + row.ram_waiting;
    let dirty = if slowed == 0.0 { volume.waiting_room as f64 } else { row.dirty_waiting };
    let all = [(limit, "limit"), (dirty, "dirty"), (row.journal_waiting, "journal"), (row.ram_waiting, "RAM")];
    let most = all.into_iter().filter(|(count, _)| *count >= 0.05).max_by(|a, b| a.0.total_cmp(&b.0));
    most.map_or_else(String::new, |(count, cause)| format!("{cause} {count:.1}"))
}

fn state(volume: &Volume) -> &'static str {
    match volume {
        Volume { poisoned: Some(_), .. } => "no writes",
        Volume { destage_error: Some(_), .. } => "failing",
        Volume { attached: false, .. } => "detached",
        // Only wide screens have room for what they wait for.
        Volume { waiting_limit: 1.., .. } => "limited",
        Volume { waiting_room: 1.., .. } => "slowed",
        _ => "ok",
    }
}

fn table(shown: &Shown, width: u16) -> Table<'static> {
    let columns: Vec<_> = COLUMNS.iter().filter(|column| !column.2 || width >= 120).collect();
    let volumes = shown.rows.iter().skip(shown.scroll).filter_map(|row| {
        let volume = shown.status.volumes.iter().find(|volume| volume.name == row.volume)?;
        Some(ratatui::widgets::Row::new(columns.iter().map(|column| column.3(row, volume)).collect::<Vec<_>>()))
    });
    let head = ratatui::widgets::Row::new(columns.iter().map(|column| column.0));
    Table::new(volumes, columns.iter().map(|column| Constraint::Length(column.1)))
        .column_spacing(1)
        .header(head.style(Style::new().add_modifier(Modifier::REVERSED)))
}

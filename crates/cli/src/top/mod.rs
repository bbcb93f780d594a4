//! `nitro top`: a running server on the terminal.

mod draw;
mod terminal;

use crate::args::TopArgs;
use nitro_console::error::Error;
use nitro_server::control::client::Client;
use nitro_server::control::faults::{Fault, faults};
use nitro_server::control::protocol::Status;
use nitro_server::control::rates::{Row, rows, total};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};
use terminal::{Keys, Next};

/// Number of samples that are kept for the history lines.
const PAST_MAX: usize = 512;

/// The content of the screen.
#[derive(Debug, Default)]
struct Shown {
    status: Status,
    faults: Vec<Fault>,
    rows: Vec<Row>,
    total: Option<Row>,
    /// Requests a second, and hits in percent, of the last samples; the newest is last.
    requests: VecDeque<u64>,
    hits: VecDeque<u64>,
    /// Index of the first visible volume.
    scroll: usize,
    /// Why the last sample failed.
    problem: Option<String>,
}

impl Shown {
    /// Takes a new sample of the server's state.
    fn take(&mut self, now: Status) {
        if self.status.server.pid == now.server.pid && now.server.uptime_seconds > self.status.server.uptime_seconds {
            let total = total(&self.status, &now);
            self.rows = rows(&self.status, &now);
            push(&mut self.requests, (total.reads_per_second + total.writes_per_second) as u64);
            push(&mut self.hits, total.hit_percent.unwrap_or(0.0) as u64);
            self.total = Some(total);
        } else {
            (self.rows, self.total) = (rows(&Status::default(), &now), None);
        }
        self.faults = faults(&now);
        self.status = now;
        self.problem = None;
        self.scroll = self.scroll.min(self.rows.len().saturating_sub(1));
    }
}

fn push(past: &mut VecDeque<u64>, value: u64) {
    if past.len() == PAST_MAX {
        past.pop_front();
    }
    past.push_back(value);
}

/// Shows a server until the user quits.
pub(crate) fn run(args: &TopArgs) -> Result<(), Error> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Error::new("top", "it needs a terminal").or("use nitro iostat 1, or nitro status"));
    }
    let mut client = Client::connect(args.control.path())?;
    let mut shown = Shown::default();
    shown.take(client.status()?);
    let failed = |e: io::Error| Error::new("terminal", e);
    let keys = Keys::watch()?;
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let interval = Duration::from_secs_f64(args.interval);
    let watched = (|| {
        let mut looked = Instant::now();
        loop {
            terminal.draw(|frame| draw::all(frame, &shown))?;
            match keys.next(interval.saturating_sub(looked.elapsed()))? {
                Next::End => return Ok(()),
                Next::Event(event) if handle(&event, &mut shown) => return Ok(()),
                Next::Event(_) | Next::Time => {}
            }
            if looked.elapsed() >= interval {
                looked = Instant::now();
                look(&mut client, args, &mut shown);
            }
        }
    })();
    if terminal::is_closed() {
        // There is nothing to restore, and no place for a message that it cannot be.
        std::mem::forget(terminal);
        return Ok(());
    }
    ratatui::try_restore().and(watched).map_err(failed)
}

/// Takes a sample; if the connection is lost, as after a restart of the server, connects again.
fn look(client: &mut Client, args: &TopArgs, shown: &mut Shown) {
    let status = client.status().or_else(|_| {
        *client = Client::connect(args.control.path())?;
        client.status()
    });
    match status {
        Ok(status) => shown.take(status),
        Err(error) => shown.problem = Some(error.to_string()),
    }
}

/// Handles an event; returns whether it ends the program.
fn handle(event: &Event, shown: &mut Shown) -> bool {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press | KeyEventKind::Repeat, .. }) = event else {
        return false;
    };
    match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Down | KeyCode::Char('j') => shown.scroll = (shown.scroll + 1).min(shown.rows.len().saturating_sub(1)),
        KeyCode::Up | KeyCode::Char('k') => shown.scroll = shown.scroll.saturating_sub(1),
        _ => {}
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_engine::metrics::VolumeCounters;
    use nitro_server::control::protocol::{Cache, Server, Volume};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn status(uptime_seconds: f64, reads: u64) -> Status {
        let volume = |name: &str| Volume {
            name: name.into(),
            cache: "fast".into(),
            mode: "write-back".into(),
            attached: name != "db",
            counters: VolumeCounters { reads, read_hit_extents: reads, ..VolumeCounters::default() },
            destage_error: (name == "vm").then(|| "no room left".to_owned()),
            ..Volume::default()
        };
        let mut cache = Cache {
            name: "fast".into(),
            health: "caching".into(),
            capacity_bytes: 64 << 20,
            cached_bytes: 80 << 20,
            dedup_ratio: 1.5,
            compression_ratio: 2.0,
            ..Cache::default()
        };
        (cache.space.live_bytes, cache.space.overwritten_bytes, cache.space.free_bytes) = (40 << 20, 8 << 20, 16 << 20);
        Status {
            server: Server { version: "1.2.3".into(), pid: 7, uptime_seconds, ..Server::default() },
            caches: vec![cache],
            volumes: vec![volume("vm"), volume("db")],
            ..Status::default()
        }
    }

    fn screen(shown: &Shown, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw::all(frame, shown)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y) + "\n").collect()
    }

    #[test]
    fn a_small_terminal_shows_what_matters() {
        let mut shown = Shown::default();
        shown.take(status(10.0, 1000));
        shown.take(status(12.0, 1200));
        let text = screen(&shown, 80, 24);
        for told in
            ["1.2.3", "vm", "db", "100.0 %", "no room left", "fast", "live", "80 MiB", "detached", "3.00 : 1", "q"]
        {
            assert!(text.contains(told), "{told} is not in\n{text}");
        }
        // 100 requests a second on each of the two volumes.
        assert!(text.contains("200"), "{text}");
    }

    #[test]
    fn any_size_can_be_drawn() {
        let mut shown = Shown::default();
        shown.take(status(10.0, 1000));
        for (width, height) in [(1, 1), (10, 3), (40, 10), (80, 24), (250, 80)] {
            screen(&shown, width, height);
        }
        assert!(screen(&shown, 250, 80).contains("write-back"));
    }

    #[test]
    fn keys_scroll_and_end() {
        let mut shown = Shown::default();
        shown.take(status(10.0, 0));
        let press = |code| Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
        assert!(handle(&press(KeyCode::Char('q')), &mut shown) && handle(&press(KeyCode::Esc), &mut shown));
        for _ in 0..3 {
            assert!(!handle(&press(KeyCode::Down), &mut shown));
        }
        assert_eq!(shown.scroll, 1);
        handle(&press(KeyCode::Up), &mut shown);
        assert_eq!(shown.scroll, 0);
    }
}

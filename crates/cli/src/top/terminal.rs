//! The terminal of `nitro top`: keys until it is closed or a signal ends the program.
//!
//! The library that decodes keys reads a closed terminal again and again, without end, and does not see signals meanwhile. So it is asked
//! only when the terminal is open, and a thread ends the process if the main thread does not do so itself.

use crossterm::event::{self, Event};
use nitro_console::error::Error;
use nitro_console::screen::{Input, wait_for_input};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Interval at which signals that end the program are noticed.
const SIGNALS_EVERY: Duration = Duration::from_millis(200);
/// How long the library waits for input: it does not look at the terminal if it may not wait.
const LOOK_MAX: Duration = Duration::from_millis(1);
/// How long the main thread may take to end.
const END_MAX: Duration = Duration::from_secs(1);

/// What the main thread waits for.
pub(super) enum Next {
    Event(Event),
    /// The time has passed.
    Time,
    /// The program has to end.
    End,
}

/// The keys of the terminal.
pub(super) struct Keys {
    ended: Arc<AtomicBool>,
}

impl Keys {
    /// Watches signals and the terminal.
    ///
    /// # Errors
    /// Handlers or the thread cannot be made.
    pub(super) fn watch() -> Result<Self, Error> {
        let failed = |e: io::Error| Error::new("terminal", e);
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            flag::register(signal, Arc::clone(&ended)).map_err(failed)?;
        }
        let seen = Arc::clone(&ended);
        let watch = move || {
            while !seen.load(Ordering::Relaxed) && !is_closed() {
                thread::sleep(SIGNALS_EVERY);
            }
            thread::sleep(END_MAX);
            // The main thread is stuck.
            let _ = ratatui::try_restore();
            std::process::exit(0);
        };
        thread::Builder::new().name("nitro-terminal".to_owned()).spawn(watch).map_err(failed)?;
        Ok(Self { ended })
    }

    /// Waits for a key or another event, at most `time_max`, which is less if signals have to be noticed.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub(super) fn next(&self, time_max: Duration) -> io::Result<Next> {
        let input = wait_for_input(time_max.min(SIGNALS_EVERY))?;
        if self.ended.load(Ordering::Relaxed) || input == Input::Closed {
            return Ok(Next::End);
        }
        // A change of the size, and keys that were read with another one, come without input.
        Ok(if event::poll(LOOK_MAX)? { Next::Event(event::read()?) } else { Next::Time })
    }
}

/// Whether the terminal was closed.
pub(super) fn is_closed() -> bool {
    wait_for_input(Duration::ZERO).is_ok_and(|input| input == Input::Closed)
}

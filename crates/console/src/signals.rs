//! The signals that end the process: handled from before anything is served until the process is gone.

use crate::error::Error;
use event_listener::Event;
use nitro_port::yielding::attempt_at;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals as Arrivals;
use signal_hook::low_level::{emulate_default_handler, signal_name};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

/// How urgently the process has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Urgency {
    /// In order: requests in progress are finished, and origins are brought up to date.
    InOrder = 1,
    /// Soon: dirty data stay in the cache, flushed.
    Soon = 2,
    /// At once. The thread that receives signals ends the process itself, as other threads may be blocked.
    AtOnce = 3,
}

/// The signals that have arrived.
#[derive(Debug, Default)]
pub struct Signals {
    /// The highest [`Urgency`] so far; 0: none.
    urgency: AtomicU8,
    /// The number of the last signal that raised the urgency.
    last: AtomicI32,
    raised: Event,
    /// What `SIGHUP` means.
    hang_up_reloads: AtomicBool,
    /// A reload of the configuration was requested.
    reload: AtomicBool,
    reload_asked: Event,
}

static SIGNALS: OnceLock<Signals> = OnceLock::new();

impl Signals {
    /// Handles `SIGTERM`, `SIGINT` and `SIGHUP` from now on, for the life of the process. A `SIGHUP` that the process was
    /// started to ignore (`nohup`) stays ignored.
    ///
    /// # Errors
    /// If handlers cannot be installed, or their thread cannot be started.
    pub fn handle() -> Result<&'static Self, Error> {
        if let Some(signals) = SIGNALS.get() {
            return Ok(signals);
        }
        let fail = |e| Error::new("signals", e).or("raise the limits of threads and open files");
        let handled: &[i32] = if ignores_hang_up() { &[SIGTERM, SIGINT] } else { &[SIGTERM, SIGINT, SIGHUP] };
        let mut arrivals = Arrivals::new(handled).map_err(fail)?;
        let signals = SIGNALS.get_or_init(Self::default);
        let receive = move || arrivals.forever().for_each(|signal| signals.arrived(signal));
        thread::Builder::new().name("nitro-signals".to_owned()).spawn(receive).map_err(fail)?;
        Ok(signals)
    }

    /// From now on, `SIGHUP` requests a reload of the configuration and does not end the process.
    pub fn reload_on_hang_up(&self) {
        self.hang_up_reloads.store(true, Ordering::SeqCst);
    }

    /// Waits for a request to reload the configuration; each request is reported once.
    pub async fn reload(&self) {
        attempt_at(&self.reload_asked, || self.reload.swap(false, Ordering::SeqCst).then_some(())).await;
    }

    /// Waits until the process has to end with at least this urgency, and returns the name of the last signal that
    /// raised the urgency.
    pub async fn wait(&self, urgency: Urgency) -> &'static str {
        attempt_at(&self.raised, || self.get(urgency)).await
    }

    /// The last signal's name, if the process has to end with at least this urgency.
    pub fn get(&self, urgency: Urgency) -> Option<&'static str> {
        let is_so = self.urgency.load(Ordering::SeqCst) >= urgency as u8;
        is_so.then(|| signal_name(self.last.load(Ordering::SeqCst)).unwrap_or("a signal"))
    }

    fn arrived(&self, signal: i32) {
        if signal == SIGHUP && self.hang_up_reloads.load(Ordering::SeqCst) {
            self.reload.store(true, Ordering::SeqCst);
            self.reload_asked.notify(usize::MAX);
            return;
        }
        let urgency = next(self.urgency.load(Ordering::SeqCst), signal);
        if urgency >= Urgency::AtOnce as u8 {
            // It fails only for signals that cannot be raised.
            let _ = emulate_default_handler(signal);
            std::process::abort();
        }
        self.last.store(signal, Ordering::SeqCst);
        self.urgency.store(urgency, Ordering::SeqCst);
        self.raised.notify(usize::MAX);
    }
}

/// The name of the signal with this number, such as `SIGINT`.
#[must_use]
pub fn name_of(signal: i32) -> Option<&'static str> {
    signal_name(signal)
}

/// Makes writes beyond the limit of file sizes (`ulimit -f`) fail with an error, instead of ending the process by a signal.
/// Programs that this one starts get the signal as before.
///
/// # Errors
/// The handler cannot be installed.
pub fn survive_file_limit() -> Result<(), Error> {
    let noted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, noted).map(drop).map_err(|e| Error::new("signals", e))
}

/// Runs `clean` when a signal ends a command that has no other signal handler; then the signal has its default effect.
///
/// # Errors
/// If handlers cannot be installed, or their thread cannot be started.
pub fn before_end(clean: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let fail = |e| Error::new("signals", e).or("raise the limits of threads and open files");
    let handled: &[i32] = if ignores_hang_up() { &[SIGTERM, SIGINT] } else { &[SIGTERM, SIGINT, SIGHUP] };
    let mut arrivals = Arrivals::new(handled).map_err(fail)?;
    let receive = move || {
        if let Some(signal) = arrivals.forever().next() {
            clean();
            // It fails only for signals that cannot be raised.
            let _ = emulate_default_handler(signal);
            std::process::abort();
        }
    };
    thread::Builder::new().name("nitro-signals".to_owned()).spawn(receive).map(drop).map_err(fail)
}

/// The urgency after another signal. A terminal that is closed sends `SIGHUP` more than once (the kernel, then the shell), so
/// that only the first one counts.
fn next(urgency: u8, signal: i32) -> u8 {
    if signal == SIGHUP { urgency.max(Urgency::InOrder as u8) } else { urgency.saturating_add(1) }
}

/// Whether the process was started with `SIGHUP` ignored (`SigIgn` of proc(5)).
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hang_ups_count_once_and_other_signals_each() {
        let after = |signals: &[i32]| signals.iter().fold(0, |urgency, signal| next(urgency, *signal));
        assert_eq!(after(&[SIGHUP, SIGHUP, SIGHUP]), Urgency::InOrder as u8);
        assert_eq!(after(&[SIGTERM, SIGHUP]), Urgency::InOrder as u8);
        assert_eq!(after(&[SIGHUP, SIGTERM]), Urgency::Soon as u8);
        assert_eq!(after(&[SIGINT, SIGTERM]), Urgency::Soon as u8);
        assert_eq!(after(&[SIGTERM, SIGTERM, SIGTERM]), Urgency::AtOnce as u8);
    }
}

//! The limit of all messages of a server: each place in the program logs at most ten times in 10 s ([`Repeats`]). It is
//! part of the format of lines, so that no part of the program has to ask for it.

use super::{LogFormat, Repeats};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The target of messages that are all logged: those that neither clients nor origins can cause, but that may come more
/// than ten times in a row (one for each volume), and those that are limited for each volume.
pub const EACH: &str = "nitro::each";

static IS_ON: AtomicBool = AtomicBool::new(false);
static LIMITED: AtomicU64 = AtomicU64::new(0);
/// One for each place that has logged.
static PLACES: LazyLock<Mutex<HashMap<Identifier, Arc<Repeats>>>> = LazyLock::new(Mutex::default);

/// Limits all messages from now on: clients can connect.
pub fn limit() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// Number of lines that were not logged because their place had logged ten times within 10 s.
pub fn lines_limited() -> u64 {
    LIMITED.load(Ordering::Relaxed)
}

/// Whether messages of this kind are limited. The levels that an operator chooses in order to see each request are not.
fn is_limited(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO && metadata.target() != EACH
}

/// A format with the limit.
pub(super) struct Limited<F> {
    pub(super) inner: F,
    pub(super) format: LogFormat,
}

impl<S, N, F> FormatEvent<S, N> for Limited<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if !IS_ON.load(Ordering::Relaxed) || !is_limited(event.metadata()) {
            return self.inner.format_event(ctx, writer, event);
        }
        let place = Arc::clone(PLACES.lock().entry(event.metadata().callsite()).or_default());
        let Some(left_out) = place.next() else {
            LIMITED.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        if left_out.count() == 0 {
            return self.inner.format_event(ctx, writer, event);
        }
        let mut line = String::new();
        self.inner.format_event(ctx, Writer::new(&mut line), event)?;
        let line = line.trim_end_matches('\n');
        match (self.format, line.strip_suffix('}')) {
            (LogFormat::Json, Some(object)) => writeln!(writer, "{object},\"left_out\":{}}}", left_out.count()),
            _ => writeln!(writer, "{line}{left_out}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use tracing_subscriber::fmt::format::{Format, JsonFields};

    /// Held by the test that logs: places are those of the whole process.
    static TURN: Mutex<()> = Mutex::new(());

    /// Lines of a log.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, log: impl FnOnce()) -> Vec<String> {
        let (lines, level) = (Lines::default(), tracing_subscriber::filter::LevelFilter::DEBUG);
        let writer = lines.clone();
        let builder =
            tracing_subscriber::fmt().with_max_level(level).with_writer(move || writer.clone()).with_ansi(false);
        let plain = Format::default().with_target(false);
        limit();
        match format {
            LogFormat::Text => {
                tracing::subscriber::with_default(builder.event_format(Limited { inner: plain, format }).finish(), log)
            }
            LogFormat::Json => tracing::subscriber::with_default(
                builder
                    .fmt_fields(JsonFields::new())
                    .event_format(Limited { inner: Format::default().json(), format })
                    .finish(),
                log,
            ),
        }
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_place_logs_ten_times_and_others_are_not_concerned() {
        let _turn = TURN.lock();
        let before = lines_limited();
        let lines = logged(LogFormat::Text, || {
            for number in 0..1000 {
                tracing::warn!("the client's mistake {number}");
                if number % 100 == 0 {
                    tracing::info!("another place");
                }
            }
            (0..20).for_each(|number| tracing::info!(target: EACH, "volume {number}"));
            (0..20).for_each(|number| tracing::debug!("request {number}"));
        });
        let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
        assert_eq!(["mistake", "another", "volume", "request"].map(count), [10, 10, 20, 20], "{lines:#?}");
        assert!(lines_limited() - before >= 990);
    }

    #[test]
    fn what_was_left_out_is_told_in_both_formats() {
        let _turn = TURN.lock();
        for format in [LogFormat::Text, LogFormat::Json] {
            PLACES.lock().values().for_each(|place| place.end_window());
            let told = |left_out| match format {
                LogFormat::Text => format!(" ({left_out} more like it were not logged)"),
                LogFormat::Json => format!(",\"left_out\":{left_out}}}"),
            };
            let lines = logged(format, || {
                let log = || tracing::warn!("once more");
                (0..15).for_each(|_| log());
                PLACES.lock().values().for_each(|place| place.end_window());
                log();
            });
            assert_eq!(lines.len(), 11);
            assert!(lines[10].ends_with(&told(5)), "{}", lines[10]);
            if format == LogFormat::Json {
                serde_json::from_str::<serde_json::Value>(&lines[10]).unwrap();
            }
        }
    }
}

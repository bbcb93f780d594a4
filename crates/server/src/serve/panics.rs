//! A panic ends the server, because a thread may have left inconsistent state. A restart finds everything that was
//! durable.

use crate::http::HTTP_THREAD;
use crate::spans::SPANS_THREAD;
use nitro_console::logging;
use std::any::Any;
use std::panic;
use std::process;
use std::thread;
use std::time::Duration;

/// How long the report of a panic may take.
const TELL_MAX: Duration = Duration::from_secs(3);

/// Lets every panic end the process, after it was logged. A panic of the thread for HTTP or for spans does not: it
/// changes no state of other threads.
pub(super) fn abort_on_panic() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if let Some(what) = spared(thread::current().name()) {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let message = message(info.payload());
            tracing::error!("{what} failed by a panic at {place}: {message}; please report it");
            return;
        }
        // Nobody may be reading standard error.
        let _ = thread::Builder::new().spawn(|| {
            thread::sleep(TELL_MAX);
            process::abort();
        });
        print(info);
        let thread = thread::current();
        let (name, place) = (thread.name().unwrap_or("?"), info.location().map(ToString::to_string));
        let (place, message) = (place.unwrap_or_default(), message(info.payload()));
        tracing::error!("thread {name} panicked at {place}: {message}; the server ends at once, please report it");
        logging::end();
        process::abort();
    }));
}

/// The work of a thread whose panic does not end the process.
fn spared(thread: Option<&str>) -> Option<&'static str> {
    match thread {
        Some(HTTP_THREAD) => Some("an HTTP request"),
        Some(SPANS_THREAD) => Some("the export of spans"),
        _ => None,
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// Set in the process that is to panic.
    const PANICS: &str = "NITRO_TEST_PANICS";

    #[test]
    fn a_panic_of_a_thread_ends_the_process() {
        if env::var_os(PANICS).is_some() {
            abort_on_panic();
            let doomed = nitro_device::spawn_thread("doomed", || async { panic!("on purpose") });
            let _: Result<(), _> = doomed.unwrap().join();
            process::exit(0);
        }
        let mut again = Command::new(env::current_exe().unwrap());
        again.args(["--exact", "serve::panics::tests::a_panic_of_a_thread_ends_the_process", "--nocapture"]);
        let ended = again.env(PANICS, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.signal(), Some(6), "{said}");
        assert!(said.contains("'doomed'") && said.contains("on purpose"), "{said}");
    }
}

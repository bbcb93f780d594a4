//! Calls of the laboratory from Python: without the interpreter's lock, stopped by signals, with failures and panics as
//! exceptions.

use nitro_lab::inside::{Failure, Inside};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::{PyErr, PyResult, Python};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which Python is asked for signals, such as that of Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// What ended a call from outside: the exception of a signal.
#[derive(Clone, Default)]
struct Stopped(Arc<Mutex<Option<PyErr>>>);

impl Stopped {
    fn set(&self, error: PyErr) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A program that stops at the first signal whose handler raises an exception.
    fn inside(&self) -> Inside {
        let (stopped, asked) = (self.clone(), Mutex::new(Instant::now()));
        Inside::new(move || {
            let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            if asked.elapsed() < SIGNALS_EVERY {
                return true;
            }
            *asked = Instant::now();
            drop(asked);
            match Python::try_attach(|py| py.check_signals()) {
                Some(Ok(())) => true,
                Some(Err(error)) => {
                    stopped.set(error);
                    false
                }
                // The interpreter ends.
                None => false,
            }
        })
    }
}

/// Runs `work` without the interpreter's lock.
///
/// # Errors
/// The failure as `ValueError` or `OSError`, the exception of a signal, and a panic as `RuntimeError`.
pub(crate) fn run<T: Send>(py: Python<'_>, work: impl FnOnce(&Inside) -> Result<T, Failure> + Send) -> PyResult<T> {
    let stopped = Stopped::default();
    let inside = stopped.inside();
    let ended = py.detach(|| catch_unwind(AssertUnwindSafe(|| work(&inside))));
    if let Some(error) = stopped.take() {
        return Err(error);
    }
    match ended {
        Ok(result) => result.map_err(|failure| exception(&failure)),
        Err(panic) => Err(PyRuntimeError::new_err(format!(
            "a fault of nitro_lab, please report it with what you called: {}",
            message(&*panic)
        ))),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panic")
}

pub(crate) fn exception(failure: &Failure) -> PyErr {
    let text = in_python(&failure.to_string());
    match failure {
        Failure::Refused(_) => PyValueError::new_err(text),
        Failure::System(_) => PyOSError::new_err(text),
    }
}

/// A message for Python: with the names of settings instead of those of options, `cache_size` for `--cache-size`, and their list
/// instead of the help of a command. Other commands between backquotes stay as they are.
fn in_python(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts: Vec<_> =
        parts.map(|(at, part)| if at % 2 == 0 { named(part) } else { command(part).to_owned() }).collect();
    parts.join("`")
}

fn command(text: &str) -> &str {
    match text {
        "nitro-lab sim --help" => "nitro_lab.settings()",
        "nitro-lab size --help" => "nitro_lab.settings('size')",
        other => other,
    }
}

fn named(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("--") {
        out.push_str(before);
        // Not within a word, such as the name of a file.
        if out.ends_with(|c: char| !c.is_whitespace() && !"('".contains(c)) {
            out.push_str("--");
            rest = after;
            continue;
        }
        let len = after.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(after.len());
        let (name, tail) = after.split_at(len);
        out.push_str(&if name == "help" { "nitro_lab.settings()".to_owned() } else { name.replace('-', "_") });
        // What clap calls the value: `'--hits <PCT>'`.
        let value = tail.strip_prefix(" <").and_then(|value| value.split_once('>'));
        rest = value.map_or(tail, |(_, tail)| tail);
    }
    out.push_str(rest);
    out
}

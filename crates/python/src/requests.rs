//! A reader of traces for Python.

use crate::calls::{Settings, values_of};
use crate::columns::Columns;
use crate::guard;
use nitro_console::error::Error;
use nitro_lab::inside::{self, Failure, Inside};
use nitro_trace::{Reader, Request};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Requests between two looks at signals.
const LOOK_EVERY: usize = 1 << 12;

/// The requests of traces, in batches.
#[pyclass(frozen, module = "nitro_lab._native")]
pub(crate) struct Requests(Mutex<State>);

struct State {
    /// `None` after the end, and after an error.
    reader: Option<Box<dyn Reader>>,
    skipped: u64,
}

impl State {
    fn read(&mut self, rows: usize, inside: &Inside) -> Result<Columns, Failure> {
        let mut columns = Columns::default();
        let Some(mut reader) = self.reader.take() else { return Ok(columns) };
        let mut request = Request::default();
        while columns.len() < rows {
            if columns.len() % LOOK_EVERY == LOOK_EVERY - 1 && !inside.goes_on() {
                return Err(Error::told("trace: stopped").into());
            }
            let more = reader.next(&mut request)?;
            if !more {
                self.skipped = reader.skipped().count;
                return Ok(columns);
            }
            columns.push(&request)?;
        }
        self.skipped = reader.skipped().count;
        self.reader = Some(reader);
        Ok(columns)
    }
}

#[pymethods]
impl Requests {
    /// Opens traces, merged in the order of their times.
    #[new]
    fn new(py: Python<'_>, traces: Vec<PathBuf>, settings: Settings) -> PyResult<Self> {
        let given = values_of(settings);
        // It asks for signals itself, since a later call has another thread's.
        let reader = guard::run(py, |_| inside::open(&traces, &given, &Inside::new(|| true)))?;
        Ok(Self(Mutex::new(State { reader: Some(reader), skipped: 0 })))
    }

    /// The next `rows` requests as columns, fewer at the end; none after it.
    fn read<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<Bound<'py, PyDict>> {
        let columns =
            guard::run(py, |inside| self.0.lock().unwrap_or_else(PoisonError::into_inner).read(rows, inside))?;
        columns.into_python(py)
    }

    /// The number of bad records that were skipped so far.
    fn skipped(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).skipped)
    }
}

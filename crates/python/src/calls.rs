//! The functions of the module: results are texts in JSON, which Python parses.

use crate::guard;
use nitro_console::error::Error;
use nitro_lab::inside::{self, Call, Value};
use nitro_trace::Op;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// The value of a setting: a switch, a text, or several texts.
#[derive(FromPyObject)]
pub(crate) enum Given {
    /// `True` or `False`
    Switch(bool),
    /// A text
    Text(String),
    /// Several texts
    Texts(Vec<String>),
}

/// Settings by name.
pub(crate) type Settings = Vec<(String, Given)>;

pub(crate) fn values_of(settings: Settings) -> Vec<(String, Value)> {
    let value = |given| match given {
        Given::Switch(on) => Value::Switch(on),
        Given::Text(text) => Value::Text(text),
        Given::Texts(texts) => Value::Texts(texts),
    };
    settings.into_iter().map(|(name, given)| (name, value(given))).collect()
}

/// Simulates a cache; the result of `nitro-lab sim`. With `keep`, what further simulations need of the traces is kept.
#[pyfunction]
pub(crate) fn simulate(py: Python<'_>, traces: Vec<PathBuf>, settings: Settings, keep: bool) -> PyResult<String> {
    let given = values_of(settings);
    guard::run(py, |inside| Ok(inside::simulate(&traces, &given, keep, inside)?.to_string()))
}

/// Drops what `simulate` keeps.
#[pyfunction]
pub(crate) fn forget() {
    inside::forget();
}

/// Counts the misses of a plain policy.
#[pyfunction]
pub(crate) fn misses(
    py: Python<'_>,
    traces: Vec<PathBuf>,
    policy: String,
    objects: u32,
    object_size: Option<u64>,
    settings: Settings,
) -> PyResult<String> {
    let given = values_of(settings);
    guard::run(py, |inside| Ok(inside::misses(&traces, &policy, objects, object_size, &given, inside)?.to_string()))
}

/// The miss ratio of LRU by size.
#[pyfunction]
pub(crate) fn lru_curve(
    py: Python<'_>,
    traces: Vec<PathBuf>,
    sample: Option<f64>,
    settings: Settings,
) -> PyResult<String> {
    let given = values_of(settings);
    guard::run(py, |inside| Ok(inside::lru_curve(&traces, sample, &given, inside)?.to_string()))
}

/// What caches of several sizes do.
#[pyfunction]
pub(crate) fn curve(
    py: Python<'_>,
    traces: Vec<PathBuf>,
    variant: String,
    sizes: Vec<String>,
    sample: Option<f64>,
    settings: Settings,
) -> PyResult<String> {
    let given = values_of(settings);
    guard::run(py, |inside| Ok(inside::curve(&traces, &variant, &sizes, sample, &given, inside)?.to_string()))
}

/// How large a cache should be.
#[pyfunction]
pub(crate) fn answer(py: Python<'_>, traces: Vec<PathBuf>, settings: Settings) -> PyResult<String> {
    let given = values_of(settings);
    guard::run(py, |inside| Ok(inside::answer(&traces, &given, inside)?.to_string()))
}

/// The values of an axis, such as `size=1G..16G:x2`.
#[pyfunction]
pub(crate) fn values(py: Python<'_>, axis: String) -> PyResult<Vec<String>> {
    guard::run(py, |_| {
        let parsed: Result<nitro_lab::inside::Axis, String> = axis.parse();
        Ok(parsed.map_err(|why| Error::new(&axis, why))?.values)
    })
}

/// The settings of a call (`simulation`, `curve`, `size` or `reading`): name, help text, possible values.
#[pyfunction]
pub(crate) fn settings(call: &str) -> PyResult<Vec<(String, String, Vec<String>)>> {
    let call = match call {
        "simulation" => Call::Simulation,
        "curve" => Call::Curve,
        "size" => Call::Size,
        "reading" => Call::Reading,
        _ => return Err(PyValueError::new_err("there are: simulation, curve, size, reading")),
    };
    Ok(call.settings().into_iter().map(|setting| (setting.name, setting.help, setting.values)).collect())
}

/// The names of operations, in the order of their numbers in columns.
#[pyfunction]
pub(crate) fn operations() -> Vec<&'static str> {
    Op::ALL.iter().map(|op| op.as_str()).collect()
}

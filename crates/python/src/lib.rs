//! The native part of the Python package `nitro_lab`: calls of the laboratory, with the interpreter's lock released, and
//! requests as columns. What Python's users see is in python/nitro_lab.
#![forbid(unsafe_code)]

mod calls;
mod columns;
mod guard;
mod requests;

use pyo3::prelude::pymodule;

/// The native part of `nitro_lab`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::calls::{answer, curve, forget, lru_curve, misses, operations, settings, simulate, values};
    #[pymodule_export]
    use crate::requests::Requests;
}

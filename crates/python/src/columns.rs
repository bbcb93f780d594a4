//! Requests as columns of numbers in the machine's byte order, which NumPy and Arrow take as they are.

use nitro_console::error::Error;
use nitro_lab::inside::Failure;
use nitro_trace::{Op, Request};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict};

/// Bytes of a fingerprint.
pub(crate) const PRINT_BYTES: usize = 20;

/// The columns of nitro-trace's Parquet format.
#[derive(Default)]
pub(crate) struct Columns {
    time: Vec<i64>,
    op: Vec<u8>,
    object: Vec<u32>,
    offset: Vec<i64>,
    length: Vec<i64>,
    /// Where each request's fingerprints begin, counted in fingerprints.
    print_start: Vec<i64>,
    prints: Vec<u8>,
    block: Vec<u32>,
    /// −1: unknown.
    compressed: Vec<i64>,
    class: Vec<u8>,
}

/// A number that a column holds.
trait Number: Copy {
    const BYTES: usize = size_of::<Self>();

    fn put(self, to: &mut [u8]);
}

macro_rules! numbers {
    ($($type:ty)+) => {
        $(impl Number for $type {
            fn put(self, to: &mut [u8]) {
                to.copy_from_slice(&self.to_ne_bytes());
            }
        })+
    };
}
numbers!(u8 u32 i64);

impl Columns {
    /// Adds a request.
    pub(crate) fn push(&mut self, request: &Request) -> Result<(), Failure> {
        let signed = |field: &str, number: u64| {
            i64::try_from(number).map_err(|_| {
                let row = self.time.len() + 1;
                Error::new(format_args!("request {row}: {field}"), "2^63 or more: it does not fit into a column")
            })
        };
        let (time, offset, length) =
            (signed("time", request.time_ns)?, signed("offset", request.offset)?, signed("length", request.len)?);
        self.time.push(time);
        self.offset.push(offset);
        self.length.push(length);
        self.op.push(Op::ALL.iter().position(|op| *op == request.op).unwrap_or(Op::ALL.len()) as u8);
        self.object.push(request.object);
        self.print_start.push((self.prints.len() / PRINT_BYTES) as i64);
        request.fingerprints.iter().for_each(|print| self.prints.extend_from_slice(&print.0));
        self.block.push(if request.fingerprints.is_empty() { 0 } else { request.block_bytes });
        self.compressed.push(request.compressed_bytes.map_or(-1, i64::from));
        self.class.push(request.class.number());
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.time.len()
    }

    /// The columns by name, each as a `bytearray`.
    pub(crate) fn into_python(mut self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        self.print_start.push((self.prints.len() / PRINT_BYTES) as i64);
        let columns = PyDict::new(py);
        // Each is dropped when it is copied.
        columns.set_item("time", bytes(py, self.time)?)?;
        columns.set_item("op", bytes(py, self.op)?)?;
        columns.set_item("object", bytes(py, self.object)?)?;
        columns.set_item("offset", bytes(py, self.offset)?)?;
        columns.set_item("length", bytes(py, self.length)?)?;
        columns.set_item("fingerprint_start", bytes(py, self.print_start)?)?;
        columns.set_item("fingerprint", bytes(py, self.prints)?)?;
        columns.set_item("block", bytes(py, self.block)?)?;
        columns.set_item("compressed", bytes(py, self.compressed)?)?;
        columns.set_item("class", bytes(py, self.class)?)?;
        Ok(columns)
    }
}

fn bytes<N: Number>(py: Python<'_>, numbers: Vec<N>) -> PyResult<Bound<'_, PyByteArray>> {
    PyByteArray::new_with(py, numbers.len() * N::BYTES, |to| {
        numbers.iter().zip(to.chunks_exact_mut(N::BYTES)).for_each(|(number, to)| number.put(to));
        Ok(())
    })
}

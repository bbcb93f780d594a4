//! Our own format: Parquet, a row a request, that other tools read as well.
//!
//! | column | type | what |
//! |---|---|---|
//! | `time` | INT64 | nanoseconds |
//! | `op` | BYTE_ARRAY (STRING) | `read`, `write`, `trim`, `flush`, `other` |
//! | `object` | INT32 (unsigned) | |
//! | `offset` | INT64 | bytes |
//! | `length` | INT64 | bytes |
//! | `fingerprint` | BYTE_ARRAY, optional | 20 bytes for each block of the request |
//! | `block` | INT32 (unsigned), optional | bytes that a fingerprint stands for |
//! | `compressed` | INT32 (unsigned), optional | bytes of the request when compressed |
//! | `class` | INT32 (unsigned), optional | 1 to 31, of classified requests |
//!
//! A file that is [recoverable](ParquetWriter::recoverable) has a mark behind each row group, in a gap that other readers
//! pass over; after its writer was killed it is read up to the last whole one.
//!
//! The file's metadata has `nitro.trace` = `1`, the version, and whatever the writer was told of the trace.

mod column;
mod damage;
mod reader;
mod torn;
mod writer;

pub use reader::ParquetReader;
pub use writer::{ParquetWriter, convert};

use crate::{ErrorKind, Place, TraceError};
use ::parquet::basic::{ConvertedType, Repetition, Type as Physical};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::Type;
use std::sync::Arc;

/// The key of the format's version in the file's metadata.
const VERSION_KEY: &str = "nitro.trace";
/// The version written, and the only one read.
const VERSION: &str = "1";

/// Bytes of a fingerprint.
const PRINT_BYTES: usize = 20;

/// The columns in order: name, type, meaning, whether it may be missing from a row.
const COLUMNS: [(&str, Physical, ConvertedType, bool); 9] = [
    ("time", Physical::INT64, ConvertedType::NONE, false),
    ("op", Physical::BYTE_ARRAY, ConvertedType::UTF8, false),
    ("object", Physical::INT32, ConvertedType::UINT_32, false),
    ("offset", Physical::INT64, ConvertedType::NONE, false),
    ("length", Physical::INT64, ConvertedType::NONE, false),
    ("fingerprint", Physical::BYTE_ARRAY, ConvertedType::NONE, true),
    ("block", Physical::INT32, ConvertedType::UINT_32, true),
    ("compressed", Physical::INT32, ConvertedType::UINT_32, true),
    ("class", Physical::INT32, ConvertedType::UINT_32, true),
];

fn schema() -> Result<Type> {
    let mut fields = Vec::new();
    for (name, physical, converted, optional) in COLUMNS {
        let repetition = if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let column = Type::primitive_type_builder(name, physical);
        fields.push(Arc::new(column.with_converted_type(converted).with_repetition(repetition).build()?));
    }
    Type::group_type_builder("request").with_fields(fields).build()
}

fn failed(error: ParquetError, place: Place) -> TraceError {
    TraceError::new(ErrorKind::Parquet, place, error)
}

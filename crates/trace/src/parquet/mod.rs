//! Nitro's trace format: Parquet with one row per request, which other tools can read, too.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `time` | INT64 | nanoseconds |
//! | `op` | BYTE_ARRAY (STRING) | `read`, `write`, `trim`, `flush`, `other` |
//! | `object` | INT32 (unsigned) | |
//! | `offset` | INT64 | bytes |
//! | `length` | INT64 | bytes |
//! | `fingerprint` | BYTE_ARRAY, optional | 20 bytes for each block of the request |
//! | `block` | INT32 (unsigned), optional | bytes of a block with a fingerprint |
//! | `compressed` | INT32 (unsigned), optional | compressed size of the request in bytes |
//! | `class` | INT32 (unsigned), optional | 1 to 31; only of classified requests |
//!
//! A [recoverable](ParquetWriter::recoverable) file has a mark after each row group, in a gap that other readers
//! ignore. If its writer was killed, it can be read up to the last complete mark.
//!
//! The file's metadata contain the version (`nitro.trace` = `1`) and the notes that were passed to the writer. Names of
//! objects are notes, too: `object.N` is the name of object N within its machine, `object.N.id` a name that no other disk
//! has.

mod column;
mod damage;
mod notes;
mod pages;
mod reader;
mod thrift;
mod torn;
mod writer;

pub use notes::is_of_object;
pub use reader::ParquetReader;
pub use writer::{ParquetWriter, convert};

use crate::{ErrorKind, Place, TraceError};
use ::parquet::basic::{ConvertedType, Repetition, Type as Physical};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::Type;
use std::sync::Arc;

/// The key of the format's version in the file's metadata.
const VERSION_KEY: &str = "nitro.trace";
/// The version that is written, and the only one that can be read.
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

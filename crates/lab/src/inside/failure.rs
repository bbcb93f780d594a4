//! Why a call from another program failed.

use crate::source::failed;
use nitro_commands::traces::refused;
use nitro_console::error::Error;
use nitro_trace::{ErrorKind, TraceError};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for is not possible: settings, or what is in a trace.
    Refused(Error),
    /// The system failed: a file cannot be read or written.
    System(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        let told = refused(&error);
        if error.kind == ErrorKind::Io { Self::System(told) } else { Self::Refused(told) }
    }
}

impl From<nitro_sim::Error> for Failure {
    fn from(error: nitro_sim::Error) -> Self {
        match error {
            nitro_sim::Error::Trace(error) => error.into(),
            error @ nitro_sim::Error::Scratch(_) => Self::System(failed(error)),
            error => Self::Refused(failed(error)),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) | Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

/// A result as JSON.
pub(super) fn json(value: &impl Serialize) -> Result<Json, Error> {
    serde_json::to_value(value).map_err(|error| Error::new("result", error))
}

//! Logging to standard error.

use crate::args::{Cli, LogFormat};
use crate::error::Error;
use std::io;
use tracing_subscriber::EnvFilter;

/// Starts logging as the command line says.
pub(crate) fn start(cli: &Cli) -> Result<(), Error> {
    let filter = EnvFilter::try_new(&cli.log).map_err(|e| {
        Error::new(format!("--log {}", cli.log), e).or("give error, warn, info, debug or trace, or a filter by target")
    })?;
    // Standard error may be a terminal that was closed: what cannot be written there is lost, and nothing else happens.
    let builder = tracing_subscriber::fmt().log_internal_errors(false);
    let builder = builder.with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    match cli.log_format {
        LogFormat::Text => builder.with_target(false).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}

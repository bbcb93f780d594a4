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
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    match cli.log_format {
        LogFormat::Text => builder.with_target(false).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}

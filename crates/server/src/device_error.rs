//! Error messages for a device that cannot be opened.

use nitro_console::error::Error;
use nitro_device::ErrorKind;

/// What helps if a file may not be as large as it is to be.
const FILE_LIMIT_WAY_OUT: &str = "raise the limit, or use a smaller file";

/// The error of opening `what`, with a remedy.
pub(crate) fn device_error(what: &str, error: &nitro_device::Error) -> Error {
    let way_out = match error.kind {
        ErrorKind::InUse => "stop what uses it (another nitro? a mount?), or use another",
        ErrorKind::NotADevice => "name a regular file or a block device",
        ErrorKind::NoSpace => "make room on its filesystem, or use another",
        ErrorKind::NoThread => "raise the limit of threads (ulimit -u, TasksMax=)",
        ErrorKind::TooLarge => FILE_LIMIT_WAY_OUT,
        ErrorKind::Exists | ErrorKind::Io => "check the path and its permissions",
    };
    let why = match error.kind {
        ErrorKind::InUse => "is in use (mounted, or served by another process?)".to_owned(),
        ErrorKind::NotADevice => "it is neither a regular file nor a block device".to_owned(),
        ErrorKind::TooLarge | ErrorKind::NoThread => error.kind.as_str().to_owned(),
        _ => match &error.source {
            Some(source) => source.to_string(),
            None => error.to_string(),
        },
    };
    Error::new(what, why).or(way_out)
}

//! The device of a write log.

use super::device::CacheDevice;
use super::signature::{PROBE_BYTES, recognise};
use super::store;
use crate::device_error::device_error;
use nitro_config::CacheConfig;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::{AnyDevice, FileDevice, FileOptions};
use nitro_engine::LogDevice;
use nitro_engine::format::FormatError;
use nitro_engine::format::superblock::Superblock;
use nitro_engine::format::write_log::{LABEL_BYTES, Label, RING_BYTES_MIN};
use nitro_files::open_device_to_read;
use nitro_port::Device;
use std::fs::{self, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Checks the device of a cache's write log, before anything is created for the cache. It is only read.
pub(super) fn check(config: &CacheConfig) -> Result<(), Error> {
    let Some(path) = &config.write_log else { return Ok(()) };
    let what = format!("write log {}", path.display());
    let wanted = config.write_log_size.map(|size| size.0);
    let size_bytes = match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => store::size_to_create(&what, wanted)?,
        Err(e) => return Err(Error::new(what, e).or("check the path and its folders' permissions")),
        Ok(found) => {
            check_content(&what, path, &found, config.format)?;
            store::check_access(&what, path)?;
            let end = open_device_to_read(path).and_then(|mut device| device.seek(SeekFrom::End(0)));
            let have = end.map_err(|e| Error::new(&what, e).or("check the device"))?;
            wanted.unwrap_or(have).min(have)
        }
    };
    let least = LABEL_BYTES as u64 + RING_BYTES_MIN;
    if size_bytes < least {
        return Err(Error::new(what, format_args!("{} is too small for a write log", Size(size_bytes)))
            .or(format_args!("give at least {}", Size(least))));
    }
    Ok(())
}

/// Checks that no other program uses the device of a cache's write log.
pub(super) fn check_unused(config: &CacheConfig) -> Result<(), Error> {
    let Some(path) = config.write_log.as_ref().filter(|path| path.exists()) else { return Ok(()) };
    let opened = FileOptions::new(path).open();
    opened.map(drop).map_err(|e| device_error(&format!("write log {}", path.display()), &e))
}

/// Opens the device of a cache's write log, and creates a file if there is none; `uuid` is the identity of a new log.
pub(super) fn open(name: &str, config: &CacheConfig, uuid: [u8; 16]) -> Result<Option<LogDevice<CacheDevice>>, Error> {
    let Some(path) = &config.write_log else { return Ok(None) };
    let what = format!("write log {}", path.display());
    let wanted = config.write_log_size.map(|size| size.0);
    let device = match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => store::create(&what, path, wanted)?.device,
        Err(e) => return Err(Error::new(what, e).or("check the path and its folders' permissions")),
        Ok(found) => reuse(&what, path, &found, config.format)?,
    };
    let have = device.geometry().size_bytes;
    nitro_console::output::note!(
        "cache {name}: write log of {} at {}",
        Size(wanted.unwrap_or(have).min(have)),
        path.display()
    );
    let device = CacheDevice::from(AnyDevice::from(device));
    Ok(Some(LogDevice { device, size_bytes: wanted, uuid }))
}

fn reuse(what: &str, path: &Path, found: &Metadata, format: bool) -> Result<FileDevice, Error> {
    let device = FileOptions::new(path).open().map_err(|e| device_error(what, &e))?;
    check_content(what, path, found, format)?;
    Ok(device)
}

/// Refuses a file or device that holds other data than a write log.
fn check_content(what: &str, path: &Path, found: &Metadata, format: bool) -> Result<(), Error> {
    let mut start = Vec::with_capacity(PROBE_BYTES);
    open_device_to_read(path)
        .and_then(|file| file.take(PROBE_BYTES as u64).read_to_end(&mut start))
        .map_err(|e| Error::new(what, e).or("check the device"))?;
    let is_log = !matches!(Label::decode(&start), Err(FormatError::Magic { .. } | FormatError::Short { .. }));
    let content = match Superblock::decode(&start) {
        Err(FormatError::Magic { .. } | FormatError::Short { .. }) => recognise(&start),
        _ => Some("a Nitro cache"),
    };
    let is_blank = found.file_type().is_block_device() || found.blocks() == 0;
    let why = match content {
        _ if is_log => return Ok(()),
        Some(_) | None if format && content != Some("a Nitro cache") => return Ok(()),
        Some(content) => format!("it holds {content}"),
        None if is_blank => return Ok(()),
        None => "it is not a write log and is not empty".to_owned(),
    };
    Err(Error::new(what, why).or("name another device, or a file that does not exist yet"))
}

/// Opens the device of a cache's write log for reading, if it exists and no server uses it; what is written to it stays in RAM.
pub(super) fn look(config: &CacheConfig) -> Option<LogDevice<CacheDevice>> {
    let path = config.write_log.as_ref()?;
    let device = FileOptions::new(path).read_only(true).open().ok()?;
    let size_bytes = config.write_log_size.map(|size| size.0);
    // The identity of a new log, which is not written.
    Some(LogDevice { device: CacheDevice::looked_at(device), size_bytes, uuid: [0; 16] })
}

/// Opens a log's device for reading.
pub fn open_to_look(path: &Path) -> Result<FileDevice, Error> {
    let what = format!("write log {}", path.display());
    FileOptions::new(path).read_only(true).open().map_err(|e| device_error(&what, &e))
}

/// Whether an error is about the write log.
pub(super) fn is_about(error: &nitro_engine::Error) -> bool {
    use nitro_engine::Error as E;
    match error {
        E::Log(_) | E::LogFormat(_) | E::LogMissing { .. } | E::LogForeign { .. } | E::LogDamaged => true,
        E::LogOutdated { .. } | E::OlderThanLog { .. } => true,
        E::Setting(setting) => setting.name == "write_log_size",
        _ => false,
    }
}

/// The error message for it.
pub(super) fn error(what: &str, error: &nitro_engine::Error) -> Error {
    use nitro_engine::Error as E;
    let discard = "--force-discard-dirty starts without it, and loses its data";
    let way_out = match error {
        E::LogMissing { another: false, .. } => {
            format!("give its device: --write-log PATH (write_log = PATH); {discard}")
        }
        E::LogMissing { another: true, .. } => format!("give the device that was used last; {discard}"),
        E::LogForeign { .. } => "use another device; --force-discard-dirty uses this one anyway".to_owned(),
        E::LogOutdated { .. } => format!("give the device that was used last; {discard}"),
        E::OlderThanLog { .. } => {
            "serve the copy of the cache that was used last; --force-discard-dirty uses this one as it is, with a new log"
                .to_owned()
        }
        E::LogDamaged | E::LogFormat(_) => {
            format!("nitro cache salvage --write-log extracts the readable data; {discard}")
        }
        E::Setting(setting) => format!("the nearest valid value is {}", setting.nearest),
        _ => format!("check the log device; {discard}"),
    };
    Error::with_sources(what, error).or(way_out)
}

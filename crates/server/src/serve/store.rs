//! A cache's file or device: checks, creates and opens it.

use super::signature::{PROBE_BYTES, recognise};
use crate::device_error::device_error;
use nitro_config::CacheConfig;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::file::Medium;
use nitro_device::{FileDevice, FileOptions};
use nitro_engine::format::FormatError;
use nitro_engine::format::superblock::{SUPERBLOCK_BYTES, Superblock, superblock_offsets};
use nitro_files::FileId;
use nitro_files::{open_device_to_read, open_target};
use nitro_port::Device;
use rustix::fs::{Access, AtFlags, CWD, FallocateFlags, Mode, OFlags, accessat};
use rustix::io::Errno;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

/// A cache file's size is a multiple of this, so that direct I/O reaches all of it.
pub(super) const ALIGNMENT_BYTES: u64 = 4096;

/// A cache's device and how much of it to use, in bytes.
pub(super) struct Store {
    pub(super) device: FileDevice,
    pub(super) size_bytes: u64,
    /// Whether it holds a cache.
    pub(super) holds_cache: bool,
}

/// Opens a cache's file or device, and creates the file if there is none.
pub(super) fn open(what: &str, path: &Path, config: &CacheConfig) -> Result<Store, Error> {
    let wanted = config.size.map(|size| size.0);
    match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => create(what, path, wanted),
        Err(e) => Err(Error::new(what, e).or("check the path and its folders' permissions")),
        Ok(found) if found.is_dir() => Err(is_folder(what)),
        Ok(found) if found.is_file() && found.len() == 0 => fill(what, path, wanted),
        Ok(found) => reuse(what, path, config, &found),
    }
}

pub(super) fn size_to_create(what: &str, wanted: Option<u64>) -> Result<u64, Error> {
    let wanted = wanted.ok_or_else(|| {
        Error::new(what, "it does not exist yet").or(
            "give its size to create it, as in --size 4G of nitro cache create, --cache-size 4G of nitro serve, or size = \"4G\" in a \
             configuration file; of a write log, --write-log-size (write_log_size)",
        )
    })?;
    Ok(wanted / ALIGNMENT_BYTES * ALIGNMENT_BYTES)
}

pub(super) fn create(what: &str, path: &Path, wanted: Option<u64>) -> Result<Store, Error> {
    let size_bytes = size_to_create(what, wanted)?;
    check_room(what, folder_of(path), size_bytes)?;
    let device = FileOptions::new(path).create(size_bytes).map_err(|e| device_error(what, &e))?;
    Ok(Store { device, size_bytes, holds_cache: false })
}

/// Gives an empty file its size.
fn fill(what: &str, path: &Path, wanted: Option<u64>) -> Result<Store, Error> {
    let size_bytes = size_to_create(what, wanted)?;
    check_room(what, path, size_bytes)?;
    let fail = |e: io::Error| Error::new(what, e).or("check its permissions and the room on its filesystem");
    let file = open_target(path).map_err(fail)?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size_bytes) {
        Err(Errno::OPNOTSUPP) => file.set_len(size_bytes).map_err(fail)?,
        result => result.map_err(|e| fail(e.into()))?,
    }
    let device = FileOptions::new(path).open().map_err(|e| device_error(what, &e))?;
    Ok(Store { device, size_bytes, holds_cache: false })
}

pub(super) fn check_room(what: &str, place: &Path, size_bytes: u64) -> Result<(), Error> {
    let Ok(filesystem) = rustix::fs::statvfs(place) else {
        return Err(Error::new(what, "its folder does not exist").or("create the folder, or use another path"));
    };
    let free_bytes = filesystem.f_bavail * filesystem.f_frsize;
    if free_bytes >= size_bytes {
        return Ok(());
    }
    let why = format!("{} is requested, and the filesystem has only {} left", Size(size_bytes), Size(free_bytes));
    Err(Error::new(what, why).or("make the cache smaller, or put it elsewhere"))
}

fn reuse(what: &str, path: &Path, config: &CacheConfig, found: &Metadata) -> Result<Store, Error> {
    // Locked first, so that what is looked at stays as it is.
    check_permission(what, path)?;
    let device = FileOptions::new(path).open().map_err(|e| device_error(what, &e))?;
    let (size_bytes, holds_cache) = check_existing(what, path, config, found, (&device).into())?;
    Ok(Store { device, size_bytes, holds_cache })
}

/// What is known of a file or device before it is used.
struct Extent {
    size_bytes: u64,
    medium: Medium,
}

impl From<&FileDevice> for Extent {
    fn from(device: &FileDevice) -> Self {
        Self { size_bytes: device.geometry().size_bytes, medium: device.medium() }
    }
}

/// Checks a file or device that exists: what it holds, and its size. Returns how much of it to use, and whether it holds a cache.
fn check_existing(
    what: &str,
    path: &Path,
    config: &CacheConfig,
    found: &Metadata,
    Extent { size_bytes: have, medium }: Extent,
) -> Result<(u64, bool), Error> {
    let holds_cache = match check_content(what, path, found, have) {
        Ok(holds_cache) => holds_cache,
        Err(_) if config.format => false,
        Err(error) => return Err(error),
    };
    let size_bytes = match config.size.map(|size| size.0) {
        // A file grows and shrinks once the cache in it is open.
        Some(_) if holds_cache && medium == Medium::File => have,
        Some(wanted) if wanted > have => {
            let why = format!("{} is requested, and it has only {}", Size(wanted), Size(have));
            return Err(Error::new(what, format_args!("the cache would be larger than the device: {why}"))
                .or(format_args!("give at most {have} bytes, or no size to use all of it")));
        }
        Some(wanted) if medium == Medium::File && have - wanted >= ALIGNMENT_BYTES => {
            let why = format!("it exists with {}, not the requested {}", Size(have), Size(wanted));
            return Err(Error::new(what, why).or("give no size to use it as it is"));
        }
        Some(wanted) => wanted,
        None => have,
    };
    Ok((size_bytes / ALIGNMENT_BYTES * ALIGNMENT_BYTES, holds_cache))
}

/// What [`open`] would find at a path. Nothing is created, locked or opened for writing.
pub(super) enum Found {
    /// It would be created with so many bytes.
    Created(u64),
    /// It exists: how many bytes are used, and whether they hold a cache.
    There { size_bytes: u64, holds_cache: bool },
}

/// Checks what [`open`] checks.
pub(super) fn look(what: &str, path: &Path, config: &CacheConfig) -> Result<Found, Error> {
    let wanted = config.size.map(|size| size.0);
    match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let size_bytes = size_to_create(what, wanted)?;
            check_room(what, folder_of(path), size_bytes)?;
            check_access(what, folder_of(path))?;
            Ok(Found::Created(size_bytes))
        }
        Err(e) => Err(Error::new(what, e).or("check the path and its folders' permissions")),
        Ok(found) if found.is_dir() => Err(is_folder(what)),
        Ok(found) if found.is_file() && found.len() == 0 => {
            let size_bytes = size_to_create(what, wanted)?;
            check_room(what, path, size_bytes)?;
            check_access(what, path)?;
            Ok(Found::Created(size_bytes))
        }
        Ok(found) => {
            check_access(what, path)?;
            let end = open_device_to_read(path).and_then(|mut device| device.seek(SeekFrom::End(0)));
            let size_bytes = end.map_err(|e| Error::new(what, e).or("check the device"))?;
            let medium = if found.file_type().is_block_device() { Medium::Block } else { Medium::File };
            let (size_bytes, holds_cache) = check_existing(what, path, config, &found, Extent { size_bytes, medium })?;
            Ok(Found::There { size_bytes, holds_cache })
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_folder(what: &str) -> Error {
    Error::new(what, "it is a directory").or("name a file in it, which will be created")
}

/// Checks whether this user may write to a file, a device or a folder, without opening it.
pub(super) fn check_access(what: &str, path: &Path) -> Result<(), Error> {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).map_err(|e| not_permitted(what, e))
}

fn not_permitted(what: &str, error: Errno) -> Error {
    Error::new(what, io::Error::from(error)).or("run as a user who may write to it, or change its permissions")
}

/// Checks by an open whether this user has access, which is more reliable than permission bits.
pub(super) fn check_permission(what: &str, path: &Path) -> Result<(), Error> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Err(e @ (Errno::ACCESS | Errno::PERM)) => Err(not_permitted(what, e)),
        _ => Ok(()),
    }
}

/// Refuses a file or device that holds other data than a cache; otherwise returns whether it holds a cache.
fn check_content(what: &str, path: &Path, found: &Metadata, size_bytes: u64) -> Result<bool, Error> {
    let mut start = Vec::with_capacity(PROBE_BYTES);
    open_device_to_read(path)
        .and_then(|file| file.take(PROBE_BYTES as u64).read_to_end(&mut start))
        .map_err(|e| Error::new(what, e).or("check the device"))?;
    let copy = second_superblock(path, size_bytes);
    match Superblock::decode(&start[..SUPERBLOCK_BYTES.min(start.len())]) {
        Ok(_) => return Ok(true),
        // Damage may have changed the number of the version.
        Err(error) if error.is_unknown() && (copy.is_none() || Superblock::version(&start).is_ok()) => {
            let way_out = "use the version of Nitro that made it, which can bring dirty data to their origins";
            return Err(Error::new(what, error).or(way_out));
        }
        // What has taken the device over since it was a cache's is not overwritten.
        Err(error) if copy.is_some() && recognise(&start).is_none() => {
            tracing::warn!(
                "{what}: the first superblock is damaged ({error}); the copy at the end is used, and replaces it"
            );
            return Ok(true);
        }
        Err(error @ FormatError::Checksum { .. }) => {
            let way_out = "nitro cache fsck lists the damage, and nitro cache salvage PATH --list the dirty data that can be read";
            return Err(Error::new(what, format_args!("it is a damaged cache: {error}")).or(way_out));
        }
        Err(_) => {}
    }
    let way_out = "choose another path; --format (format = true) overwrites what it holds";
    if let Some(content) = recognise(&start) {
        if copy.is_some() {
            let why = format!("it was a cache, and its start holds {content} instead of the superblock");
            let way_out = "nitro cache salvage PATH extracts dirty data; if the cache is still wanted, overwrite the first \
                           4096 bytes with zeroes: the superblock's copy at the end is used then";
            return Err(Error::new(what, why).or(way_out));
        }
        return Err(Error::new(what, format_args!("it holds {content}")).or(way_out));
    }
    let is_blank = found.file_type().is_block_device() || found.blocks() == 0;
    if is_blank { Ok(false) } else { Err(Error::new(what, "is not a Nitro cache and is not empty").or(way_out)) }
}

/// The superblock's copy at the end of a device, if there is one.
fn second_superblock(path: &Path, size_bytes: u64) -> Option<Superblock> {
    superblock_in(&open_device_to_read(path).ok()?, superblock_offsets(size_bytes)[1])
}

fn superblock_in(device: &File, offset: u64) -> Option<Superblock> {
    let mut block = vec![0; SUPERBLOCK_BYTES];
    device.read_exact_at(&mut block, offset).ok()?;
    Superblock::decode(&block).ok()
}

/// Whether a file or device holds a cache, or one of several devices of a cache. It is only read.
pub(super) fn holds_cache(path: &Path) -> bool {
    let Ok(mut device) = open_device_to_read(path) else { return false };
    let Ok(size_bytes) = device.seek(SeekFrom::End(0)) else { return false };
    superblock_offsets(size_bytes).into_iter().any(|offset| superblock_in(&device, offset).is_some())
}

/// The error of a file or device that is no cache, and never was; `None`: it holds one, or the remains of one.
pub(super) fn not_a_cache(what: &str, path: &Path) -> Option<Error> {
    let mut start = Vec::with_capacity(PROBE_BYTES);
    open_device_to_read(path).ok()?.take(PROBE_BYTES as u64).read_to_end(&mut start).ok()?;
    let superblock = Superblock::decode(&start[..SUPERBLOCK_BYTES.min(start.len())]);
    let is_foreign = matches!(superblock, Err(FormatError::Magic { .. } | FormatError::Short { .. }));
    if !is_foreign || holds_cache(path) {
        return None;
    }
    let why = match recognise(&start) {
        Some(content) => format!("it is not a Nitro cache: it holds {content}"),
        None if start.iter().all(|byte| *byte == 0) => "it is not a Nitro cache: it is empty".to_owned(),
        None => "it is not a Nitro cache".to_owned(),
    };
    Some(
        Error::new(what, why)
            .or("check the path; nitro cache show without a path shows the caches of the running server"),
    )
}

/// Whether a path leads to the file or device `identity`.
pub(super) fn is_same(path: &Path, identity: FileId) -> bool {
    FileId::of(path).is_ok_and(|found| found == identity)
}

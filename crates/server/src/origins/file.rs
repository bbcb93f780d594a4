//! Files and block devices: `file:PATH`, or a path.

use super::{Backing, Fence, Identity, Look, NamedOrigin, OpenOrigin, Scheme, VolumeMarks, aside};
use crate::device_error::device_error;
use futures_util::future::{FutureExt, LocalBoxFuture};
use nitro_config::{Emulation, VolumeConfig};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::file::Medium;
use nitro_device::{AnyDevice, CompioClock, ErrorKind, FileDevice, FileOptions, HddDevice};
use nitro_files::FileId;
use nitro_port::Device;
use rustix::fs::{Access, AtFlags, CWD, accessat, ioctl_blksszget};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The scheme `file`.
pub struct Files;

/// A file or block device, by its path.
struct AtPath(PathBuf);

impl Files {
    /// The origin at a path.
    pub(super) fn at(path: &Path) -> Box<dyn NamedOrigin> {
        Box::new(AtPath(path.to_owned()))
    }
}

impl Scheme for Files {
    fn name(&self) -> &'static str {
        "file"
    }

    fn form(&self) -> &'static str {
        "file:PATH"
    }

    fn named(&self, rest: &str) -> Result<Box<dyn NamedOrigin>, Error> {
        match rest {
            "" => Err(Error::new("file:", "it names no file").or("write file:PATH")),
            path => Ok(Self::at(Path::new(path))),
        }
    }
}

impl NamedOrigin for AtPath {
    fn absolute(&self) -> io::Result<PathBuf> {
        std::path::absolute(&self.0)
    }

    fn volume_name(&self) -> String {
        self.0.file_stem().map_or_else(|| "volume".into(), |stem| stem.to_string_lossy().into_owned())
    }

    fn host_path(&self) -> Option<&Path> {
        Some(&self.0)
    }

    fn is_host(&self) -> bool {
        true
    }

    fn open<'a>(&'a self, volume: &'a str, config: &'a VolumeConfig) -> LocalBoxFuture<'a, Result<OpenOrigin, Error>> {
        open(&self.0, volume, config).boxed_local()
    }

    fn look<'a>(
        &'a self,
        _: &'a str,
        config: &'a VolumeConfig,
    ) -> LocalBoxFuture<'a, Result<Option<OpenOrigin>, Error>> {
        look(&self.0, config).boxed_local()
    }
}

/// An open file or block device, and the path at which it was opened.
struct OpenFile {
    path: PathBuf,
    file: File,
    read_only: bool,
    /// Bytes of the logical blocks of a block device. A file has none, whatever its file system requires for direct I/O.
    block_bytes: Option<u32>,
}

impl Identity for OpenFile {
    fn look(&self, size_bytes: u64) -> io::Result<Look> {
        self.file.metadata().map(|found| Look::new(&found, size_bytes))
    }

    fn look_durably(&self, size_bytes: u64) -> io::Result<Look> {
        let look = self.look(size_bytes)?;
        // A block device has no time of change.
        if look.mtime_ns.is_some() {
            self.file.sync_all()?;
        }
        Ok(look)
    }

    fn is_at_its_name(&self) -> bool {
        match (FileId::of(&self.path), FileId::of_open(&self.file)) {
            (Ok(named), Ok(open)) => named == open,
            _ => false,
        }
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes.unwrap_or(512)
    }

    fn open_again(&self, disk: Option<Emulation>) -> Result<Option<Backing>, Error> {
        let what = format!("origin {}", self.path.display());
        let opened = FileOptions::of_open(&self.file).read_only(self.read_only).open();
        let device = opened.map_err(|e| device_error(&what, &e))?;
        Ok(Some(Backing::Device(Box::new(emulated(device, disk)))))
    }
}

/// A device, slowed down to a hard disk if one is emulated.
fn emulated(device: FileDevice, disk: Option<Emulation>) -> AnyDevice {
    match disk {
        Some(disk) => HddDevice::new(device, CompioClock::new(), disk.model()).into(),
        None => device.into(),
    }
}

/// Refuses a path at which there is no file or device.
fn check_there(what: &str, path: &Path) -> Result<(), Error> {
    let found = fs::metadata(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::new(what, "it does not exist")
            .or(format_args!("check the path, or make one: truncate -s 10G {}", path.display())),
        _ => Error::new(what, e).or("check the path and its folders' permissions"),
    })?;
    match found.is_dir() {
        true => Err(Error::new(what, "it is a directory").or("name a file or a block device")),
        false => Ok(()),
    }
}

fn not_permitted(what: &str, why: &io::Error) -> Error {
    Error::new(what, why).or("run as a user who may use it, change its permissions, or give --read-only")
}

async fn look(path: &Path, config: &VolumeConfig) -> Result<Option<OpenOrigin>, Error> {
    let what = format!("origin {}", path.display());
    check_there(&what, path)?;
    // Access for writing is asked for, not tried: to open a block device for writing has effects.
    let read_only = match accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS) {
        Err(Errno::ROFS) => true,
        Err(error @ (Errno::ACCESS | Errno::PERM)) if !config.read_only => {
            return Err(not_permitted(&what, &error.into()));
        }
        _ => config.read_only,
    };
    match FileOptions::new(path).read_only(true).open() {
        Ok(device) => {
            let read_only = read_only || device.is_protected();
            let origin = describe(&what, path, device, config).await?;
            Ok(Some(OpenOrigin { read_only, ..origin }))
        }
        Err(error) if error.kind == ErrorKind::InUse => Ok(None),
        Err(error) => Err(device_error(&what, &error)),
    }
}

async fn open(path: &Path, volume: &str, config: &VolumeConfig) -> Result<OpenOrigin, Error> {
    let what = format!("origin {}", path.display());
    check_there(&what, path)?;
    let opened = FileOptions::new(path).read_only(config.read_only).open();
    let is_refused = |e: &nitro_device::Error| {
        e.source.as_ref().is_some_and(|source| source.kind() == io::ErrorKind::ReadOnlyFilesystem)
    };
    let opened = match opened {
        Err(error) if is_refused(&error) => {
            tracing::warn!("{what}: it can only be read ({error}): the volume is read-only");
            FileOptions::new(path).read_only(true).open()
        }
        opened => opened,
    };
    let device = opened.map_err(|e| match &e.source {
        Some(source) if source.kind() == io::ErrorKind::PermissionDenied => not_permitted(&what, source),
        _ => device_error(&what, &e),
    })?;
    let origin = describe(&what, path, device, config).await?;
    nitro_console::output::note!("volume {volume}: {} at {}", Size(origin.look.size_bytes), path.display());
    Ok(origin)
}

/// What an open file or device is recognised by, and its marks.
async fn describe(what: &str, path: &Path, device: FileDevice, config: &VolumeConfig) -> Result<OpenOrigin, Error> {
    let size_bytes = device.geometry().size_bytes;
    if size_bytes == 0 {
        let way_out = format!("give it a size first: truncate -s 10G {}", path.display());
        return Err(Error::new(what, "it is empty").or(way_out));
    }
    // Looked at by the descriptor, now that nobody else may change it.
    let fail = |e| Error::new(what, e).or("check the path and its folders' permissions");
    let (file, read_only) = (device.handle().map_err(fail)?, device.is_read_only());
    let look = Look::new(&file.metadata().map_err(fail)?, size_bytes);
    let (at, handle) = (path.to_owned(), device.handle().map_err(fail)?);
    let examined = aside(move || {
        let id = nitro_device::identify(&handle)?;
        let fence = Fence::of(&at, &handle, &id)?;
        Ok((VolumeMarks::of_file(&at, &handle, &id)?, id, fence))
    });
    let (marks, id, fence) = examined.await?.map_err(fail)?;
    let is_block = device.medium() == Medium::Block;
    let block_bytes = if is_block { Some(ioctl_blksszget(&file).map_err(|e| fail(e.into()))?) } else { None };
    let device = emulated(device, config.emulate_disk);
    let identity = Arc::new(OpenFile { path: path.to_owned(), file, read_only, block_bytes });
    Ok(OpenOrigin { device: Backing::Device(Box::new(device)), identity, id, look, fence, marks, read_only })
}

//! Creation of stores.

use super::ssd::{self, SsdConfig};
use super::{FILE_NAME, failed, shared};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::{Plan, Settings, Store, StoreOptions};
use nitro_device::{AnyDevice, FileOptions};
use nitro_files as files;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The size with which a store in a folder begins, unless that is said.
const SIZE_FIRST: u64 = 1 << 30;
/// The most that the default of its maximum is.
const SIZE_DEFAULT_MAX: u64 = 16 << 40;

/// The size of a new store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewSize {
    /// How large it is at first. `None`: small, if it grows; on a device, that of the device.
    pub first_bytes: Option<u64>,
    /// Up to what size it grows by itself. `None`: in a folder and without a first size, half of the free space; else it does not.
    pub max_bytes: Option<u64>,
}

impl NewSize {
    /// How large the store is at first, and up to what it grows; 0: it does not.
    fn of(self, path: &Path, is_device: bool) -> Result<(u64, u64), Error> {
        match (self.first_bytes, self.max_bytes) {
            (Some(first), Some(max)) if max < first => {
                Err(Error::new("--max-size", format_args!("{} is less than --size {}", Size(max), Size(first))))
            }
            (Some(first), max) => Ok((first, max.unwrap_or(0))),
            (None, _) if is_device => Ok((room(path, true)?, self.max_bytes.unwrap_or(0))),
            (None, Some(max)) => Ok((max.min(SIZE_FIRST), max)),
            (None, None) => room(path, false).map(|max| (max.min(SIZE_FIRST), max)),
        }
    }
}

/// The SSD of a new store.
#[derive(Debug, Clone)]
pub struct NewSsd {
    /// Its path and its use.
    pub config: SsdConfig,
    /// How much of it is used; `None`: all.
    pub size: Option<Size>,
    /// The SSD may be overwritten even if it holds data.
    pub force: bool,
}

/// Creates a store in a folder or on a block device. `force`: existing data may be overwritten.
///
/// # Errors
/// There is a store already, the device or file cannot be written, or the options are contradictory.
pub async fn make(
    path: &Path,
    size: NewSize,
    options: StoreOptions,
    ssd: Option<&NewSsd>,
    force: bool,
) -> Result<Plan, Error> {
    let is_device = fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device());
    let (size_bytes, grows_to) = size.of(path, is_device)?;
    let random = |n: u64| RandomState::new().hash_one(n);
    let plan =
        Plan::new(&StoreOptions { size_bytes, ..options }, random(0), random(1)).map_err(|e| failed(path, &e))?;
    let plan = plan.growing_to(grows_to);
    let device: AnyDevice = match is_device {
        true => open_empty_device(path, force)?,
        false => make_file(path, plan.device_bytes(), force)?,
    };
    let store = Store::create(shared(device, None), &plan, Settings::default()).await.map_err(|e| failed(path, &e))?;
    if let Some(NewSsd { config, size, force }) = ssd {
        ssd::attach(&store, path, config, (*size, *force)).await?;
    }
    store.close().await.map_err(|e| failed(path, &e))?;
    Ok(plan)
}

/// How large a store becomes at most, unless that is said.
fn room(path: &Path, is_device: bool) -> Result<u64, Error> {
    if is_device {
        let device = FileOptions::new(path).read_only(true).open();
        let device = device.map_err(|e| Error::with_sources(path.display(), &e))?;
        return Ok(nitro_port::Device::geometry(&device).size_bytes);
    }
    let there = path.ancestors().find(|p| p.exists()).unwrap_or(Path::new("."));
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    let free = rustix::fs::statvfs(there).map_err(|e| Error::new(there.display(), e))?;
    // It must not fill the file system, where other files are.
    Ok((free.f_bavail * free.f_frsize / 2).min(SIZE_DEFAULT_MAX))
}

fn open_empty_device(path: &Path, force: bool) -> Result<AnyDevice, Error> {
    let device = FileOptions::new(path).open().map_err(|e| Error::with_sources(path.display(), &e))?;
    if !force {
        return Err(Error::new(path.display(), "all data on the device would be lost").or("add --force to confirm"));
    }
    Ok(device.into())
}

/// Creates a sparse file that is accessible only to its owner.
fn make_file(folder: &Path, size_bytes: u64, force: bool) -> Result<AnyDevice, Error> {
    fs::create_dir_all(folder).map_err(|e| Error::new(folder.display(), e))?;
    let path = folder.join(FILE_NAME);
    let is_there = fs::symlink_metadata(&path).is_ok();
    if is_there && !force {
        return Err(Error::new(folder.display(), "there is a store already")
            .or("choose another folder, or add --force to replace it"));
    }
    if is_there {
        // Refused while somebody has it open.
        drop(FileOptions::new(&path).open().map_err(|e| Error::with_sources(path.display(), &e))?);
    }
    let opened = if is_there { files::open_own(&path) } else { files::create_new(&path) };
    let made = opened.and_then(|file| {
        files::close_to_others(&file)?;
        file.set_len(0)?;
        file.set_len(size_bytes)?;
        file.sync_all()
    });
    made.map_err(|e| Error::new(path.display(), e).or("choose a smaller --size"))?;
    let device = FileOptions::new(&path).open().map_err(|e| Error::with_sources(path.display(), &e))?;
    Ok(device.into())
}

//! Changing the size of a cache while it is served.

use super::caches::CacheEntry;
use super::device::CacheDevice;
use super::store::{self, ALIGNMENT_BYTES};
use crate::device_error::device_error;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::file::Medium;
use nitro_device::{AnyDevice, FileDevice, FileOptions};
use nitro_engine::format::superblock::{SUPERBLOCK_BYTES, Superblock};
use nitro_files::FileId;
use nitro_port::Device;
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io;
use std::path::Path;

impl CacheEntry {
    /// Sets the total size of the cache in its file or device. A file grows and shrinks with it.
    pub(super) async fn resize(&self, size_bytes: u64) -> Result<(), Error> {
        let what = format!("cache {}", self.name);
        let Some(path) = &self.path else {
            return Err(Error::new(what, "there is no cache to resize").or("serve the volume with a cache"));
        };
        let size_bytes = size_bytes / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
        let fail = |e: nitro_engine::Error| Error::with_sources(&what, &e).or("check the size and the cache device");
        let superblock = self.cache.devices().superblock().await.map_err(fail)?;
        if self.cache.devices().is_striped() {
            return self.resize_striped(&what, size_bytes, &superblock).await;
        }
        let Some(device) = self.cache.devices().device(0) else {
            return Err(Error::new(what, "its device is lost").or("see nitro status"));
        };
        let others = superblock.data_offset + SUPERBLOCK_BYTES as u64;
        let cache_bytes = size_bytes.saturating_sub(others);
        let least = nitro_cache::settings::WEU_COUNT_MIN * u64::from(superblock.weu_bytes);
        if cache_bytes < least {
            let why = format!(
                "{} is too small for write-evict units of {}",
                Size(size_bytes),
                Size(superblock.weu_bytes.into())
            );
            return Err(Error::new(what, why).or(format!("give at least {}", others + least)));
        }
        let settings = self.cache.settings();
        let resized = nitro_cache::Settings { cache_bytes, ..settings.manager };
        let classes = self.classes.table().classes;
        resized.check_classes(&classes, settings.dirty_max_percent, self.cache.pinned_extents().0).map_err(
            |error| Error::new(&what, error).or("choose a larger size, or unpin data: nitro pins, nitro unpin"),
        )?;
        let Some(file) = device.file() else {
            return Err(Error::new(what, "its device cannot be resized"));
        };
        let handle = file.handle().map_err(|e| Error::new(&what, e))?;
        check_name(&what, path, &handle)?;
        let before = self.make_room(&what, path, (device, &handle), size_bytes)?;
        let resized = self.cache.resize(cache_bytes).await.map_err(|error| match error {
            nitro_engine::Error::Setting(setting) => {
                let nearest = setting.nearest + others;
                Error::new(&what, format_args!("{}: {}", Size(size_bytes), setting.reason))
                    .or(format_args!("the nearest valid size is {nearest} bytes"))
            }
            error => fail(error),
        });
        // A file is as long as the cache in it.
        let len = if resized.is_ok() { size_bytes } else { before.size_bytes };
        if before.medium == Medium::File {
            cut(&handle, len).map_err(|e| Error::new(&what, format_args!("its file cannot be made shorter: {e}")))?;
            if self.cache.devices().geometry().size_bytes > len {
                device.replace(AnyDevice::from(reopen(&what, &handle)?));
                // Its second copy went with the file's end.
                self.cache.rewrite_superblock().await.map_err(fail)?;
            }
        }
        resized
    }

    /// Sets the total size of a cache on several devices, within what they have. Each keeps an equal part; the files
    /// are not changed.
    async fn resize_striped(&self, what: &str, size_bytes: u64, superblock: &Superblock) -> Result<(), Error> {
        let devices = u64::from(superblock.place.devices);
        let (weu_bytes, others) = (u64::from(superblock.weu_bytes), superblock.data_offset + SUPERBLOCK_BYTES as u64);
        let each = (size_bytes / devices).saturating_sub(others) / weu_bytes * weu_bytes;
        let has = self.cache.devices().geometry().size_bytes.saturating_sub(others) / devices;
        if each > has {
            let why = format!(
                "{} is requested, and its {devices} devices have {}",
                Size(size_bytes),
                Size((has + others) * devices)
            );
            return Err(Error::new(what, why).or("give at most that size: the devices of such a cache do not grow"));
        }
        self.cache.resize(each * devices).await.map_err(|error| match error {
            nitro_engine::Error::Setting(setting) => {
                Error::new(what, format_args!("{}: {}", Size(size_bytes), setting.reason))
                    .or(format_args!("the nearest valid size is {} bytes", setting.nearest + others * devices))
            }
            error => Error::with_sources(what, &error).or("check the size and the cache devices"),
        })
    }

    /// Makes the device at least that large; returns its former state.
    fn make_room(
        &self,
        what: &str,
        path: &Path,
        (served, handle): (&CacheDevice, &File),
        size_bytes: u64,
    ) -> Result<Before, Error> {
        let mut device = reopen(what, handle)?;
        let have = device.geometry().size_bytes;
        if have < size_bytes && device.medium() == Medium::Block {
            let why = format!("{} is requested, and the device has only {}", Size(size_bytes), Size(have));
            return Err(Error::new(what, why).or("make the device larger first"));
        }
        if have < size_bytes {
            store::check_room(what, path, size_bytes - have)?;
            lengthen(handle, size_bytes)
                .map_err(|e| Error::new(what, e).or("make room on its filesystem, or give a smaller size"))?;
            device = reopen(what, handle)?;
        }
        let before = Before { medium: device.medium(), size_bytes: have };
        if self.cache.devices().geometry().size_bytes < size_bytes {
            served.replace(AnyDevice::from(device));
        }
        Ok(before)
    }
}

/// Refuses to go on if the path of the cache leads to another file or device by now. Even so, only the open one is changed.
fn check_name(what: &str, path: &Path, handle: &File) -> Result<(), Error> {
    let is_same = FileId::of(path).is_ok_and(|named| FileId::of_open(handle).is_ok_and(|open| open == named));
    if is_same {
        return Ok(());
    }
    let why = format!("{} leads to another file than the one that is in use", path.display());
    Err(Error::new(what, why).or("put the cache's file back at its path; nothing was changed"))
}

fn reopen(what: &str, handle: &File) -> Result<FileDevice, Error> {
    FileOptions::of_open(handle).open().map_err(|e| device_error(what, &e))
}

/// A device before its cache was resized.
struct Before {
    medium: Medium,
    size_bytes: u64,
}

fn cut(file: &File, len: u64) -> io::Result<()> {
    if file.metadata()?.len() > len { file.set_len(len) } else { Ok(()) }
}

fn lengthen(file: &File, size_bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size_bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(size_bytes)?,
        result => result?,
    }
    file.sync_all()
}

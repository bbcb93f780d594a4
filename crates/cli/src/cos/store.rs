//! Making stores.

use crate::args::{CosCompression, CosInitArgs};
use nitro_console::error::Error;
use nitro_console::output::{Format, json_line, print};
use nitro_console::size::Size;
use nitro_cos::{Plan, Settings, Store, StoreOptions};
use nitro_device::{AnyDevice, FileOptions};
use nitro_port::codec::Compression;
use nitro_server::cos::{FILE_NAME, failed};
use nitro_server::files;
use serde::Serialize;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// The most that a store takes unless it is told.
const SIZE_DEFAULT_MAX: u64 = 16 << 40;

fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device())
}

#[derive(Serialize)]
struct Made {
    path: String,
    size_bytes: u64,
    content_bytes: u64,
    ram_bytes: u64,
}

/// `nitro cos init`
pub(super) async fn init(args: &CosInitArgs) -> Result<(), Error> {
    let path = &args.store.store;
    let is_device = is_block_device(path);
    let size_bytes = match args.size {
        Some(size) => size.0,
        None => room(path, is_device)?,
    };
    let small = |size: Size| u32::try_from(size.0).unwrap_or(u32::MAX);
    let options = StoreOptions {
        size_bytes,
        chunk_bytes: small(args.chunk_size),
        region_bytes: small(args.region_size),
        compression: match args.compression {
            CosCompression::None => Compression::None,
            CosCompression::Lz4 => Compression::Lz4,
            CosCompression::Zstd => Compression::Zstd,
        },
        ..StoreOptions::default()
    };
    let random = |n: u64| RandomState::new().hash_one(n);
    let plan = Plan::new(&options, random(0), random(1)).map_err(|e| failed(path, &e))?;
    let device: AnyDevice = match is_device {
        true => open_empty_device(path, args.force)?,
        false => make_file(path, plan.device_bytes(), args.force)?,
    };
    let store = Store::create(Arc::new(device), &plan, Settings::default()).await.map_err(|e| failed(path, &e))?;
    if let Some(ssd) = &args.ssd {
        let config = super::ssd::config(ssd, &args.ssd_options)?;
        let (size, force) = (args.ssd_options.ssd_size, args.ssd_options.ssd_force);
        nitro_server::cos::ssd::attach(&store, path, &config, (size, force)).await?;
    }
    store.close().await.map_err(|e| failed(path, &e))?;
    let made = Made {
        path: path.display().to_string(),
        size_bytes: plan.device_bytes(),
        content_bytes: plan.content_bytes(),
        ram_bytes: plan.ram_bytes(),
    };
    let text = match args.output.format {
        Format::Json => json_line(&made)?,
        _ => format!(
            "{}: a store for {} of content; it needs {} of RAM while it is open, and its caches\n",
            made.path,
            Size(made.content_bytes),
            Size(made.ram_bytes)
        ),
    };
    print(&text).map(drop)
}

/// What is free where the store is to be.
fn room(path: &Path, is_device: bool) -> Result<u64, Error> {
    if is_device {
        let device = FileOptions::new(path).read_only(true).open();
        let device = device.map_err(|e| Error::with_sources(path.display(), &e))?;
        return Ok(nitro_port::Device::geometry(&device).size_bytes);
    }
    let there = path.ancestors().find(|p| p.exists()).unwrap_or(Path::new("."));
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    let free = rustix::fs::statvfs(there).map_err(|e| Error::new(there.display(), e))?;
    Ok((free.f_bavail * free.f_frsize).min(SIZE_DEFAULT_MAX))
}

fn open_empty_device(path: &Path, force: bool) -> Result<AnyDevice, Error> {
    let device = FileOptions::new(path).open().map_err(|e| Error::with_sources(path.display(), &e))?;
    if !force {
        return Err(
            Error::new(path.display(), "all that the device holds would be lost").or("add --force if that is meant")
        );
    }
    Ok(device.into())
}

/// A sparse file, for its owner alone: it takes what is stored in it.
fn make_file(folder: &Path, size_bytes: u64, force: bool) -> Result<AnyDevice, Error> {
    fs::create_dir_all(folder).map_err(|e| Error::new(folder.display(), e))?;
    let path = folder.join(FILE_NAME);
    let is_there = fs::symlink_metadata(&path).is_ok();
    if is_there && !force {
        return Err(Error::new(folder.display(), "there is a store already")
            .or("choose another folder, or add --force to begin anew"));
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

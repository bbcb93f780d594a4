//! Creation of stores.

use crate::args::{CosCompression, CosInitArgs};
use nitro_console::error::Error;
use nitro_console::output::{Format, json_line, print};
use nitro_console::size::Size;
use nitro_cos::StoreOptions;
use nitro_port::codec::Compression;
use nitro_server::cos::{NewSize, NewSsd, device_path, make};
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The unit of the blocks that a file takes (stat(2)).
const BLOCK_BYTES: u64 = 512;

#[derive(Serialize)]
struct Made {
    path: String,
    size_bytes: u64,
    /// Up to what size it grows by itself; `None`: it does not.
    max_bytes: Option<u64>,
    content_bytes: u64,
    /// What its file takes now; `None`: it is on a device.
    allocated_bytes: Option<u64>,
    ram_bytes: u64,
}

/// `nitro cos init`
pub(super) async fn init(args: &CosInitArgs) -> Result<(), Error> {
    let path = &args.store.store;
    let small = |size: Size| u32::try_from(size.0).unwrap_or(u32::MAX);
    let options = StoreOptions {
        chunk_bytes: small(args.chunk_size),
        region_bytes: small(args.region_size),
        compression: match args.compression {
            CosCompression::None => Compression::None,
            CosCompression::Lz4 => Compression::Lz4,
            CosCompression::Zstd => Compression::Zstd,
        },
        ..StoreOptions::default()
    };
    let ssd = args.ssd.as_ref().map(|ssd| {
        let (size, force) = (args.ssd_options.ssd_size, args.ssd_options.ssd_force);
        super::ssd::config(ssd, &args.ssd_options).map(|config| NewSsd { config, size, force })
    });
    let size = NewSize { first_bytes: args.size.map(|size| size.0), max_bytes: args.max_size.map(|size| size.0) };
    let plan = make(path, size, options, ssd.transpose()?.as_ref(), args.force).await?;
    let file = fs::metadata(device_path(path)).ok().filter(fs::Metadata::is_file);
    let made = Made {
        path: path.display().to_string(),
        size_bytes: plan.device_bytes(),
        max_bytes: plan.grows_to(),
        content_bytes: plan.content_bytes(),
        allocated_bytes: file.map(|file| file.blocks() * BLOCK_BYTES),
        ram_bytes: plan.ram_bytes(),
    };
    let text = match args.output.format {
        Format::Json => json_line(&made)?,
        _ => format!(
            "{}: a store for {} of content; {}; {}; while it is open, it takes {} of RAM in addition to its caches\n",
            made.path,
            Size(made.content_bytes),
            match made.allocated_bytes {
                Some(now) => {
                    format!("its file takes {} now, and at this size {} at most", Size(now), Size(made.size_bytes))
                }
                None => format!("it takes {} of the device", Size(made.size_bytes)),
            },
            match made.max_bytes {
                Some(max) => format!("the store grows by itself up to {}", Size(max)),
                None => "`nitro cos grow` makes it larger".to_owned(),
            },
            Size(made.ram_bytes)
        ),
    };
    print(&text).map(drop)
}

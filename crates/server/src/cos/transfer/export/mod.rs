//! Exports to files, block devices and standard output.

mod file;
pub(super) mod increment;
mod output;
mod target;
mod writer;

pub use target::Target;
pub(super) use writer::Writer;

use super::pace::Pace;
use super::threads::{Shared, Workers};
use super::{Unit, Watch};
use crate::cos::StoreDevice;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::Volume;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes of one read.
const SEGMENT_BYTES: u64 = 1 << 20;
/// The minimum number of segments that each thread reads concurrently: while it decompresses and writes one, the device
/// reads others.
const SEGMENTS_AHEAD_MIN: usize = 4;
/// The minimum number for all threads: two ranges of read-ahead, so that one is read while the other is decompressed.
const SEGMENTS_MIN: usize = 16;

/// Where the content goes.
#[derive(Debug)]
pub enum Sink {
    /// A file or block device, which is overwritten, in any order.
    File(File),
    /// What takes the content in order, from its present position on.
    Output(File),
}

/// The arguments of an export.
#[derive(Debug, Clone, Copy)]
pub(super) struct Export<'a> {
    /// The store, as errors name it.
    pub(super) store: &'a Path,
    /// The object's name.
    pub(super) name: &'a str,
    /// What errors call the target.
    pub(super) target: &'a Path,
    pub(super) pace: Pace,
}

/// Segments that each of some threads reads concurrently.
fn segments_ahead(threads: usize) -> usize {
    SEGMENTS_MIN.div_ceil(threads).max(SEGMENTS_AHEAD_MIN)
}

/// Exports an object, and returns its size in bytes.
///
/// # Errors
/// The target cannot be written, the store fails, or the export was ended.
pub(super) async fn export(
    args: Export<'_>,
    volume: &Volume<StoreDevice>,
    sink: Sink,
    watch: &dyn Watch,
) -> Result<u64, Error> {
    let done = match sink {
        Sink::File(file) => file::export(&args, volume, file, watch).await,
        Sink::Output(out) => output::export(&args, volume, out, watch).await,
    };
    match done {
        Err(_) if volume.is_removed() => {
            Err(Error::new(args.name, "it was deleted while it was exported").or("export another object or snapshot"))
        }
        done => done,
    }
}

/// Waits for the threads, and shows their progress.
async fn finish<S: Shared>(
    args: &Export<'_>,
    workers: Workers<S>,
    (size, bytes): (u64, &AtomicU64),
    watch: &dyn Watch,
) -> Result<(), Error> {
    let tell = async || {
        let done = bytes.load(SeqCst);
        watch.show("exported", Unit::Bytes, done, size);
        watch.end().map_or(Ok(()), |cause| {
            let why = format!("{cause} interrupted the export at {} of {}", Size(done), Size(size));
            Err(Error::new(args.name, why).or("the same command begins it again"))
        })
    };
    workers.finish((args.store, args.target.display()), tell).await
}

//! Exports of increments: what makes an object from an earlier one.

use super::writer::Writer;
use super::{Export, SEGMENT_BYTES, Sink};
use crate::cos::transfer::threads::Failed;
use crate::cos::transfer::{Unit, Watch};
use crate::cos::{CosStore, failed};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::{Difference, IncrementWriter};
use std::io;
use std::sync::Arc;

/// Writes the increment from the object `base`, and returns its length in bytes.
///
/// # Errors
/// The two objects do not fit each other, the target cannot be written, the store fails, or the export was ended.
pub(in crate::cos::transfer) async fn export(
    args: Export<'_>,
    (store, base): (&Arc<CosStore>, &str),
    sink: Sink,
    watch: &dyn Watch,
) -> Result<u64, Error> {
    let fail = |e: io::Error| Error::new(args.target.display(), e);
    let file = match sink {
        Sink::File(file) if file.metadata().map_err(fail)?.is_file() => {
            // What an export that was broken off has left.
            file.set_len(0).map_err(fail)?;
            file
        }
        Sink::File(_) => {
            return Err(Error::new(args.target.display(), "it is no regular file").or("write the increment to a file"));
        }
        Sink::Output(out) => out,
    };
    let out = Writer::new(file).map_err(fail)?;
    let of_store = |e: nitro_cos::Error| failed(args.store, &e);
    let volume = store.open_volume(args.name).await.map_err(of_store)?;
    let head = store.increment(base, args.name).await.map_err(of_store)?;
    let header = head.encode();
    let (mut parts, mut written) = (IncrementWriter::new(&header), 0);
    let mut write = |bytes: &[u8]| {
        written += bytes.len() as u64;
        out.write_all(bytes, || watch.end().is_some()).map_err(Failed::File)
    };
    let interrupted = || {
        watch.end().map_or(Ok(()), |cause| {
            Err(Failed::Other(Error::new(args.name, format_args!("{cause} interrupted the export"))))
        })
    };
    let whole = async {
        write(&header)?;
        store
            .visit_differences(base, args.name, async |Difference { offset, len }| {
                for from in (offset..offset + len).step_by(SEGMENT_BYTES as usize) {
                    interrupted()?;
                    let len = SEGMENT_BYTES.min(offset + len - from);
                    let data = volume.read_range(from, len as usize).await?;
                    write(&store.encode_part(&mut parts, from, &data))?;
                    watch.show("exported", Unit::Bytes, from + len, head.size_bytes());
                }
                Ok::<_, Failed>(())
            })
            .await?;
        write(&parts.end())?;
        interrupted()
    };
    whole.await.map_err(|error| error.of(args.store, args.target.display()))?;
    watch.note(format!("{} is the increment from {base} to {}", Size(written), args.name));
    Ok(written)
}

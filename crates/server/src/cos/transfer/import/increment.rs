//! Imports of increments.

use super::{Import, Watch};
use crate::cos::StoreDevice;
use crate::cos::transfer::Unit;
use crate::cos::transfer::threads::pause;
use crate::cos::{CosStore, failed, now};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::{IncrementHead, IncrementReader, Volume};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::sync::Arc;

/// How often is checked whether the import has to end while nothing arrives.
const READ_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// An increment that is being read.
struct Source<'a> {
    args: &'a Import<'a>,
    file: File,
    watch: &'a dyn Watch,
    read: u64,
}

impl Source<'_> {
    fn error(&self, why: impl std::fmt::Display) -> Error {
        Error::new(self.args.source.display(), why).or("no part of the import is kept")
    }

    /// Fails if the import has to end.
    fn check_end(&self) -> Result<(), Error> {
        self.watch.end().map_or(Ok(()), |cause| {
            let why = format_args!("{cause} interrupted the import, and no part of it is kept").to_string();
            Err(Error::new(self.args.name, why))
        })
    }

    /// Reads what has arrived, at the end of the source nothing.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Error> {
        loop {
            self.check_end()?;
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&READ_WAIT)) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(self.error(std::io::Error::from(error))),
            }
            let read = retry_on_intr(|| rustix::io::read(&self.file, &mut *buf));
            let read = read.map_err(|e| self.error(std::io::Error::from(e)))?;
            self.read += read as u64;
            return Ok(read);
        }
    }

    /// Appends the next `len` bytes, of which there are few, to those in `bytes`.
    fn take(&mut self, bytes: &mut Vec<u8>, len: usize) -> Result<(), Error> {
        let mut at = bytes.len();
        bytes.resize(at + len, 0);
        while at < bytes.len() {
            match self.read(&mut bytes[at..])? {
                0 => return Err(self.error(format_args!("the increment is cut off at {} bytes", self.read))),
                read => at += read,
            }
        }
        Ok(())
    }

    fn head(&mut self, reader: &mut IncrementReader) -> Result<IncrementHead, Error> {
        let mut bytes = Vec::new();
        self.take(&mut bytes, IncrementReader::FIRST_BYTES)?;
        let rest = IncrementReader::rest_of_head(&bytes).map_err(|e| self.error(e))?;
        self.take(&mut bytes, rest)?;
        reader.head(&bytes).map_err(|e| self.error(e))
    }
}

/// Returns the size of the volume in bytes.
pub(super) async fn import(
    args: &Import<'_>,
    store: &Arc<CosStore>,
    file: File,
    watch: &dyn Watch,
) -> Result<u64, Error> {
    let fail = |e: nitro_cos::Error| failed(args.store, &e);
    let mut source = Source { args, file, watch, read: 0 };
    let mut reader = IncrementReader::default();
    let head = source.head(&mut reader)?;
    let volume = store.begin_increment(args.name, &head, now()).await.map_err(fail)?;
    let applied = async {
        apply(&mut source, &mut reader, &volume, head.size_bytes()).await?;
        loop {
            if let Some(complete) = watch.complete() {
                complete?;
                break;
            }
            source.check_end()?;
            pause().await;
        }
        store.finish_increment(&volume, &head).await.map_err(fail)
    };
    if let Err(error) = applied.await {
        store.abandon_import(&volume).await.map_err(fail)?;
        return Err(error);
    }
    watch.note(format!("{} of an increment from {} to {}", Size(source.read), head.base_name, head.name));
    Ok(head.size_bytes())
}

async fn apply(
    source: &mut Source<'_>,
    reader: &mut IncrementReader,
    volume: &Volume<StoreDevice>,
    size: u64,
) -> Result<(), Error> {
    loop {
        let (mut first, mut payload) = (Vec::new(), Vec::new());
        source.take(&mut first, IncrementReader::RECORD_BYTES)?;
        let rest = reader.rest_of_record(&first).map_err(|e| source.error(e))?;
        source.take(&mut payload, rest)?;
        let Some(part) = reader.record(&first, payload.into()).map_err(|e| source.error(e))? else { break };
        let end = part.offset + u64::from(part.len);
        volume.apply(part).await.map_err(|e| failed(source.args.store, &e).or("no part of the import is kept"))?;
        source.watch.show("imported", Unit::Bytes, end, size);
    }
    match source.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(source.error("something follows the end of the increment")),
    }
}

//! The engine's volumes as NBD exports.

use bytes::Bytes;
use nitro_device::{AnyDevice, CompioClock};
use nitro_engine::port::{Allocation, Device};
use nitro_engine::{ErrorKind, Volume};
use nitro_nbd::protocol::{STATE_CACHED, STATE_HOLE, STATE_ZERO};
use nitro_nbd::{Context, Export, ExportInfo, ExportName, Exports, NbdErrno, Pieces, StatusExtent, ZeroFlags};
use std::cell::Cell;
use std::sync::Arc;

/// The volumes that the program serves.
pub(crate) type ServedVolume = Volume<AnyDevice, AnyDevice, CompioClock>;
/// The caches in front of them.
pub(crate) type ServedCache = nitro_engine::Cache<AnyDevice, CompioClock>;

/// A volume under its name.
pub(crate) struct VolumeExport {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) volume: Arc<ServedVolume>,
}

/// All exports as one connection sees them.
pub(crate) struct ExportList<'a> {
    pub(crate) exports: &'a [Arc<VolumeExport>],
    /// Whether the client has found what it came for.
    pub(crate) opened: Cell<bool>,
}

impl Exports for ExportList<'_> {
    type Export = VolumeExport;

    fn list(&self) -> Vec<ExportName> {
        let entry = |e: &Arc<VolumeExport>| ExportName { name: e.name.clone(), description: e.description.clone() };
        self.exports.iter().map(entry).collect()
    }

    fn open(&self, name: &str) -> Option<Arc<VolumeExport>> {
        let found = self.exports.iter().find(|e| e.name == name).cloned();
        self.opened.set(self.opened.get() || found.is_some());
        found
    }
}

fn errno(error: nitro_engine::Error) -> NbdErrno {
    match error.kind() {
        ErrorKind::OutOfRange => NbdErrno::Invalid,
        ErrorKind::ReadOnly => NbdErrno::Permission,
        ErrorKind::NoSpace => NbdErrno::NoSpace,
        ErrorKind::Unsupported => NbdErrno::NotSupported,
        ErrorKind::Io | ErrorKind::Setting | ErrorKind::Format => {
            tracing::warn!("{}", crate::Error::with_sources("request failed", &error));
            NbdErrno::Io
        }
    }
}

impl VolumeExport {
    /// The origin's allocation map. It can be asked for whole blocks only; the client for any bytes.
    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<StatusExtent>, NbdErrno> {
        let geometry = self.volume.origin().geometry();
        let block = u64::from(geometry.block_bytes);
        let start = offset / block * block;
        let end = (offset + len).next_multiple_of(block).min(self.volume.size_bytes());
        let runs = self.volume.allocation(start, end - start).await.map_err(errno)?;
        let mut before = offset - start;
        let cut = |run: Allocation| {
            let skipped = before.min(run.len);
            before -= skipped;
            StatusExtent { len: run.len - skipped, flags: if run.hole { STATE_HOLE | STATE_ZERO } else { 0 } }
        };
        Ok(runs.into_iter().map(cut).collect())
    }
}

impl Export for VolumeExport {
    fn info(&self) -> ExportInfo {
        let volume = &self.volume;
        let extent_bytes = volume.cache().settings().manager.extent_bytes;
        let geometry = volume.origin().geometry();
        ExportInfo {
            description: self.description.clone(),
            read_only: volume.read_only(),
            rotational: geometry.rotational,
            block_preferred_bytes: extent_bytes.max(4096),
            ..ExportInfo::new(volume.size_bytes())
        }
    }

    fn try_read(&self, offset: u64, len: u32) -> Option<Result<Pieces, NbdErrno>> {
        self.volume.try_read(offset, len.into()).map(Ok)
    }

    async fn read(&self, offset: u64, len: u32) -> Result<Pieces, NbdErrno> {
        self.volume.read(offset, len.into()).await.map_err(errno)
    }

    async fn write(&self, offset: u64, data: Bytes, fua: bool) -> Result<(), NbdErrno> {
        self.volume.write(offset, data, fua).await.map_err(errno)
    }

    async fn flush(&self) -> Result<(), NbdErrno> {
        self.volume.flush().await.map_err(errno)
    }

    async fn trim(&self, offset: u64, len: u32, fua: bool) -> Result<(), NbdErrno> {
        self.volume.trim(offset, len.into(), fua).await.map_err(errno)
    }

    async fn write_zeroes(&self, offset: u64, len: u32, flags: ZeroFlags) -> Result<(), NbdErrno> {
        self.volume.write_zeroes(offset, len.into(), !flags.no_hole, flags.fast, flags.fua).await.map_err(errno)
    }

    async fn cache(&self, offset: u64, len: u32) -> Result<(), NbdErrno> {
        self.volume.warm(offset, len.into()).await.map_err(errno)
    }

    async fn block_status(&self, context: Context, offset: u64, len: u32) -> Result<Vec<StatusExtent>, NbdErrno> {
        match context {
            Context::BaseAllocation => self.allocation(offset, len.into()).await,
            Context::NitroCache => {
                let runs = self.volume.cached_runs(offset, len.into()).map_err(errno)?;
                let flags = |cached| if cached { STATE_CACHED } else { 0 };
                Ok(runs.into_iter().map(|run| StatusExtent { len: run.len, flags: flags(run.cached) }).collect())
            }
        }
    }
}

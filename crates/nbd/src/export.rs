//! What the server serves: implemented by the binary for the engine's volumes, and by tests in memory.

use crate::errno::NbdErrno;
use bytes::Bytes;
use smallvec::SmallVec;
use std::future::Future;
use std::sync::Arc;

/// The data of one read, in order.
pub type Pieces = SmallVec<[Bytes; 2]>;

/// What a client is told of an export. Constant for a connection, as the protocol has no way to tell of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// Size in bytes.
    pub size_bytes: u64,
    /// For humans; sent when asked for.
    pub description: String,
    /// Writing commands are refused with [`NbdErrno::Permission`].
    pub read_only: bool,
    /// Positioning is slow, as on a hard disk.
    pub rotational: bool,
    /// A flush on one connection covers the acknowledged writes of all, and reads of all see them.
    pub can_multi_conn: bool,
    /// [`Export::trim`] is offered.
    pub can_trim: bool,
    /// [`ZeroFlags::fast`] is offered.
    pub can_fast_zero: bool,
    /// [`Export::cache`] is offered.
    pub can_cache: bool,
    /// The request size in bytes from which the export is at its best. Rounded up to a power of two of at least 512.
    pub block_preferred_bytes: u32,
    /// Longest read or write in bytes; the connection's limit applies too. (The least is always one byte.)
    pub block_max_bytes: u32,
}

impl ExportInfo {
    /// A writable export of `size_bytes` that offers everything.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            description: String::new(),
            read_only: false,
            rotational: false,
            can_multi_conn: true,
            can_trim: true,
            can_fast_zero: true,
            can_cache: true,
            block_preferred_bytes: 4096,
            block_max_bytes: 32 << 20,
        }
    }
}

/// How to write zeroes (`NBD_CMD_WRITE_ZEROES`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZeroFlags {
    /// Durable before the reply.
    pub fua: bool,
    /// Storage must stay allocated.
    pub no_hole: bool,
    /// Fail with [`NbdErrno::NotSupported`], at once and without effect, if it is not faster than writing.
    pub fast: bool,
}

/// A metadata context that `NBD_CMD_BLOCK_STATUS` can tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Context {
    /// `base:allocation`: flags [`STATE_HOLE`](crate::protocol::STATE_HOLE) and [`STATE_ZERO`](crate::protocol::STATE_ZERO).
    BaseAllocation,
    /// `nitro:cache`: flags [`STATE_CACHED`](crate::protocol::STATE_CACHED) and [`STATE_DIRTY`](crate::protocol::STATE_DIRTY).
    NitroCache,
}

/// One run of a context's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusExtent {
    /// Length in bytes. What reaches past the range asked for is cut off.
    pub len: u64,
    /// The context's flags, the same for the whole run.
    pub flags: u32,
}

/// A block device as NBD sees it. Ranges are never empty and lie within [`ExportInfo::size_bytes`]; offsets and lengths
/// need no alignment. Futures may be dropped when the server itself ends, not when only the client does.
pub trait Export {
    /// What clients are told. Asked once for a connection.
    fn info(&self) -> ExportInfo;

    /// Like [`read`](Self::read), but only if it can be answered at once, as when the data is in RAM. `None` leads to a
    /// call of [`read`](Self::read). Must not block.
    fn try_read(&self, offset: u64, len: u32) -> Option<Result<Pieces, NbdErrno>> {
        let _ = (offset, len);
        None
    }

    /// Reads exactly `len` bytes at `offset`.
    fn read(&self, offset: u64, len: u32) -> impl Future<Output = Result<Pieces, NbdErrno>>;

    /// Writes `data` (at a page-aligned address) at `offset`; with `fua`, durably.
    fn write(&self, offset: u64, data: Bytes, fua: bool) -> impl Future<Output = Result<(), NbdErrno>>;

    /// Makes every write that was answered durable.
    fn flush(&self) -> impl Future<Output = Result<(), NbdErrno>>;

    /// The client has no more use for a range of `len` bytes.
    fn trim(&self, offset: u64, len: u32, fua: bool) -> impl Future<Output = Result<(), NbdErrno>>;

    /// Makes a range of `len` bytes read as zeroes.
    fn write_zeroes(&self, offset: u64, len: u32, flags: ZeroFlags) -> impl Future<Output = Result<(), NbdErrno>>;

    /// The client will soon read a range of `len` bytes. Long ranges are asked for in steps, until the client leaves.
    fn cache(&self, offset: u64, len: u32) -> impl Future<Output = Result<(), NbdErrno>>;

    /// The status of a range of `len` bytes: at least one run from `offset` on, in order. It may end early.
    fn block_status(
        &self,
        context: Context,
        offset: u64,
        len: u32,
    ) -> impl Future<Output = Result<Vec<StatusExtent>, NbdErrno>>;
}

/// An entry of the list of exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportName {
    /// What clients ask for; at most 4096 bytes.
    pub name: String,
    /// For humans.
    pub description: String,
}

/// The exports of a server.
pub trait Exports {
    /// Their type.
    type Export: Export;

    /// All that may be listed.
    fn list(&self) -> Vec<ExportName>;

    /// Finds an export. The empty name asks for the default one; where that finds nothing and only one export is
    /// listed, the server takes that.
    fn open(&self, name: &str) -> Option<Arc<Self::Export>>;

    /// The client has chosen `export` for good: once it has the reply, the handshake is over.
    fn begin(&self, export: &Arc<Self::Export>) {
        let _ = export;
    }
}

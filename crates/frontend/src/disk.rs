//! The interface between a front end and a disk.

use crate::{DiskError, Requester, Run, Scatter, StatusOf, UnitIdentity};
use bytes::Bytes;
pub use nitro_port::buf::Pieces;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

/// Properties of a disk for its clients. They are constant for a connection, as most protocols cannot report changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskInfo {
    /// Size in bytes.
    pub size_bytes: u64,
    /// A description for people; sent on request.
    pub description: String,
    /// Writing commands are refused with [`DiskError::ReadOnly`].
    pub read_only: bool,
    /// Positioning is slow, as on a hard disk.
    pub rotational: bool,
    /// A flush on one connection covers the acknowledged writes of all, and reads of all see them.
    pub can_multi_conn: bool,
    /// [`Disk::trim`] is offered.
    pub can_trim: bool,
    /// [`ZeroFlags::fast`] is offered.
    pub can_fast_zero: bool,
    /// [`Disk::cache`] is offered.
    pub can_cache: bool,
    /// Bytes of a logical block: 512 or 4096. Protocols that count in blocks count in these; others announce them if they
    /// are larger than 512.
    pub block_bytes: u32,
    /// The preferred request size in bytes. Rounded up to a power of two of at least 512.
    pub block_preferred_bytes: u32,
    /// Longest read or write in bytes; the connection's limit applies too.
    pub block_max_bytes: u32,
}

impl DiskInfo {
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
            block_bytes: 512,
            block_preferred_bytes: 4096,
            block_max_bytes: 32 << 20,
        }
    }
}

/// How to write zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZeroFlags {
    /// Durable before the reply.
    pub fua: bool,
    /// Storage must stay allocated.
    pub no_hole: bool,
    /// Fail with [`DiskError::Unsupported`], at once and without effect, if it is not faster than writing.
    pub fast: bool,
}

/// A block device as a client sees it. Ranges are never empty and lie within [`DiskInfo::size_bytes`]; offsets and lengths
/// need no alignment. Futures may be dropped when the server itself ends, not when only the client does.
pub trait Disk {
    /// The properties for clients. Called once for a connection.
    fn info(&self) -> DiskInfo;

    /// Whether a write that is answered now, and not flushed, survives the end of the server's process (not that of the machine).
    /// May change at any time.
    fn keeps_writes(&self) -> bool {
        false
    }

    /// The present size in bytes, for protocols that can report changes.
    fn size_bytes(&self) -> u64 {
        self.info().size_bytes
    }

    /// Like [`read`](Self::read), but only if it can be answered at once, for example because the data are in RAM.
    /// `None` leads to a call of [`read`](Self::read). Must not block.
    fn try_read(&self, from: Requester, offset: u64, len: u32) -> Option<Result<Pieces, DiskError>> {
        let _ = (from, offset, len);
        None
    }

    /// Reads exactly `len` bytes at `offset`.
    fn read(&self, from: Requester, offset: u64, len: u32) -> impl Future<Output = Result<Pieces, DiskError>>;

    /// Writes `data` (at a page-aligned address) at `offset`; with `fua`, durably.
    fn write(
        &self,
        from: Requester,
        offset: u64,
        data: Bytes,
        fua: bool,
    ) -> impl Future<Output = Result<(), DiskError>>;

    /// Makes every write that was answered durable.
    fn flush(&self, from: Requester) -> impl Future<Output = Result<(), DiskError>>;

    /// Notes that the client does not need the data of a range of `len` bytes any more.
    fn trim(&self, from: Requester, offset: u64, len: u32, fua: bool) -> impl Future<Output = Result<(), DiskError>>;

    /// Makes a range of `len` bytes read as zeroes.
    fn write_zeroes(
        &self,
        from: Requester,
        offset: u64,
        len: u32,
        flags: ZeroFlags,
    ) -> impl Future<Output = Result<(), DiskError>>;

    /// Notes that the client will soon read a range of `len` bytes. Long ranges are requested in steps, until the
    /// client disconnects.
    fn cache(&self, from: Requester, offset: u64, len: u32) -> impl Future<Output = Result<(), DiskError>>;

    /// Notes that a client has gone without awaiting its answers: those of its requests that have not begun, because they wait for
    /// their turn, need not begin, and may fail. Only for protocols that hand on no answer then.
    fn leave(&self, from: Requester) {
        let _ = from;
    }

    /// The status of a range of `len` bytes: at least one run from `offset` on, in order. It may end early.
    fn status(&self, of: StatusOf, offset: u64, len: u32) -> impl Future<Output = Result<Vec<Run>, DiskError>>;

    /// As [`read`](Self::read), into memory of the client. `false`: the disk returned another number of bytes than
    /// requested.
    fn read_into(
        &self,
        from: Requester,
        offset: u64,
        into: &mut impl Scatter,
    ) -> impl Future<Output = Result<bool, DiskError>> {
        async move {
            let (mut at, len) = (0, into.len());
            let pieces = self.read(from, offset, len).await?;
            if pieces.iter().map(Bytes::len).sum::<usize>() != len as usize {
                return Ok(false);
            }
            for piece in pieces {
                into.put(at, &piece);
                at += piece.len();
            }
            Ok(true)
        }
    }
}

/// An entry of the list of disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskName {
    /// The name that clients request; at most 4096 bytes.
    pub name: String,
    /// For humans.
    pub description: String,
}

/// A disk that a client has opened, and the requester.
#[derive(Debug)]
pub struct Opened<D> {
    /// The disk.
    pub disk: Arc<D>,
    /// To be passed with the client's requests.
    pub requester: Requester,
}

/// A client, as far as its protocol identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller<'a> {
    /// An iSCSI initiator.
    Initiator {
        /// Its name, which it may have chosen freely.
        name: &'a str,
        /// The account as which it has authenticated; `None`: it has not.
        account: Option<&'a str>,
        /// Its address, if it has one.
        address: Option<IpAddr>,
    },
    /// A client that has identified itself by a certificate, or by none.
    Certified {
        /// What an authority has certified of it: names, and the certificate's fingerprint.
        identities: &'a [String],
    },
}

/// The disks of a server.
pub trait Disks {
    /// Their type.
    type Disk: Disk;

    /// All that may be listed.
    fn list(&self) -> Vec<DiskName>;

    /// Finds a disk. The empty name means the default disk; if there is none and only one disk is listed, front ends
    /// use that one.
    fn open(&self, name: &str) -> Option<Opened<Self::Disk>>;

    /// How all disks that may be listed identify themselves, for protocols in which they have names of their own.
    fn units(&self) -> Vec<Arc<UnitIdentity>> {
        self.list().iter().map(|disk| Arc::new(UnitIdentity::of(&[], &disk.name))).collect()
    }

    /// Whether a client may list and open the disk of that name. Only protocols that identify clients ask.
    fn admits(&self, name: &str, caller: Caller<'_>) -> bool {
        let _ = (name, caller);
        true
    }

    /// Waits until a secret of the client may be checked, so that secrets cannot be guessed fast. `claim`: what the secret
    /// has to prove. Followed by [`note_secret`](Self::note_secret), unless the client leaves.
    fn before_secret(&self, claim: &str) -> impl Future<Output = ()> {
        let _ = claim;
        std::future::ready(())
    }

    /// Notes whether the secret was right.
    fn note_secret(&self, is_right: bool) {
        let _ = is_right;
    }

    /// Notes that the client has chosen `disk` permanently: once it has the reply, the handshake is over.
    fn begin(&self, disk: &Arc<Self::Disk>) {
        let _ = disk;
    }
}

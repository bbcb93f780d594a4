//! The devices of a server: origins that tell their cache when they are changed, and are changed only by their owner; and caches
//! that can grow.

use super::lease::OriginLease;
use super::overlay::Overlay;
use super::owner::Owner;
use crate::origins::{Backing, OriginCounters};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::Either;
use nitro_device::{AnyDevice, FileDevice};
use nitro_mount::Tree;
use nitro_port::buf::BufMut;
use nitro_port::{Allocation, Device, DeviceError, ErrorKind, Geometry, Operation, Origin, Recipe, Urgency};
use nitro_s3::S3Disk;
use nitro_shares::Terms;
use nitro_units::Fingerprint;
use std::future::ready;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// An origin. Before it is changed, its stamp in the cache is set to *in use*.
pub enum OriginDevice {
    /// An origin that is served; it has no lease if there is no cache.
    Real(Box<ServedOrigin>),
    /// An origin of this size that ignores writes: for dirty data that are discarded.
    Nowhere(u64),
}

/// An origin that is served, and its lease.
pub struct ServedOrigin {
    device: Backing,
    lease: Option<OriginLease>,
    /// Where another host may take it over: the claim to it.
    owner: Option<Arc<Owner>>,
    /// The same origin, opened again after it has grown; the first device keeps the lock.
    grown: Chain,
}

/// A chain of devices, of which the last one is used. It is not a lock, because each request reads it.
#[derive(Default)]
struct Chain(OnceLock<Box<(Backing, Chain)>>);

impl ServedOrigin {
    fn device(&self) -> &Backing {
        let (mut device, mut chain) = (&self.device, &self.grown);
        while let Some(next) = chain.0.get() {
            (device, chain) = (&next.0, &next.1);
        }
        device
    }

    /// Whether the lease must be renewed, or the claim checked, before the origin is changed.
    fn must_wait(&self) -> bool {
        self.lease.as_ref().is_some_and(OriginLease::is_due) || self.owner.as_ref().is_some_and(|owner| owner.is_due())
    }
}

impl OriginDevice {
    pub(super) fn new(device: Backing, lease: Option<OriginLease>, owner: Option<Arc<Owner>>) -> Self {
        Self::Real(Box::new(ServedOrigin { device, lease, owner, grown: Chain::default() }))
    }

    /// From now on, requests go to `device`: the same storage, opened since it has grown.
    pub(super) fn replace(&self, device: Backing) {
        let Self::Real(origin) = self else { return };
        let mut next = Box::new((device, Chain::default()));
        let mut chain = &origin.grown;
        // Another may come first: then this one goes behind it.
        while let Err(back) = chain.0.set(next) {
            next = back;
            match chain.0.get() {
                Some(taken) => chain = &taken.1,
                None => return,
            }
        }
    }

    /// RAM that the origin takes besides the data of requests, in bytes, and its threads.
    pub(super) fn ram(&self) -> Option<(u64, u64)> {
        match self {
            Self::Real(origin) => origin.device().ram(),
            Self::Nowhere(_) => None,
        }
    }

    /// What is counted of its requests to another machine.
    pub(crate) fn counters(&self) -> OriginCounters {
        match self {
            Self::Real(origin) => origin.device().counters(),
            Self::Nowhere(_) => OriginCounters::default(),
        }
    }

    /// The volume in a bucket, if it is one.
    pub(super) fn bucket(&self) -> Option<&S3Disk> {
        match self {
            Self::Real(origin) => origin.device().bucket(),
            Self::Nowhere(_) => None,
        }
    }

    /// The lease of the origin.
    pub fn lease(&self) -> Option<&OriginLease> {
        match self {
            Self::Real(origin) => origin.lease.as_ref(),
            Self::Nowhere(_) => None,
        }
    }

    /// The tree of files, if it is one.
    pub(crate) fn tree(&self) -> Option<&Arc<Tree>> {
        match self {
            Self::Real(origin) => origin.device.tree(),
            Self::Nowhere(_) => None,
        }
    }

    /// Changes what the volume may have of its store's disk, if it is an object of a store.
    pub(crate) fn set_terms(&self, terms: Terms) {
        if let Self::Real(origin) = self {
            origin.device().set_terms(terms);
        }
    }

    /// The claim to an origin that another host may take over.
    fn owner(&self) -> Option<&Arc<Owner>> {
        match self {
            Self::Real(origin) => origin.owner.as_ref(),
            Self::Nowhere(_) => None,
        }
    }

    /// Why the origin is another server's by now, if it is and that is known.
    pub(crate) fn taken_over(&self) -> Option<Arc<str>> {
        self.owner().and_then(|owner| owner.lost())
    }

    /// Whether clients may have answers: no other host can serve the origin now.
    pub(crate) fn may_answer(&self) -> bool {
        self.owner().is_none_or(|owner| owner.may_answer())
    }

    /// Whether the origin is still this server's, by its mark.
    pub(super) async fn is_owned(&self) -> bool {
        match self.owner() {
            Some(owner) => owner.read().await.is_ok(),
            None => true,
        }
    }

    /// The device for a change, after the cache has recorded that the origin is in use, and the claim to it is checked.
    async fn to_change(&self, operation: Operation, offset: u64, len: u64) -> Result<Option<&Backing>, DeviceError> {
        let Self::Real(origin) = self else { return Ok(None) };
        if let Some(lease) = &origin.lease {
            lease.renew().await;
        }
        // Last: nothing may come between this and the change.
        if let Some(owner) = &origin.owner {
            owner.check().await.map_err(|error| DeviceError::from_io(error, operation, offset, len))?;
        }
        Ok(Some(origin.device()))
    }
}

impl Device for OriginDevice {
    fn geometry(&self) -> Geometry {
        match self {
            Self::Real(origin) => origin.device().geometry(),
            Self::Nowhere(size_bytes) => {
                Geometry { size_bytes: *size_bytes, block_bytes: 1, preferred_bytes: 4096, rotational: false }
            }
        }
    }

    fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        match self {
            Self::Real(origin) => Either::Left(origin.device().read(offset, len)),
            Self::Nowhere(_) => Either::Right(ready(Ok(BufMut::zeroed(len).freeze()))),
        }
    }

    fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        match self {
            Self::Real(origin) => Either::Left(origin.device().read_with(urgency, offset, len)),
            Self::Nowhere(_) => Either::Right(ready(Ok(BufMut::zeroed(len).freeze()))),
        }
    }

    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), DeviceError>> {
        match self {
            Self::Real(origin) if !origin.must_wait() => Either::Left(origin.device().write(offset, data)),
            Self::Real(_) | Self::Nowhere(_) => {
                let late = async move {
                    match self.to_change(Operation::Write, offset, data.len() as u64).await? {
                        Some(device) => device.write(offset, data).await,
                        None => Ok(()),
                    }
                };
                Either::Right(late.boxed_local())
            }
        }
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        match self {
            Self::Real(origin) => {
                let known = origin.owner.as_ref().map_or(Ok(()), |owner| owner.check_known());
                known.map_err(|error| DeviceError::from_io(error, Operation::Flush, 0, 0))?;
                // Boxed: the future of a write contains one of a flush.
                Box::pin(origin.device().flush()).await
            }
            Self::Nowhere(_) => Ok(()),
        }
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        match self.to_change(Operation::Discard, offset, len).await? {
            Some(device) => device.discard(offset, len).await,
            None => Ok(()),
        }
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        match self.to_change(Operation::WriteZeroes, offset, len).await? {
            Some(device) => device.write_zeroes(offset, len, may_unmap).await,
            None => Ok(()),
        }
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        match self {
            Self::Real(origin) => origin.device().allocation(offset, len).await,
            Self::Nowhere(_) => Ok(vec![Allocation { len, hole: true }]),
        }
    }
}

impl Origin for OriginDevice {
    fn keeps_writes(&self) -> bool {
        match self {
            Self::Real(origin) => origin.device().keeps_writes(),
            Self::Nowhere(_) => true,
        }
    }

    fn unit_bytes(&self) -> Option<u32> {
        match self {
            Self::Real(origin) => origin.device().unit_bytes(),
            Self::Nowhere(_) => None,
        }
    }

    fn recipe_extent_bytes(&self) -> Option<u32> {
        match self {
            Self::Real(origin) => origin.device().recipe_extent_bytes(),
            Self::Nowhere(_) => None,
        }
    }

    async fn recipe(&self, offset: u64, len: u64) -> Result<Recipe, DeviceError> {
        match self {
            Self::Real(origin) => origin.device().recipe(offset, len).await,
            Self::Nowhere(_) => Err(DeviceError::new(ErrorKind::Unsupported, Operation::Read, offset, len)),
        }
    }

    async fn write_known(&self, offset: u64, data: Bytes, known: &[Option<Fingerprint>]) -> Result<(), DeviceError> {
        match self.to_change(Operation::Write, offset, data.len() as u64).await? {
            Some(device) => device.write_known(offset, data, known).await,
            None => Ok(()),
        }
    }

    fn reads_parts(&self) -> bool {
        match self {
            Self::Real(origin) => origin.device().reads_parts(),
            Self::Nowhere(_) => false,
        }
    }

    async fn read_parts(&self, urgency: Urgency, parts: &[Range<u64>]) -> Result<Vec<Bytes>, DeviceError> {
        match self {
            Self::Real(origin) => origin.device().read_parts(urgency, parts).await,
            Self::Nowhere(_) => {
                Ok(parts.iter().map(|part| BufMut::zeroed((part.end - part.start) as usize).freeze()).collect())
            }
        }
    }
}

/// A cache's device.
pub enum CacheDevice {
    /// In use.
    Real(Box<Grown>),
    /// Looked at.
    Looked(Box<Overlay>),
}

/// A device that can grow. An open device keeps the size that it had when it was opened. A device that has grown is
/// opened again in addition to the first one, which keeps the lock. It is not a lock, because each request reads it.
pub struct Grown {
    device: AnyDevice,
    next: OnceLock<Box<Grown>>,
}

impl Grown {
    fn last(&self) -> &Self {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }
}

macro_rules! each {
    ($any:expr, $device:ident => $real:expr, $overlay:ident => $looked:expr) => {
        match $any {
            CacheDevice::Real(grown) => {
                let $device = &grown.last().device;
                $real
            }
            CacheDevice::Looked($overlay) => $looked,
        }
    };
}

impl CacheDevice {
    /// A device whose writes stay in RAM and do not change the file.
    pub(super) fn looked_at(device: FileDevice) -> Self {
        Self::Looked(Box::new(Overlay::new(device)))
    }

    /// The open file or block device; `None`: it is RAM, or looked at.
    pub(super) fn file(&self) -> Option<&FileDevice> {
        match self {
            Self::Real(grown) => grown.last().device.file(),
            Self::Looked(_) => None,
        }
    }

    /// From now on, requests go to `device`: the same storage, opened since it has grown.
    pub(super) fn replace(&self, device: AnyDevice) {
        let Self::Real(grown) = self else { return };
        let mut next = Box::new(Grown { device, next: OnceLock::new() });
        // Another may come first: then this one goes behind it.
        while let Err(back) = grown.last().next.set(next) {
            next = back;
        }
    }
}

impl From<AnyDevice> for CacheDevice {
    fn from(device: AnyDevice) -> Self {
        Self::Real(Box::new(Grown { device, next: OnceLock::new() }))
    }
}

impl Device for CacheDevice {
    fn geometry(&self) -> Geometry {
        each!(self, d => d.geometry(), o => o.geometry())
    }

    // No `async`, and what is rare boxed: each request has such a future.
    fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        each!(self, d => Either::Left(d.read(offset, len)), o => Either::Right(o.read(offset, len).boxed_local()))
    }

    fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        each!(
            self,
            d => Either::Left(d.read_with(urgency, offset, len)),
            o => Either::Right(o.read(offset, len).boxed_local())
        )
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        each!(self, d => d.write(offset, data).await, o => o.write(offset, &data))
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        each!(self, d => d.flush().await, _o => Ok(()))
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        each!(self, d => d.discard(offset, len).await, _o => Ok(()))
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        let unsupported = DeviceError::new(ErrorKind::Unsupported, Operation::WriteZeroes, offset, len);
        each!(self, d => d.write_zeroes(offset, len, may_unmap).await, _o => Err(unsupported))
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        each!(self, d => d.allocation(offset, len).await, _o => Ok(vec![Allocation { len, hole: false }]))
    }
}

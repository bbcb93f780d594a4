//! The devices behind origins.

use super::TreeDevice;
use crate::cos::StoreDevice;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::Either;
use nitro_device::AnyDevice;
use nitro_device::rbd::RbdDevice;
use nitro_mount::Tree;
use nitro_nbd::client::{NbdCounters, RemoteDisk};
use nitro_port::{Allocation, Device, DeviceError, Geometry, Origin, Recipe, Urgency};
use nitro_s3::{Bill, S3Counters, S3Disk};
use nitro_shares::Terms;
use nitro_units::Fingerprint;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Threads of librados and librbd for one image (Ceph 16.2), and the image's own.
const CEPH_THREADS: u64 = 24;

/// Counters of an origin on another machine, since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OriginCounters {
    /// Of the connections to an NBD server; `None`: it is no export of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbd: Option<NbdCounters>,
    /// Of the requests to an S3 server; `None`: it is in no bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Counters>,
    /// What these requests cost at AWS's prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_bill: Option<Bill>,
}

/// The device behind an origin.
pub enum Backing {
    /// A file or a block device.
    Device(Box<AnyDevice>),
    /// An object of a store.
    Object(nitro_cos::Volume<StoreDevice>),
    /// An export of an NBD server.
    Remote(Box<RemoteDisk>),
    /// An image of a Ceph cluster.
    Image(Box<RbdDevice>),
    /// The files of a directory tree.
    Tree(Box<TreeDevice>),
    /// A volume in a bucket.
    Bucket(Box<S3Disk>),
}

impl Backing {
    /// The tree, if it is one.
    pub(crate) fn tree(&self) -> Option<&Arc<Tree>> {
        match self {
            Self::Tree(device) => Some(device.tree()),
            Self::Device(_) | Self::Object(_) | Self::Remote(_) | Self::Image(_) | Self::Bucket(_) => None,
        }
    }

    /// RAM that it takes besides the data of requests, in bytes, and its threads.
    pub(crate) fn ram(&self) -> Option<(u64, u64)> {
        match self {
            // A store counts its own.
            Self::Device(_) | Self::Object(_) => None,
            Self::Remote(disk) => Some((disk.ram_bytes(), 1)),
            Self::Image(image) => Some((image.ram_bytes(), CEPH_THREADS)),
            Self::Tree(_) => Some(TreeDevice::ram()),
            Self::Bucket(disk) => Some((disk.ram_bytes(), 1)),
        }
    }
}

macro_rules! backing {
    ($any:expr, $device:ident => $call:expr) => {
        match $any {
            Backing::Device($device) => $call,
            Backing::Object($device) => $call,
            Backing::Remote($device) => $call,
            Backing::Image($device) => $call,
            Backing::Tree($device) => $call,
            Backing::Bucket($device) => $call,
        }
    };
}

impl Backing {
    /// What is counted of its requests to another machine.
    pub(crate) fn counters(&self) -> OriginCounters {
        let none = OriginCounters::default();
        match self {
            Self::Remote(disk) => OriginCounters { nbd: Some(disk.counters()), ..none },
            Self::Bucket(disk) => OriginCounters { s3: Some(disk.counters()), s3_bill: Some(disk.bill()), ..none },
            Self::Device(_) | Self::Object(_) | Self::Image(_) | Self::Tree(_) => none,
        }
    }

    /// The volume in a bucket, if it is one.
    pub(crate) fn bucket(&self) -> Option<&S3Disk> {
        match self {
            Self::Bucket(disk) => Some(disk),
            Self::Device(_) | Self::Object(_) | Self::Remote(_) | Self::Image(_) | Self::Tree(_) => None,
        }
    }

    /// Changes what the volume may have of its store's disk, if it is an object of a store.
    pub(crate) fn set_terms(&self, terms: Terms) {
        if let Self::Object(object) = self {
            object.store().device().set_terms(object.identity().1, terms);
        }
    }
}

impl Device for Backing {
    fn geometry(&self) -> Geometry {
        backing!(self, d => d.geometry())
    }

    // No `async`, and the requests of stores and servers boxed: each miss and each write has such a future.
    fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        match self {
            Self::Device(device) => Either::Left(device.read(offset, len)),
            Self::Object(object) => Either::Right(object.read(offset, len).boxed_local()),
            Self::Remote(disk) => Either::Right(disk.read(offset, len).boxed_local()),
            Self::Image(image) => Either::Right(image.read(offset, len).boxed_local()),
            Self::Tree(tree) => Either::Right(tree.read(offset, len).boxed_local()),
            Self::Bucket(disk) => Either::Right(disk.read(offset, len).boxed_local()),
        }
    }

    fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        match self {
            Self::Device(device) => Either::Left(device.read_with(urgency, offset, len)),
            Self::Object(object) => Either::Right(object.read(offset, len).boxed_local()),
            Self::Remote(disk) => Either::Right(disk.read(offset, len).boxed_local()),
            Self::Image(image) => Either::Right(image.read(offset, len).boxed_local()),
            Self::Tree(tree) => Either::Right(tree.read(offset, len).boxed_local()),
            Self::Bucket(disk) => Either::Right(disk.read(offset, len).boxed_local()),
        }
    }

    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), DeviceError>> {
        match self {
            Self::Device(device) => Either::Left(device.write(offset, data)),
            Self::Object(object) => Either::Right(object.write(offset, data).boxed_local()),
            Self::Remote(disk) => Either::Right(disk.write(offset, data).boxed_local()),
            Self::Image(image) => Either::Right(image.write(offset, data).boxed_local()),
            Self::Tree(tree) => Either::Right(tree.write(offset, data).boxed_local()),
            Self::Bucket(disk) => Either::Right(disk.write(offset, data).boxed_local()),
        }
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        backing!(self, d => d.flush().await)
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        backing!(self, d => d.discard(offset, len).await)
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        backing!(self, d => d.write_zeroes(offset, len, may_unmap).await)
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        backing!(self, d => d.allocation(offset, len).await)
    }
}

impl Origin for Backing {
    fn keeps_writes(&self) -> bool {
        backing!(self, d => d.keeps_writes())
    }

    fn unit_bytes(&self) -> Option<u32> {
        backing!(self, d => d.unit_bytes())
    }

    fn recipe_extent_bytes(&self) -> Option<u32> {
        backing!(self, d => d.recipe_extent_bytes())
    }

    async fn recipe(&self, offset: u64, len: u64) -> Result<Recipe, DeviceError> {
        backing!(self, d => d.recipe(offset, len).await)
    }

    async fn write_known(&self, offset: u64, data: Bytes, known: &[Option<Fingerprint>]) -> Result<(), DeviceError> {
        match self {
            Self::Device(device) => device.write_known(offset, data, known).await,
            Self::Object(object) => Box::pin(object.write_known(offset, data, known)).await,
            Self::Remote(disk) => disk.write_known(offset, data, known).await,
            Self::Image(image) => image.write_known(offset, data, known).await,
            Self::Tree(tree) => Box::pin(tree.write_known(offset, data, known)).await,
            Self::Bucket(disk) => disk.write_known(offset, data, known).await,
        }
    }

    fn reads_parts(&self) -> bool {
        backing!(self, d => d.reads_parts())
    }

    async fn read_parts(&self, urgency: Urgency, parts: &[Range<u64>]) -> Result<Vec<Bytes>, DeviceError> {
        backing!(self, d => d.read_parts(urgency, parts).await)
    }
}

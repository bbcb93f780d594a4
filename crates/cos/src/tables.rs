//! What a store finds its contents by, in the sizes that it has at present: replaced as a whole when the store grows.

use crate::format::superblock::Superblock;
use crate::place::Place;
use crate::plan::{Layout, index_plan};
use crate::ssd::{IndexDevice, SsdSlot};
use crate::summary::Summary;
use crate::{Error, Store};
use nitro_index::FlashIndex;
use nitro_index::silt::{Rates, Silt};
use nitro_port::slice::SliceDevice;
use nitro_port::{Device, Work};
use nitro_units::Fingerprint;
use parking_lot::RwLock;
use std::pin::pin;
use std::sync::Arc;

/// A store's layout, its fingerprint index and its summary vector.
pub(crate) struct Tables<D> {
    pub(crate) layout: Layout,
    pub(crate) index: Silt<IndexDevice<D>>,
    pub(crate) summary: Summary,
}

/// The tables in force, and those that will take their place: whatever is entered is entered in both.
pub(crate) struct TablesSlot<D> {
    superblock: RwLock<Superblock>,
    now: RwLock<Arc<Tables<D>>>,
    next: RwLock<Option<Arc<Tables<D>>>>,
}

impl<D: Device> Tables<D> {
    /// Enters the place of a content.
    pub(crate) async fn enter(&self, fingerprint: &Fingerprint, place: Place) -> Result<(), Error> {
        self.summary.insert(fingerprint);
        // Inserts wait for one another while the index converts its logs.
        let place = place.pack().to_le_bytes();
        Ok(Work::pressing(pin!(self.index.insert(&fingerprint.0, &place))).await?)
    }
}

impl<D> TablesSlot<D> {
    pub(crate) fn new(tables: Tables<D>, superblock: Superblock) -> Self {
        Self { superblock: RwLock::new(superblock), now: RwLock::new(Arc::new(tables)), next: RwLock::new(None) }
    }

    /// The superblock as it is on the device.
    pub(crate) fn superblock(&self) -> Superblock {
        *self.superblock.read()
    }

    pub(crate) fn set_superblock(&self, superblock: Superblock) {
        *self.superblock.write() = superblock;
    }

    pub(crate) fn next(&self) -> Option<Arc<Tables<D>>> {
        self.next.read().clone()
    }

    /// Sets what will be the tables, or that the present ones stay.
    pub(crate) fn prepare(&self, next: Option<Arc<Tables<D>>>) {
        *self.next.write() = next;
    }

    /// Whether these will be the tables.
    pub(crate) fn is_next(&self, tables: &Arc<Tables<D>>) -> bool {
        self.next.read().as_ref().is_some_and(|next| Arc::ptr_eq(next, tables))
    }

    /// Replaces the tables. Returns the old ones.
    pub(crate) fn replace(&self, tables: Arc<Tables<D>>, superblock: Superblock) -> Arc<Tables<D>> {
        self.set_superblock(superblock);
        // Whatever is entered meanwhile is entered in these.
        let old = std::mem::replace(&mut *self.now.write(), tables);
        *self.next.write() = None;
        old
    }
}

impl<D: Device> Store<D> {
    /// The tables in force.
    pub(crate) fn tables(&self) -> Arc<Tables<D>> {
        Arc::clone(&self.tables.now.read())
    }
}

/// The device of the index in its place, whose pages are cached on the SSD.
fn device<D: Device>(
    device: &Arc<D>,
    (superblock, layout): (&Superblock, &Layout),
    ssd: &Arc<SsdSlot>,
) -> Result<IndexDevice<D>, Error> {
    let slice = SliceDevice::new(Arc::clone(device), layout.index_at, superblock.index_bytes)?;
    Ok(IndexDevice::new(slice, layout.index_at, Arc::clone(ssd)))
}

/// Opens the index of a store.
pub(crate) async fn open_index<D: Device>(
    on: &Arc<D>,
    sizes: (&Superblock, &Layout),
    ssd: &Arc<SsdSlot>,
) -> Result<Silt<IndexDevice<D>>, nitro_index::Error> {
    match device(on, sizes, ssd) {
        Ok(device) => Silt::open(device, Rates::default()).await,
        Err(error) => Err(nitro_index::Error::Damaged(error.to_string())),
    }
}

/// Makes an empty index. No page of another index at that place must have the same seed: `number` is one that no other has had.
pub(crate) async fn create_index<D: Device>(
    on: &Arc<D>,
    sizes: (&Superblock, &Layout),
    ssd: &Arc<SsdSlot>,
    number: u64,
) -> Result<Silt<IndexDevice<D>>, Error> {
    let seed = sizes.0.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let index = Silt::create(device(on, sizes, ssd)?, index_plan(sizes.0)?, Rates::default(), seed).await?;
    index.sync().await?;
    Ok(index)
}

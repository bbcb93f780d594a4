//! The store as the paper's was, and our own, each on a copy of the same aged store.

use super::disk::{Hdd, Placement, StorePart};
use super::failed;
use super::index::{TwoLevels, Used, spread_pages, table_bytes};
use super::noted::{Noted, Request};
use crate::store::Scale;
use crate::store::bed::{Bed, CHUNK_BYTES, Disk, Flash, bytes_of, flash, snapshot_name};
use nitro_console::error::Error;
use nitro_cos::{Part, Settings, SsdOptions, SsdSource, Stats, Store, StoreOptions, Volume};
use nitro_device::hdd::HddModel;
use nitro_device::{HddDevice, RamDevice};
use nitro_port::Device;
use nitro_port::buf::is_zero;
use nitro_port::codec::Compression;
use nitro_port::slice::SliceDevice;
use nitro_shares::{Policy, SharedDevice};
use nitro_testkit::VirtualTime;
use std::sync::Arc;

/// The store's part of the disks, whose time may be shared.
pub(super) type Shared = SharedDevice<StorePart, VirtualTime>;
pub(super) type TestStore = Store<Shared>;
pub(super) type Object = Volume<Shared>;

/// Disks with data of the smallest unit in which the paper's systems are extended: a pack of 15 dense disks, of which one
/// is a spare and two are for parity.
pub(super) const SPINDLES: u32 = 12;
const STRIPE_BYTES: u64 = 256 << 10;
/// Bytes that are copied together.
const COPY_BYTES: u64 = 64 << 10;
/// Bytes that the store without detection of patterns reads after each read: a region of the store.
const SIMPLE_PREFETCH_BYTES: u32 = 64 << 10;

/// The store for random access. Its containers are small, so that even a small volume is in hundreds of them, and RAM has as
/// little of it as of a large one. The compression is fast, as the default of the paper's systems is.
pub(super) const RANDOM: StoreOptions = StoreOptions {
    size_bytes: 0,
    chunk_bytes: CHUNK_BYTES as u32,
    region_bytes: 32 << 10,
    container_bytes: 128 << 10,
    compression: Compression::Lz4,
    journal_bytes: None,
};
/// The store for restores.
pub(super) const SEQUENTIAL: StoreOptions = StoreOptions { region_bytes: 64 << 10, container_bytes: 1 << 20, ..RANDOM };

/// What a request of the disk is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Recipe,
    IndexLevel1,
    IndexLevel2,
    OwnIndex,
    Metadata,
    Data,
    Other,
}

impl Kind {
    pub(super) const ALL: [Self; 7] =
        [Self::Recipe, Self::IndexLevel1, Self::IndexLevel2, Self::OwnIndex, Self::Metadata, Self::Data, Self::Other];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Recipe => "recipe (FMD)",
            Self::IndexLevel1 => "index, level 1",
            Self::IndexLevel2 => "index, level 2",
            Self::OwnIndex => "index (SILT)",
            Self::Metadata => "container's metadata",
            Self::Data => "data",
            Self::Other => "other",
        }
    }

    pub(super) const fn is_index(self) -> bool {
        matches!(self, Self::IndexLevel1 | Self::IndexLevel2 | Self::OwnIndex)
    }
}

/// Numbers of requests by [kind](Kind::ALL).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Requests(pub(super) [u64; Kind::ALL.len()]);

impl Requests {
    pub(super) fn of(kinds: &[Kind]) -> Self {
        let count = |kind: Kind| kinds.iter().filter(|other| **other == kind).count() as u64;
        Self(Kind::ALL.map(count))
    }

    pub(super) fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) fn index(&self) -> u64 {
        Kind::ALL.iter().zip(self.0).filter(|(kind, _)| kind.is_index()).map(|(_, count)| count).sum()
    }

    /// The share of requests that are for the index.
    pub(super) fn index_share(&self) -> f64 {
        self.index() as f64 / self.all().max(1) as f64
    }
}

/// Chunks by which an image is shifted against the one before it, so that no two have the same recipe blocks.
const SHIFT_CHUNKS: usize = 37;
/// The object that has all images.
const NAME: &str = "images";
/// Bytes of a write.
const WRITE_BYTES: usize = 1 << 20;

/// An aged store that was closed.
pub(super) struct Image {
    disk: Arc<Disk>,
    /// The contents of each generation.
    pub(super) generations: Vec<Vec<u64>>,
    /// The number of images that are accessed at random.
    pub(super) images: usize,
    /// The contents of all images, by chunk.
    pub(super) contents: Vec<u64>,
    pub(super) stats: Stats,
    /// Bytes from the beginning of the store to the end of its last container.
    used_bytes: u64,
    clock: VirtualTime,
}

impl Image {
    /// A store with generations, and with images of the last one.
    pub(super) async fn new(scale: Scale, images: usize, clock: VirtualTime) -> Result<Self, Error> {
        let mut bed = Bed::new(scale, clock.clone()).await?;
        bed.age(scale.generations).await?;
        let (disk, generations) = bed.close().await?;
        let store = Arc::new(Store::open(Arc::clone(&disk), Settings::default()).await.map_err(|e| failed(&e))?);
        let mut contents = Vec::new();
        for image in 0..images {
            let mut shifted = generations.last().cloned().unwrap_or_default();
            let by = image * SHIFT_CHUNKS % shifted.len().max(1);
            shifted.rotate_left(by);
            contents.extend(shifted);
        }
        if images > 0 {
            let bytes = contents.len() as u64 * CHUNK_BYTES;
            store.create_volume(NAME, bytes, Some(CHUNK_BYTES as u32), 0).await.map_err(|e| failed(&e))?;
            let volume = store.open_volume(NAME).await.map_err(|e| failed(&e))?;
            for (number, some) in (0..).zip(contents.chunks(WRITE_BYTES / CHUNK_BYTES as usize)) {
                volume.write_range(number * WRITE_BYTES as u64, bytes_of(some)).await.map_err(|e| failed(&e))?;
            }
        }
        store.close().await.map_err(|e| failed(&e))?;
        let stats = store.stats();
        let mut used_bytes = disk.geometry().size_bytes;
        while used_bytes > COPY_BYTES {
            let read = disk.inner().read(used_bytes - COPY_BYTES, COPY_BYTES as usize).await.map_err(|e| failed(&e))?;
            if !is_zero(&read) {
                break;
            }
            used_bytes -= COPY_BYTES;
        }
        Ok(Self { disk, generations, images, contents, stats, used_bytes, clock })
    }

    /// Bytes of a generation.
    pub(super) fn volume_bytes(&self) -> u64 {
        self.generations.last().map_or(0, Vec::len) as u64 * CHUNK_BYTES
    }

    /// An SSD whose share for data holds the data of all images, as the paper's was "sufficient to instantly access" images.
    pub(super) fn ssd_bytes(&self) -> u64 {
        self.volume_bytes() * 100 / u64::from(SsdOptions::default().data_percent)
    }

    /// A copy on the disks of the paper's system.
    async fn copy(&self) -> Result<StorePart, Error> {
        let size = self.disk.geometry().size_bytes;
        let placement = Placement::new(size, self.used_bytes, spread_pages(self.stats.chunks));
        let span = placement.used_bytes() / u64::from(SPINDLES);
        let model = HddModel::rpm_7200().with_spindles(SPINDLES, STRIPE_BYTES).with_span(span);
        let ram = Noted::new(RamDevice::new(placement.disk_bytes(), 4096));
        let disk = Arc::new(HddDevice::new(ram, self.clock.clone(), model));
        let copy = StorePart { disk, placement };
        for at in (0..size).step_by(COPY_BYTES as usize) {
            let len = COPY_BYTES.min(size - at);
            let bytes = self.disk.inner().read(at, len as usize).await.map_err(|e| failed(&e))?;
            if !is_zero(&bytes) {
                copy.write(at, bytes).await.map_err(|e| failed(&e))?;
            }
        }
        Ok(copy)
    }
}

/// How a store is built and read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Design {
    pub(super) settings: Settings,
    /// Whether the two-level index of the paper is used, and whether the SSD has its short fingerprints.
    pub(super) two_levels: bool,
    pub(super) short: bool,
    /// The SSD of the store.
    pub(super) ssd: Option<SsdOptions>,
    pub(super) ssd_bytes: u64,
    /// The shares of the disks' time; `None`: requests are served as they come.
    pub(super) shares: Option<Policy>,
}

/// Settings with hardly any RAM, so that RAM answers as little as it would at full size: two regions, a root and one
/// more block of a recipe, and the fingerprints of one container.
fn hardly_any_ram() -> Settings {
    Settings {
        region_cache_bytes: 2 * u64::from(RANDOM.region_bytes),
        recipe_cache_bytes: 48 << 10,
        locality_containers: 1,
        readahead_bytes: 0,
        ..Settings::default()
    }
}

impl Design {
    /// The paper's store before its changes, without an SSD.
    pub(super) fn paper() -> Self {
        let settings = Settings {
            places: false,
            nsio_metadata: true,
            nsio_parallel: false,
            nsio_prefetch_bytes: SIMPLE_PREFETCH_BYTES,
            delayed_recipes: false,
            ..hardly_any_ram()
        };
        Self { settings, two_levels: true, short: false, ssd: None, ssd_bytes: 0, shares: None }
    }

    /// Our own store, without an SSD.
    pub(super) fn own() -> Self {
        let settings = hardly_any_ram();
        Self { settings, two_levels: false, short: false, ssd: None, ssd_bytes: 0, shares: None }
    }

    /// The same with an SSD.
    pub(super) fn with_ssd(self, ssd: SsdOptions, ssd_bytes: u64) -> Self {
        Self { ssd: Some(ssd), ssd_bytes, ..self }
    }
}

/// A store that was opened.
pub(super) struct System {
    pub(super) store: Arc<TestStore>,
    pub(super) disk: Arc<Hdd>,
    pub(super) clock: VirtualTime,
    index: Option<Arc<TwoLevels<Hdd, Flash>>>,
    flash: Option<Arc<Flash>>,
}

impl System {
    pub(super) async fn open(image: &Image, design: &Design) -> Result<Self, Error> {
        let clock = image.clock.clone();
        let part = image.copy().await?;
        let (disk, placement) = (Arc::clone(&part.disk), part.placement);
        let unit = u64::from(SsdOptions::default().unit_bytes);
        let table = if design.short { table_bytes(image.stats.chunks).next_multiple_of(unit) } else { 0 };
        let of_store = if design.ssd.is_some() { design.ssd_bytes.next_multiple_of(unit) } else { 0 };
        let flash = match table + of_store {
            0 => None,
            bytes => Some(Arc::new(flash(bytes, &clock)?)),
        };
        let source = match (design.ssd, &flash) {
            (Some(options), Some(flash)) => {
                let part = SliceDevice::new(Arc::clone(flash), table, of_store).map_err(|e| failed(&e))?;
                Some(SsdSource::new(part, options))
            }
            _ => None,
        };
        let shared = Arc::new(SharedDevice::new(part, clock.clone(), design.shares));
        let store = Store::open_with_ssd(shared, design.settings, source).await.map_err(|e| failed(&e))?;
        let index = if design.two_levels {
            let ssd = flash.clone().filter(|_| design.short);
            let index = Arc::new(TwoLevels::new(Arc::clone(&disk), placement, ssd));
            store.use_index(Box::new(Used(Arc::clone(&index)))).await.map_err(|e| failed(&e))?;
            index.settle().await.map_err(|e| failed(&e))?;
            Some(index)
        } else {
            None
        };
        let system = Self { store: Arc::new(store), disk, clock, index, flash };
        system.disk.inner().take();
        Ok(system)
    }

    /// All images.
    pub(super) async fn volume(&self) -> Result<Object, Error> {
        self.store.open_volume(NAME).await.map_err(|e| failed(&e))
    }

    pub(super) async fn snapshot(&self, generation: usize) -> Result<Object, Error> {
        self.store.open_volume(&snapshot_name(generation)).await.map_err(|e| failed(&e))
    }

    /// The kinds of the reads of the disk since the last call, in order.
    pub(super) fn take(&self) -> Vec<Kind> {
        self.disk.inner().take().iter().map(|request| self.kind(request)).collect()
    }

    fn kind(&self, request: &Request) -> Kind {
        let part = Placement::store_offset(request.offset).map(|offset| self.store.part_at(offset));
        match (part, &self.index) {
            (None, Some(index)) if index.level(request.offset) == 1 => Kind::IndexLevel1,
            (None, Some(_)) => Kind::IndexLevel2,
            (Some(Part::Index), _) => Kind::OwnIndex,
            (Some(Part::Metadata), _) => Kind::Metadata,
            (Some(Part::Recipe), _) => Kind::Recipe,
            (Some(Part::Data), _) => Kind::Data,
            _ => Kind::Other,
        }
    }

    /// The number of reads of the table of short fingerprints.
    pub(super) fn table_reads(&self) -> u64 {
        self.index.as_ref().map_or(0, |index| index.table_reads())
    }

    /// Pages that the SSD has read for requests.
    pub(super) fn ssd_pages_read(&self) -> u64 {
        self.flash.as_ref().map_or(0, |flash| flash.counters().host_reads)
    }
}

/// Checks that bytes from the beginning of a chunk on are those of contents.
pub(super) fn check(read: &[u8], contents: &[u64]) -> Result<(), Error> {
    let expected = bytes_of(contents);
    let len = read.len().min(expected.len());
    if read[..len] != expected[..len] {
        return Err(wrong());
    }
    Ok(())
}

/// The error of a read that is not what was written.
pub(super) fn wrong() -> Error {
    Error::new("reproduce data-domain", "a chunk is not what was written").or("please report it")
}

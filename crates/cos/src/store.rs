//! Creating and opening a store.

use crate::Error;
use crate::access::Patterns;
use crate::ahead::Ahead;
use crate::chunks::Region;
use crate::counters::{Counters, Counting};
use crate::directory::Directory;
use crate::format::node::Node;
use crate::format::record::Record;
use crate::format::superblock::Superblock;
use crate::journal::{self, Journal};
use crate::known::State;
use crate::lane::{LANES, Lane, Open};
use crate::ledger::{Bounds, Ledger};
use crate::locality::Locality;
use crate::namespace::Objects;
use crate::placing::ContentIndex;
use crate::plan::{Layout, Plan, region_bytes_max};
use crate::reads::Reads;
use crate::recover;
use crate::room::Room;
use crate::slots::Slots;
use crate::ssd::{self, IndexDevice, Session, Ssd, SsdSlot, SsdSource};
use crate::summary::Summary;
use crate::tables::{Tables, TablesSlot, create_index, open_index};
use crate::tree::NodeKey;
use crate::unfinished::Unfinished;
use futures_util::lock::Mutex as AsyncMutex;
use hashbrown::HashMap;
use lru::LruCache;
use nitro_index::silt::Silt;
use nitro_port::Device;
use nitro_port::range_lock::RangeLock;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Settings of an open store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The number of containers whose fingerprints are kept in RAM; about 50 KiB each.
    pub locality_containers: usize,
    /// RAM in bytes for decompressed regions.
    pub region_cache_bytes: u64,
    /// RAM in bytes for recipe blocks.
    pub recipe_cache_bytes: u64,
    /// The maximum number of bytes that are read ahead of a sequential reader, if the device is rotational; 0: nothing.
    /// Readers share half of [`region_cache_bytes`](Self::region_cache_bytes) for it.
    pub readahead_bytes: u64,
    /// Whether duplicates are accepted only after their bytes were compared.
    pub compare_duplicates: bool,
    /// Whether access patterns are tracked by pattern region; otherwise small requests count as random, and larger ones
    /// as sequential.
    pub patterns: bool,
    /// Whether small random writes look for duplicates in the index and on the disk; RAM is always searched. If this is
    /// off, duplicates may be stored again. The collector then keeps one of them when it empties a container.
    pub nsio_dedup: bool,
    /// Whether a duplicate that is found for a small random write loads the fingerprints of its whole container;
    /// otherwise, only the region that should contain it is read.
    pub nsio_metadata: bool,
    /// Whether an [`AutoCollector`](crate::AutoCollector) may begin collections.
    pub auto_collect: bool,
    /// Whether the places in recipes are used. If this is off, each recipe block and each chunk is looked up by its
    /// fingerprint before it is read, as in Data Domain's file system (Zhu et al. 2008, Allu et al. 2018): in RAM, then
    /// in the index, then in the container's metadata. To measure what places save.
    pub places: bool,
    /// Whether the chunks of a small random access are looked up concurrently; otherwise, one after the other.
    pub nsio_parallel: bool,
    /// Bytes that are read after each small random read into RAM, as a store does that does not detect patterns; 0:
    /// nothing. To measure what the detection of patterns saves.
    pub nsio_prefetch_bytes: u32,
    /// Whether changes stay in RAM and the journal before the recipe is updated; otherwise, each write updates the
    /// recipe. To measure what the delay saves.
    pub delayed_recipes: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            locality_containers: 512,
            region_cache_bytes: 16 << 20,
            recipe_cache_bytes: 16 << 20,
            readahead_bytes: 8 << 20,
            compare_duplicates: false,
            patterns: true,
            nsio_dedup: true,
            nsio_metadata: false,
            auto_collect: true,
            places: true,
            nsio_parallel: true,
            nsio_prefetch_bytes: 0,
            delayed_recipes: true,
        }
    }
}

/// The sequence numbers of the containers up to which the index and the summary vector on the device are complete.
#[derive(Debug, Default)]
pub(crate) struct Upto {
    indexed: AtomicU64,
    summarised: AtomicU64,
}

impl Upto {
    pub(crate) fn indexed(&self) -> u64 {
        self.indexed.load(Relaxed)
    }

    pub(crate) fn summarised(&self) -> u64 {
        self.summarised.load(Relaxed)
    }

    pub(crate) fn set_indexed(&self, sequence: u64) {
        self.indexed.store(sequence, Relaxed);
    }

    pub(crate) fn set_summarised(&self, sequence: u64) {
        self.summarised.store(sequence, Relaxed);
    }
}

/// The pages of the directory may take this part of the RAM for recipe blocks, in addition to it.
const DIRECTORY_SHARE: u64 = 8;

/// Regions in RAM, by slot, container and first sector.
type Regions = LruCache<(u32, u64, u16), Arc<Region>>;

/// A store on a device.
///
/// Several threads may use it concurrently. It must not be open twice: the code that opens the device ensures that.
pub struct Store<D> {
    pub(crate) device: Arc<D>,
    /// As the store was opened: what does not change when it grows. [`TablesSlot::superblock`] is as it is now.
    pub(crate) superblock: Superblock,
    /// Where slot 0 begins.
    pub(crate) containers_at: u64,
    pub(crate) tables: TablesSlot<D>,
    /// Locked while the superblock changes.
    pub(crate) resizing: AsyncMutex<()>,
    pub(crate) settings: Settings,
    pub(crate) state: Mutex<State>,
    /// Open containers, by slot.
    pub(crate) opened: Mutex<HashMap<u32, Arc<Open>>>,
    pub(crate) lanes: Box<[AsyncMutex<Lane>]>,
    /// An index that is asked instead, if one was given.
    pub(crate) other_index: OnceLock<Box<dyn ContentIndex>>,
    pub(crate) ssd: Arc<SsdSlot>,
    pub(crate) patterns: Patterns,
    pub(crate) ahead: Ahead,
    pub(crate) reads: Reads,
    pub(crate) objects: Mutex<Objects>,
    pub(crate) directory: Directory,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) journal: AsyncMutex<Journal>,
    pub(crate) regions: Mutex<Regions>,
    pub(crate) nodes: Mutex<LruCache<NodeKey, Arc<Node>>>,
    pub(crate) upto: Upto,
    pub(crate) counters: Counting,
    /// Locked by a collection, and while the store grows.
    pub(crate) collecting: AsyncMutex<()>,
    pub(crate) room: Arc<Room>,
    /// Held in shared mode between finding or storing chunks and adding the references to them.
    pub(crate) mutating: RangeLock,
    pub(crate) unfinished: Unfinished,
    poisoned: OnceLock<String>,
}

fn entries(bytes: u64, each: u64) -> NonZeroUsize {
    NonZeroUsize::new((bytes / each.max(1)) as usize).unwrap_or(NonZeroUsize::MIN)
}

/// What a store consists of when it was created or opened.
struct StoreParts<D: Device> {
    superblock: Superblock,
    tables: Tables<D>,
    slots: Slots,
    objects: Objects,
    ssd: Arc<SsdSlot>,
    journal: Journal,
}

impl<D: Device> Store<D> {
    /// Creates a store on `device`. The previous content of the device is lost.
    ///
    /// # Errors
    /// [`Error::Setting`] if the device is too small for `plan`, [`Error::NoRoom`] if it has no storage for the
    /// minimum, or an error of the device.
    pub async fn create(device: Arc<D>, plan: &Plan, settings: Settings) -> Result<Self, Error> {
        let superblock = plan.superblock;
        let layout = check_size(&*device, &superblock)?;
        let ssd = Arc::new(SsdSlot::default());
        let index = create_index(&device, (&superblock, &layout), &ssd, 0).await?;
        let mut journal = Journal::new(layout.journals_at, superblock.journal_bytes, superblock.seed, 0);
        // An older store's journal does not count as a newer epoch of this one, because its seed differs.
        journal.checkpoint(&*device, &[]).await?;
        let summary = Summary::new(superblock.summary_bytes);
        summary.write(&*device, layout.summary_at, superblock.seed).await?;
        device.flush().await?;
        superblock.write(&*device).await?;
        let slots = Slots::new(&superblock);
        let objects = Objects::new(Arc::new(Ledger::new(Bounds::of(&superblock))));
        let tables = Tables { layout, index, summary };
        let parts = StoreParts { superblock, tables, slots, objects, ssd, journal };
        let store = Self::with(device, settings, parts);
        store.fill_reserve().await?;
        store.commit().await?;
        Ok(store)
    }

    /// Opens the store on `device`, which holds everything that was made durable. A damaged fingerprint index is
    /// created again from the containers.
    ///
    /// # Errors
    /// [`Error::NotAStore`], [`Error::Version`], [`Error::Damaged`], or an error of the device.
    pub async fn open(device: Arc<D>, settings: Settings) -> Result<Self, Error> {
        Self::open_with_ssd(device, settings, None).await
    }

    /// As [`open`](Self::open), with an SSD. Its content is used if it belongs to this store and was closed with it;
    /// otherwise the SSD is emptied. If the SSD fails, the store is opened without it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with_ssd(device: Arc<D>, settings: Settings, source: Option<SsdSource>) -> Result<Self, Error> {
        let superblock = Superblock::read(&*device).await?;
        let layout = check_size(&*device, &superblock)?;
        if let Err(error) = superblock.repair(&*device).await {
            tracing::warn!("the store has one copy of its superblock only: {error}");
        }
        let (seed, bytes) = (superblock.seed, superblock.journal_bytes);
        let (epoch, mut records) = Journal::read(&*device, layout.journals_at, bytes, seed).await?;
        let mut journal = Journal::new(layout.journals_at, bytes, seed, epoch);
        let ssd = Arc::new(SsdSlot::default());
        if let Some(source) = source {
            let session = Session::Closed(journal::session_read(&records, epoch, seed));
            match Ssd::open(source, &superblock, session).await {
                Ok(opened) => drop(ssd.set(Some(Arc::new(opened)))),
                Err(error) => tracing::warn!("the store is opened without its SSD: {}", ssd::reason(&error)),
            }
        }
        let parts = IndexParts { device: &device, superblock: &superblock, layout: &layout, ssd: &ssd };
        let index = parts.open(&mut journal, epoch, &mut records).await?;
        let mut slots = Slots::new(&superblock);
        let mut objects = Objects::new(Arc::new(Ledger::new(Bounds::of(&superblock))));
        let upto = recover::replay(records, &mut slots, &mut objects)?;
        let read = Summary::read(&*device, layout.summary_at, superblock.summary_bytes, seed).await?;
        let is_read = read.is_some();
        let summary = read.unwrap_or_else(|| Summary::new(superblock.summary_bytes));
        let tables = Tables { layout, index, summary };
        let parts = StoreParts { superblock, tables, slots, objects, ssd, journal };
        let store = Self::with(device, settings, parts);
        recover::finish(&store, (upto.0, if is_read { upto.1 } else { 0 })).await?;
        Ok(store)
    }

    fn with(device: Arc<D>, settings: Settings, parts: StoreParts<D>) -> Self {
        let StoreParts { superblock, tables, slots, objects, ssd, journal } = parts;
        let locality = Locality::new(settings.locality_containers);
        let region_bytes = u64::from(superblock.region_bytes);
        Self {
            device,
            superblock,
            containers_at: tables.layout.containers_at,
            tables: TablesSlot::new(tables, superblock),
            resizing: AsyncMutex::new(()),
            settings,
            state: Mutex::new(State { slots, locality, marks: None }),
            opened: Mutex::new(HashMap::new()),
            lanes: (0..LANES).map(|_| AsyncMutex::new(None)).collect(),
            other_index: OnceLock::new(),
            ssd,
            patterns: Patterns::default(),
            ahead: Ahead::default(),
            reads: Reads::default(),
            ledger: Arc::clone(objects.ledger()),
            objects: Mutex::new(objects),
            directory: Directory::new(settings.recipe_cache_bytes / DIRECTORY_SHARE),
            journal: AsyncMutex::new(journal),
            regions: Mutex::new(LruCache::new(entries(settings.region_cache_bytes, region_bytes))),
            nodes: Mutex::new(LruCache::new(entries(settings.recipe_cache_bytes, 24 << 10))),
            upto: Upto::default(),
            counters: Counting::default(),
            collecting: AsyncMutex::new(()),
            room: Arc::default(),
            mutating: RangeLock::default(),
            unfinished: Unfinished::default(),
            poisoned: OnceLock::new(),
        }
    }

    /// The counters since the store was opened.
    pub fn counters(&self) -> Counters {
        self.counters.snapshot()
    }

    /// Why the store accepts no more changes, if it does not.
    pub fn poisoned(&self) -> Option<String> {
        self.poisoned.get().cloned()
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Bytes of a chunk of new volumes.
    pub fn chunk_bytes(&self) -> u32 {
        self.superblock.chunk_bytes
    }

    /// The maximum number of bytes of a chunk.
    pub(crate) fn chunk_bytes_max(&self) -> u32 {
        region_bytes_max(self.superblock.container_bytes)
    }

    pub(crate) fn check_poison(&self) -> Result<(), Error> {
        match self.poisoned.get() {
            Some(why) => Err(Error::Poisoned(why.clone())),
            None => Ok(()),
        }
    }

    /// As [`poison`](Self::poison), unless there was no room: then nothing valid was written, and the operation can be
    /// retried.
    pub(crate) fn poison_unless_full(&self, error: &Error) -> Error {
        if error.is_full() { error.clone() } else { self.poison(error) }
    }

    /// Marks the store as failed, because it is unknown what is durable.
    pub(crate) fn poison(&self, error: &Error) -> Error {
        let first = self.poisoned.get_or_init(|| error.to_string());
        tracing::error!("the store accepts no more changes: {first}");
        error.clone()
    }
}

impl<D> std::fmt::Debug for Store<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let identity = self.superblock.identity;
        f.debug_struct("Store").field("identity", &identity).finish_non_exhaustive()
    }
}

/// What the fingerprint index is opened from.
struct IndexParts<'a, D> {
    device: &'a Arc<D>,
    superblock: &'a Superblock,
    layout: &'a Layout,
    ssd: &'a Arc<SsdSlot>,
}

impl<D: Device> IndexParts<'_, D> {
    /// Opens the index. Replaces a damaged one by an empty one, which lacks all containers; before that, this is
    /// recorded durably in the journal, whose epoch is `epoch`.
    async fn open(
        &self,
        journal: &mut Journal,
        epoch: u64,
        records: &mut Vec<Record>,
    ) -> Result<Silt<IndexDevice<D>>, Error> {
        let sizes = (self.superblock, self.layout);
        match open_index(self.device, sizes, self.ssd).await {
            Err(error @ (nitro_index::Error::Damaged(_) | nitro_index::Error::NotAnIndex(_))) => {
                tracing::warn!("the store's fingerprint index is created again from the containers: {error}");
                records.push(Record::Indexed { sequence: 0 });
                // The area that was read may be one that a killed program wrote and that the device can still lose.
                self.device.flush().await?;
                journal.checkpoint(&**self.device, records).await?;
                self.device.flush().await?;
                create_index(self.device, sizes, self.ssd, epoch + 1).await
            }
            opened => Ok(opened?),
        }
    }
}

pub(crate) fn check_size(device: &impl Device, superblock: &Superblock) -> Result<Layout, Error> {
    let layout = Layout::of(superblock).ok_or_else(|| Error::Damaged { what: "the superblock's sizes".to_owned() })?;
    let given = device.geometry().size_bytes;
    if given < layout.end {
        let why = format!("the store takes {} bytes", layout.end);
        return Err(Error::Setting { what: "size of the device in bytes", given, why });
    }
    Ok(layout)
}

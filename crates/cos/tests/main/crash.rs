//! Random operations, collections and power failures.

use crate::model::{CHUNK, Model, again, bytes_of, plan, settings};
use futures_executor::block_on;
use futures_util::future::join;
use nitro_cos::{CollectOptions, Error, Store};
use nitro_port::Device;
use nitro_testkit::{CrashingDevice, Rng, seeds};
use std::sync::Arc;

const SIZE_BYTES: u64 = 12 << 20;
const VOLUME_CHUNKS: u64 = 700;
const NAMES: [&str; 4] = ["a", "b", "c/d", "e"];

pub struct World {
    pub device: Arc<CrashingDevice>,
    pub store: Arc<Store<CrashingDevice>>,
    pub model: Model,
    pub random: Rng,
}

pub type Outcome = Result<(), Error>;

impl World {
    pub async fn new(seed: u64) -> Self {
        Self::on(SIZE_BYTES, seed).await
    }

    /// A store on the first part of a device.
    pub async fn on(device_bytes: u64, seed: u64) -> Self {
        let device = Arc::new(CrashingDevice::new(device_bytes, 4096, seed));
        let store = Store::create(Arc::clone(&device), &plan(SIZE_BYTES, seed), settings()).await.unwrap();
        Self { device, store: Arc::new(store), model: Model::default(), random: Rng::new(seed ^ 0xC0_5000) }
    }

    fn any(&mut self, writable: bool) -> Option<String> {
        let mut present = self.model.present();
        present.retain(|name| !writable || !self.model.objects[name].read_only);
        (!present.is_empty()).then(|| present[self.random.below(present.len() as u64) as usize].clone())
    }

    pub async fn step(&mut self) -> Outcome {
        match self.random.below(100) {
            0..8 => self.create().await,
            8..55 => self.write().await,
            55..62 => self.zero().await,
            62..72 => self.read().await,
            72..77 => self.copy().await,
            77..81 => self.delete().await,
            81 => self.rename().await,
            82..92 => self.commit().await,
            92..95 => self.checkpoint().await,
            _ => self.collect().await,
        }
    }

    async fn create(&mut self) -> Outcome {
        let name = NAMES[self.random.below(4) as usize];
        if self.model.objects.contains_key(name) {
            return Ok(());
        }
        let chunks = 1 + self.random.below(VOLUME_CHUNKS);
        self.store.create_volume(name, chunks * CHUNK as u64, None, 1).await?;
        self.model.create(name, chunks as usize);
        Ok(())
    }

    fn number(&mut self) -> u64 {
        match self.random.below(4) {
            0 => self.random.below(1 << 40),
            _ => self.random.below(60),
        }
    }

    async fn write(&mut self) -> Outcome {
        let Some(name) = self.any(true) else { return Ok(()) };
        let chunks = self.model.objects[&name].chunks.len() as u64;
        let first = self.random.below(chunks);
        let count = (1 + self.random.below(24)).min(chunks - first);
        let numbers: Vec<u64> = (0..count).map(|_| self.number()).collect();
        for (index, number) in (first as usize..).zip(&numbers) {
            self.model.write(&name, index, *number);
        }
        let volume = self.store.open_volume(&name).await?;
        let data = bytes_of(&numbers);
        let offset = first * CHUNK as u64;
        if self.random.below(4) > 0 {
            return volume.write_range(offset, data).await;
        }
        // In two parts, neither of which is of whole chunks.
        let middle = 512 * (1 + self.random.below(data.len() as u64 / 512 - 1)) as usize;
        let (one, two) = (data.slice(..middle), data.slice(middle..));
        // A crash may come between the two, also when a collection commits meanwhile.
        let halved = first as usize + middle / CHUNK;
        if !middle.is_multiple_of(CHUNK) {
            let chunk = &mut self.model.objects.get_mut(&name).unwrap().chunks[halved];
            let whole = *chunk.newest();
            [u64::MAX, whole].into_iter().for_each(|number| chunk.write(number));
        }
        let parts = join(volume.write_range(offset, one), volume.write_range(offset + middle as u64, two)).await;
        parts.0.and(parts.1)
    }

    async fn zero(&mut self) -> Outcome {
        let Some(name) = self.any(true) else { return Ok(()) };
        let chunks = self.model.objects[&name].chunks.len() as u64;
        let first = self.random.below(chunks);
        let count = (1 + self.random.below(100)).min(chunks - first);
        (first..first + count).for_each(|index| self.model.write(&name, index as usize, 0));
        let volume = self.store.open_volume(&name).await?;
        volume.write_zeroes(first * CHUNK as u64, count * CHUNK as u64, true).await.map_err(Error::Device)
    }

    async fn read(&mut self) -> Outcome {
        let Some(name) = self.any(false) else { return Ok(()) };
        let size = self.model.objects[&name].chunks.len() * CHUNK;
        let offset = self.random.below(size as u64) as usize;
        let len = (1 + self.random.below(20_000) as usize).min(size - offset);
        let read = self.store.open_volume(&name).await?.read_range(offset as u64, len).await?;
        let chunks = offset / CHUNK..(offset + len).div_ceil(CHUNK);
        let wanted: Vec<u64> = self.model.objects[&name].chunks[chunks.clone()].iter().map(|c| *c.newest()).collect();
        let wanted = bytes_of(&wanted).slice(offset - chunks.start * CHUNK..).slice(..len);
        assert!(read == wanted, "{len} bytes at {offset} of {name}");
        Ok(())
    }

    async fn copy(&mut self) -> Outcome {
        let Some(source) = self.any(false) else { return Ok(()) };
        let read_only = self.random.below(3) > 0 && !source.contains('@');
        let name = match read_only {
            true => format!("{source}@{}", self.random.below(3)),
            false => NAMES[self.random.below(4) as usize].to_owned(),
        };
        if self.model.objects.contains_key(&name) {
            return Ok(());
        }
        self.model.copy(&source, &name, read_only);
        match read_only {
            true => self.store.snapshot(&name, 2).await?,
            false => self.store.clone_object(&source, &name, 3).await?,
        }
        self.model.committed();
        Ok(())
    }

    async fn delete(&mut self) -> Outcome {
        let Some(name) = self.any(false) else { return Ok(()) };
        self.model.remove(&name);
        self.store.delete(&name).await?;
        self.model.committed();
        Ok(())
    }

    async fn rename(&mut self) -> Outcome {
        let Some(old) = self.any(false).filter(|name| !name.contains('@')) else { return Ok(()) };
        let new = NAMES[self.random.below(4) as usize];
        let snapshots = format!("{new}@");
        if self.model.objects.keys().any(|name| name == new || name.starts_with(&snapshots)) {
            return Ok(());
        }
        self.model.rename(&old, new);
        self.store.rename(&old, new).await?;
        self.model.committed();
        Ok(())
    }

    async fn commit(&mut self) -> Outcome {
        self.store.commit().await?;
        self.model.committed();
        Ok(())
    }

    async fn checkpoint(&mut self) -> Outcome {
        self.store.checkpoint().await?;
        self.model.committed();
        Ok(())
    }

    /// A collection, with writes, reads and a snapshot meanwhile.
    async fn collect(&mut self) -> Outcome {
        let store = Arc::clone(&self.store);
        let options = CollectOptions { alive_share_min: [0.5, 0.9, 1.0][self.random.below(3) as usize] };
        self.beside(async { Box::pin(store.collect(&options, &|_, _, _| ())).await.map(drop) }).await
    }

    /// Something that takes long, with other requests meanwhile.
    pub async fn beside(&mut self, long: impl Future<Output = Outcome>) -> Outcome {
        let others = async {
            for _ in 0..self.random.below(6) {
                match self.random.below(8) {
                    0 => self.copy().await?,
                    1 => self.delete().await?,
                    2 | 3 => self.read().await?,
                    _ => self.write().await?,
                }
            }
            Ok(())
        };
        let (long, others) = join(long, others).await;
        others.and(long)
    }

    /// Power fails, or somebody kills the program; then everything must be as it was, or as was asked for since.
    pub async fn crash(&mut self) {
        self.device = Arc::new(self.device.crashed());
        if self.random.below(4) == 0 {
            self.damage_index().await;
        }
        let store = Store::open(Arc::clone(&self.device), settings()).await.unwrap();
        self.store = Arc::new(store);
        self.model.restarted(&self.store).await;
    }

    /// Damages superblocks or manifests of the fingerprint index, or both; at times power fails while it is made anew.
    async fn damage_index(&mut self) {
        let (first, pages) = [(0, 2), (2, 2), (0, 40)][self.random.below(3) as usize];
        damage_index(&self.device, first, pages);
        if self.random.below(2) == 0 {
            self.device.fail_power_after(self.random.below(80));
            // Where there was power enough, the next opening finds it in order.
            drop(Store::open(Arc::clone(&self.device), settings()).await);
            self.device = Arc::new(self.device.crashed());
        }
    }
}

/// Damages some of its pages.
fn damage_index(device: &CrashingDevice, first: u64, pages: usize) {
    let image = device.image();
    let superblock = image.chunks(4096).position(|page| page.starts_with(b"NITROIDX")).unwrap() as u64;
    device.damage((superblock + first) * 4096, &vec![0x5A; pages * 4096]);
}

#[test]
fn a_damaged_index_is_made_anew_and_finds_what_is_stored() {
    block_on(async {
        let device = Arc::new(CrashingDevice::new(SIZE_BYTES, 4096, 1));
        let data = bytes_of(&(1..=400).collect::<Vec<_>>());
        let mut stored = Vec::new();
        for name in ["a", "b"] {
            let store = Arc::new(match name {
                "a" => Store::create(Arc::clone(&device), &plan(SIZE_BYTES, 1), settings()).await.unwrap(),
                _ => Store::open(Arc::clone(&device), settings()).await.unwrap(),
            });
            store.create_volume(name, data.len() as u64, None, 1).await.unwrap();
            store.open_volume(name).await.unwrap().write_range(0, data.clone()).await.unwrap();
            store.close().await.unwrap();
            let read = store.open_volume("a").await.unwrap().read_range(0, data.len()).await.unwrap();
            assert!(read == data);
            stored.push(store.stats().chunks);
            damage_index(&device, 0, 40);
        }
        // Blocks of recipes are chunks, too.
        assert!(stored[0] >= 400 && stored[1] < stored[0] + 10, "{stored:?}");
    });
}

#[test]
fn random_operations_collections_and_power_failures() {
    for seed in seeds(40) {
        let _again = again(seed, "crash::random_operations_collections_and_power_failures");
        block_on(async {
            let mut world = World::new(seed).await;
            for _ in 0..6 {
                let left = 20 + world.random.below(600);
                world.device.fail_power_after(left);
                for step in 0..150 {
                    match world.step().await {
                        Ok(()) => {}
                        Err(Error::Full { .. }) => panic!("full at step {step}"),
                        Err(error @ (Error::Missing { .. } | Error::Damaged { .. })) => {
                            let device_failed = world.device.flush().await.is_err();
                            assert!(device_failed, "{error}");
                            break;
                        }
                        Err(_) => break,
                    }
                }
                world.crash().await;
            }
        });
    }
}

/// Where the journal's batches are, with their epochs, numbers and bytes of records, in order.
fn batches(image: &[u8]) -> Vec<(u64, u64, u64, usize)> {
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    let heads = (0..image.len()).step_by(4096).filter(|at| image[*at..].starts_with(b"NCJB"));
    let mut found: Vec<_> = heads.map(|at| (word(at + 8), word(at + 16), word(at + 24), at)).collect();
    found.sort_unstable();
    found
}

#[test]
fn damage_of_the_journal_is_told_from_its_end() {
    let device = Arc::new(CrashingDevice::with_image(vec![0; SIZE_BYTES as usize], 4096, 1));
    let opened = |image: Vec<u8>| {
        let device = Arc::new(CrashingDevice::with_image(image, 4096, 1));
        block_on(async {
            let store = Arc::new(Store::open(device, settings()).await?);
            let volume = store.open_volume("a").await?;
            volume.read_range(0, 4 * CHUNK).await
        })
    };
    block_on(async {
        let store = Arc::new(Store::create(Arc::clone(&device), &plan(SIZE_BYTES, 7), settings()).await.unwrap());
        store.create_volume("a", 8 * CHUNK as u64, None, 1).await.unwrap();
        let volume = store.open_volume("a").await.unwrap();
        for number in 1..5 {
            volume.write_range((number - 1) * CHUNK as u64, bytes_of(&[number])).await.unwrap();
            store.commit().await.unwrap();
        }
    });
    let image = device.image();
    assert!(opened(image.clone()).unwrap() == bytes_of(&[1, 2, 3, 4]));
    let all = batches(&image);
    let epoch = all.last().unwrap().0;
    let all: Vec<_> = all.into_iter().filter(|(of, ..)| *of == epoch).collect();
    assert!(all.len() > 4 && all.last().unwrap().2 == 0, "the last one is empty: {all:?}");
    for (number, (.., records_bytes, at)) in all.iter().enumerate() {
        // In the head, and in the records.
        for byte in [at + 20, at + 50] {
            let mut damaged = image.clone();
            damaged[byte] ^= 4;
            let found = opened(damaged);
            // The last one confirms the one before, and need not be there; the padding of an empty one says nothing.
            match number + 1 == all.len() || *records_bytes == 0 && byte == at + 50 {
                true => assert!(found.unwrap() == bytes_of(&[1, 2, 3, 4])),
                false => assert!(matches!(found, Err(Error::Damaged { .. })), "batch {number}, byte {byte}: {found:?}"),
            }
        }
    }
    // What a crash has cut off has nothing behind it.
    let mut torn = image.clone();
    let [.., (.., last), (.., confirmation)] = &all[..] else { panic!("{all:?}") };
    torn[*confirmation..confirmation + 4096].fill(0);
    torn[*last + 20] ^= 4;
    assert!(opened(torn).unwrap() == bytes_of(&[1, 2, 3, 0]));
}

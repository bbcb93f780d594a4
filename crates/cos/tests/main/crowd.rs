//! Crowds of objects in a store with a tiny journal, on a filesystem that becomes full and has room again: small and large requests, long
//! runs without FLUSH, TRIM of everything, collections and power failures.

use crate::model::{CHUNK, Model, again, bytes_of, plan_with, settings};
use futures_executor::block_on;
use futures_util::future::{join, join_all};
use nitro_cos::{CollectOptions, Error, Settings, Store};
use nitro_port::{Device, ErrorKind};
use nitro_testkit::{CrashingDevice, Rng, seeds};
use std::cell::Cell;
use std::sync::Arc;

const SIZE_BYTES: u64 = 24 << 20;
/// Rounds, each of which ends with a power failure.
const ROUNDS: usize = 6;
const STEPS: usize = 70;
/// The most requests during a collection.
const MEANWHILE_MAX: u64 = 60;
/// Contents that occur often, and those that come back after they were overwritten.
const POOLS: [u64; 2] = [200, 3000];

struct World {
    device: Arc<CrashingDevice>,
    store: Arc<Store<CrashingDevice>>,
    model: Model,
    random: Rng,
    /// Names that were given.
    made: u64,
    /// How many chunks a volume has, at most.
    chunks_max: u64,
    /// Little but writes, and hardly a commit.
    is_busy: bool,
    settings: Settings,
}

/// A write that is under way.
struct Writing {
    name: String,
    first: usize,
    numbers: Vec<u64>,
    before: Vec<u64>,
}

/// What somebody else does during writes.
enum Meanwhile {
    Commit,
    Checkpoint,
    /// Creates objects, so that others move to the directory.
    Create(Vec<String>),
    Nothing,
}

type Outcome = Result<(), Error>;

impl World {
    async fn new(seed: u64) -> Self {
        let mut random = Rng::new(seed ^ 0x000C_203D);
        let device = Arc::new(CrashingDevice::new(SIZE_BYTES, 4096, seed));
        device.set_room(SIZE_BYTES);
        // The smallest journal there can be, mostly.
        let journal_bytes = [1, 1, 128 << 10][random.below(3) as usize];
        let chunks_max = [20, 80, 400][random.below(3) as usize];
        let plan = plan_with(SIZE_BYTES, Some(journal_bytes), seed);
        let settings = Settings { nsio_dedup: !seed.is_multiple_of(3), ..settings() };
        let store = Arc::new(Store::create(Arc::clone(&device), &plan, settings).await.unwrap());
        Self { device, store, model: Model::default(), random, made: 0, chunks_max, is_busy: false, settings }
    }

    fn any(&mut self, writable: bool) -> Option<String> {
        let mut present = self.model.present();
        present.retain(|name| !writable || !self.model.objects[name].read_only);
        (!present.is_empty()).then(|| present[self.random.below(present.len() as u64) as usize].clone())
    }

    async fn step(&mut self) -> Outcome {
        // Clones are commits, too.
        let roll = self.random.below(100);
        match if self.is_busy && (3..24).contains(&roll) { 50 } else { roll } {
            0..3 => self.create().await,
            3..25 => self.copy().await,
            25..62 => self.write().await,
            62..66 => self.zero().await,
            66..80 => self.read().await,
            80..85 => self.delete().await,
            85..89 => self.commit().await,
            89..95 => {
                self.device.set_room([0, 0, 256 << 10, SIZE_BYTES][self.random.below(4) as usize]);
                Ok(())
            }
            95..98 => self.collect().await,
            _ => {
                self.store.checkpoint().await?;
                self.model.committed();
                Ok(())
            }
        }
    }

    fn name(&mut self) -> String {
        self.made += 1;
        format!("vm-{}", self.made)
    }

    /// A refusal for want of room is an answer; anything else is not.
    fn take(&self, done: Outcome) -> Result<bool, Error> {
        match done {
            Err(error) if error.is_full() || matches!(error, Error::Objects { .. }) => Ok(false),
            done => done.map(|()| true),
        }
    }

    async fn create(&mut self) -> Outcome {
        let name = self.name();
        let chunks = 1 + self.random.below(self.chunks_max);
        let created = self.store.create_volume(&name, chunks * CHUNK as u64, None, 1).await;
        if self.take(created)? {
            self.model.create(&name, chunks as usize);
        }
        Ok(())
    }

    /// Some clones of an object, or a snapshot.
    async fn copy(&mut self) -> Outcome {
        for _ in 0..1 + self.random.below(12) {
            let Some(source) = self.any(false) else { return Ok(()) };
            let read_only = self.random.below(5) == 0 && !source.contains('@');
            let name = self.name();
            let name = if read_only { format!("{source}@{name}") } else { name };
            self.model.copy(&source, &name, read_only);
            let copied = match read_only {
                true => self.store.snapshot(&name, 2).await,
                false => self.store.clone_object(&source, &name, 3).await,
            };
            match self.take(copied)? {
                true => self.model.committed(),
                false => {
                    assert!(self.store.info(&name).await.is_err(), "{name} was refused, and is there");
                    self.model.objects.remove(&name);
                }
            }
        }
        Ok(())
    }

    /// Writes to some objects at once; what is refused is partly there. Now and then somebody else has the store commit, or write
    /// recipes, in the middle of it, and the writers may commit what they have written meanwhile.
    async fn write(&mut self) -> Outcome {
        match self.random.below(10) {
            8 | 9 => {
                let names = (0..1 + self.random.below(30)).map(|_| self.name()).collect();
                self.write_with(Meanwhile::Create(names), false).await
            }
            0 | 1 => self.write_with(Meanwhile::Commit, false).await,
            2 => self.write_with(Meanwhile::Checkpoint, false).await,
            3 => self.write_with(Meanwhile::Checkpoint, true).await,
            4 => self.write_with(Meanwhile::Nothing, true).await,
            _ => self.write_with(Meanwhile::Nothing, false).await,
        }
    }

    async fn write_with(&mut self, meanwhile: Meanwhile, flushes: bool) -> Outcome {
        let mut writes: Vec<Writing> = Vec::new();
        for _ in 0..1 + self.random.below(8) {
            let Some(name) = self.any(true) else { return Ok(()) };
            if writes.iter().any(|other| other.name == name) {
                continue;
            }
            let chunks = self.model.objects[&name].chunks.len() as u64;
            let first = self.random.below(chunks);
            let most = [1, 4, chunks][self.random.below(3) as usize];
            let count = (1 + self.random.below(most)).min(chunks - first);
            let numbers: Vec<u64> = (0..count)
                .map(|_| match self.random.below(20) {
                    0 => 10_000 + self.random.below(1 << 40),
                    1..9 => self.random.below(POOLS[1]),
                    _ => self.random.below(POOLS[0]),
                })
                .collect();
            let first = first as usize;
            let before =
                self.model.objects[&name].chunks[first..][..numbers.len()].iter().map(|c| *c.newest()).collect();
            for (index, number) in (first..).zip(&numbers) {
                self.model.write(&name, index, *number);
            }
            writes.push(Writing { name, first, numbers, before });
        }
        let store = &self.store;
        let done = join_all(writes.iter().map(|write| async move {
            let data = bytes_of(&write.numbers);
            store.open_volume(&write.name).await?.write_range((write.first * CHUNK) as u64, data).await?;
            if flushes { store.commit().await } else { Ok(()) }
        }));
        let other = async {
            let mut created = Vec::new();
            match meanwhile {
                Meanwhile::Commit => store.commit().await?,
                Meanwhile::Checkpoint => store.checkpoint().await?,
                Meanwhile::Create(names) => {
                    for name in names {
                        let result = store.create_volume(&name, CHUNK as u64, None, 1).await;
                        created.push((name, result));
                    }
                }
                Meanwhile::Nothing => {}
            }
            Ok::<_, Error>(created)
        };
        let (done, other) = join(done, other).await;
        for (name, created) in other? {
            if self.take(created)? {
                self.model.create(&name, 1);
            }
        }
        for (write, done) in writes.iter().zip(done) {
            match self.take(done)? {
                true if flushes => self.model.made_durable(&write.name, write.first, write.numbers.len()),
                true => {}
                false => self.adopt(write).await?,
            }
        }
        // Before the recipes are written once more.
        if flushes && self.random.below(8) == 0 {
            self.device.fail_power_after(self.random.below(6));
        }
        Ok(())
    }

    /// Takes over what there is after a write that was refused.
    async fn adopt(&mut self, write: &Writing) -> Outcome {
        let volume = self.store.open_volume(&write.name).await?;
        let read = volume.read_range((write.first * CHUNK) as u64, write.numbers.len() * CHUNK).await?;
        let chunks = &mut self.model.objects.get_mut(&write.name).unwrap().chunks[write.first..];
        for (i, bytes) in read.chunks(CHUNK).enumerate() {
            let is = |number: u64| bytes_of(&[number]) == bytes;
            let (old, new) = (write.before[i], write.numbers[i]);
            assert!(is(old) || is(new), "chunk {} of {} is none of {old}, {new}", write.first + i, write.name);
            chunks[i].write(if is(new) { new } else { old });
        }
        Ok(())
    }

    /// Zeroes part of an object, or all of it.
    async fn zero(&mut self) -> Outcome {
        let Some(name) = self.any(true) else { return Ok(()) };
        let chunks = self.model.objects[&name].chunks.len();
        let first = match self.random.below(2) {
            0 => 0,
            _ => self.random.below(chunks as u64) as usize,
        };
        let before = self.model.objects[&name].chunks[first..].iter().map(|c| *c.newest()).collect();
        (first..chunks).for_each(|index| self.model.write(&name, index, 0));
        let volume = self.store.open_volume(&name).await?;
        let zeroed = volume.zero_range((first * CHUNK) as u64, ((chunks - first) * CHUNK) as u64).await;
        if !self.take(zeroed)? {
            self.adopt(&Writing { name, first, numbers: vec![0; chunks - first], before }).await?;
        }
        Ok(())
    }

    async fn read(&mut self) -> Outcome {
        let Some(name) = self.any(false) else { return Ok(()) };
        let chunks = &self.model.objects[&name].chunks;
        let first = self.random.below(chunks.len() as u64) as usize;
        let wanted: Vec<u64> = chunks[first..].iter().take(20).map(|c| *c.newest()).collect();
        let read =
            self.store.open_volume(&name).await?.read_range((first * CHUNK) as u64, wanted.len() * CHUNK).await?;
        for (i, bytes) in read.chunks(CHUNK).enumerate() {
            let is = bytes == bytes_of(&wanted[i..=i]);
            assert!(is, "chunk {} of {name} is none of {}", first + i, wanted[i]);
        }
        Ok(())
    }

    async fn delete(&mut self) -> Outcome {
        let Some(name) = self.any(false) else { return Ok(()) };
        self.model.remove(&name);
        self.store.delete(&name).await?;
        self.model.committed();
        Ok(())
    }

    /// What was acknowledged becomes durable, however full store and filesystem are.
    async fn commit(&mut self) -> Outcome {
        self.store.commit().await?;
        self.model.committed();
        Ok(())
    }

    /// A collection, with writes, reads and deletes meanwhile.
    async fn collect(&mut self) -> Outcome {
        // Power fails at any time, or soon after the collection has begun to empty containers.
        let (left, failing) = (self.random.below(150), self.random.below(4));
        if failing == 0 {
            self.device.fail_power_after(left);
        }
        let emptying = Cell::new(if failing == 1 || failing == 2 { 1 + self.random.below(3) } else { 0 });
        let device = Arc::clone(&self.device);
        let progress = move |phase: &str, _: u64, _: u64| {
            if phase == "emptying containers" && emptying.get() > 0 {
                emptying.set(emptying.get() - 1);
                if emptying.get() == 0 {
                    device.fail_power_after(left / 2);
                }
            }
        };
        let store = Arc::clone(&self.store);
        let options = CollectOptions { alive_share_min: [0.5, 0.9, 1.0][self.random.below(3) as usize] };
        // A collection begins with recipes: what is committed while they are written must not be lost.
        let commits = self.random.below(2) == 0;
        // As long as it runs, or for a few requests.
        let most = if self.random.below(2) == 0 { MEANWHILE_MAX } else { self.random.below(5) };
        let ended = Cell::new(false);
        let others = async {
            if commits {
                self.write_with(Meanwhile::Nothing, true).await?;
            }
            for _ in 0..most {
                if ended.get() {
                    break;
                }
                match self.random.below(6) {
                    0 => self.delete().await?,
                    1 => self.read().await?,
                    2 => self.copy().await?,
                    _ => self.write().await?,
                }
            }
            Ok(())
        };
        let collecting = async {
            let collected = store.collect(&options, &progress).await;
            ended.set(true);
            collected
        };
        let (collected, others): (_, Outcome) = join(collecting, others).await;
        others?;
        self.take(collected.map(drop)).map(drop)
    }

    async fn restart(&mut self) {
        self.device = Arc::new(self.device.crashed());
        self.store = Arc::new(Store::open(Arc::clone(&self.device), self.settings).await.unwrap());
        self.model.restarted(&self.store).await;
        let findings = self.store.check(&|_, _, _| ()).await.unwrap();
        assert!(findings.is_clean(), "after a restart: {findings:?}");
    }

    /// Without any room on the filesystem, everything is deleted, and a collection gives all room back.
    async fn end(mut self) {
        self.device.set_room(0);
        for name in self.model.present() {
            self.store.delete(&name).await.unwrap();
        }
        self.store.collect(&CollectOptions::default(), &|_, _, _| ()).await.unwrap();
        assert_eq!(self.store.stats().containers_used, 0, "containers are lost");
        self.model = Model::default();
        self.device.set_room(SIZE_BYTES);
        self.create().await.unwrap();
        let kept = async {
            self.write().await?;
            self.commit().await
        };
        // Power may fail after a write.
        if let Err(error) = kept.await {
            assert!(has_failed(&self.device).await, "failed without reason at the end: {error:?}");
        }
        self.restart().await;
    }
}

/// Whether an error comes of the power that failed.
async fn has_failed(device: &CrashingDevice) -> bool {
    device.flush().await.is_err_and(|error| error.kind == ErrorKind::Io)
}

#[test]
fn crowds_of_objects_survive() {
    for seed in seeds(30) {
        let again = again(seed, "crowd::crowds_of_objects_survive");
        block_on(async {
            let mut world = World::new(seed).await;
            for _ in 0..ROUNDS {
                world.is_busy = world.random.below(2) == 0;
                // Most of the time power fails in the middle of something.
                if world.random.below(4) > 0 {
                    let most = [40, 200, 1000][world.random.below(3) as usize];
                    let left = world.random.below(most);
                    world.device.fail_power_after(left);
                }
                for step in 0..STEPS {
                    if let Err(error) = world.step().await {
                        assert!(has_failed(&world.device).await, "failed without reason at step {step}: {error:?}");
                        break;
                    }
                    let (held, bound) = (world.store.stats().ram_bytes, world.store.ram_need_bytes());
                    assert!(held <= bound, "{held} bytes of RAM are held, {bound} are the bound");
                }
                world.restart().await;
            }
            world.end().await;
        });
        drop(again);
    }
}

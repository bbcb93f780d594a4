//! A store on a disk whose time is shared: streams, random requests, collections and commits beside one another, and
//! power failures meanwhile.

use crate::model::{CHUNK, Model, again, bytes_of, plan, settings};
use futures_util::future::{join, join_all};
use nitro_cos::{CollectOptions, Error, Store};
use nitro_device::HddDevice;
use nitro_device::hdd::HddModel;
use nitro_port::{Clock, Work, WorkKind};
use nitro_shares::{Policy, SharedDevice};
use nitro_testkit::{CrashingDevice, Erased, Rng, Simulation, VirtualTime, seeds};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

const SIZE_BYTES: u64 = 24 << 20;
/// Chunks of each volume.
const CHUNKS: u64 = 200;
/// Chunks of a stream's request.
const AT_ONCE: u64 = 20;

type Disk = SharedDevice<Erased, VirtualTime>;

fn shared(device: &Arc<CrashingDevice>, clock: &VirtualTime, random_percent: u8) -> Arc<Disk> {
    let model = HddModel::rpm_7200().with_spindles(2, 64 << 10);
    let disk = Arc::new(HddDevice::new(Arc::clone(device), clock.clone(), model));
    let policy = Policy { random_percent, ..Policy::default() };
    Arc::new(SharedDevice::new(Erased::new(disk), clock.clone(), Some(policy)))
}

/// A client's own volume, all clients' model, and what it does.
struct Client<'a> {
    store: &'a Arc<Store<Disk>>,
    model: &'a RefCell<Model>,
    name: String,
    random: Rng,
    /// It reads and writes in order.
    in_order: bool,
}

impl Client<'_> {
    async fn write(&mut self, first: u64, count: u64) -> Result<(), Error> {
        let numbers: Vec<u64> =
            (0..count).map(|_| self.random.below(if self.in_order { 300 } else { 1 << 30 })).collect();
        for (index, number) in (first as usize..).zip(&numbers) {
            self.model.borrow_mut().write(&self.name, index, *number);
        }
        self.store.open_volume(&self.name).await?.write_range(first * CHUNK as u64, bytes_of(&numbers)).await
    }

    async fn read(&self, first: u64, count: u64) -> Result<(), Error> {
        let volume = self.store.open_volume(&self.name).await?;
        let read = volume.read_range(first * CHUNK as u64, count as usize * CHUNK).await?;
        let newest: Vec<u64> = {
            let model = self.model.borrow();
            model.objects[&self.name].chunks[first as usize..][..count as usize].iter().map(|c| *c.newest()).collect()
        };
        assert!(read == bytes_of(&newest), "{count} chunks at {first} of {}", self.name);
        Ok(())
    }

    async fn commit(&self) -> Result<(), Error> {
        self.store.commit().await?;
        self.model.borrow_mut().made_durable(&self.name, 0, CHUNKS as usize);
        Ok(())
    }

    async fn work(&mut self, rounds: u64) -> Result<(), Error> {
        for _ in 0..rounds {
            match (self.in_order, self.random.one_in(2)) {
                (true, writes) => {
                    for first in (0..CHUNKS).step_by(AT_ONCE as usize) {
                        if writes { self.write(first, AT_ONCE).await? } else { self.read(first, AT_ONCE).await? }
                    }
                }
                (false, writes) => {
                    for _ in 0..10 {
                        let first = self.random.below(CHUNKS - 2);
                        let count = 1 + self.random.below(2);
                        if writes { self.write(first, count).await? } else { self.read(first, count).await? }
                    }
                }
            }
            if self.random.one_in(2) {
                self.commit().await?;
            }
        }
        Ok(())
    }
}

#[test]
fn everything_beside_everything_and_power_failures() {
    for seed in seeds(12) {
        let _again = again(seed, "shares::everything_beside_everything_and_power_failures");
        let simulation = Simulation::new(seed);
        let clock = &simulation.clock.clone();
        simulation.run(async {
            let mut random = Rng::new(seed ^ 0x54A2);
            let mut device = Arc::new(CrashingDevice::new(SIZE_BYTES, 4096, seed));
            let disk = shared(&device, clock, 5 + random.below(50) as u8);
            let mut store = Arc::new(Store::create(disk, &plan(SIZE_BYTES, seed), settings()).await.unwrap());
            let model = RefCell::new(Model::default());
            let names: Vec<String> = (0..6).map(|number| format!("v{number}")).collect();
            for name in &names {
                store.create_volume(name, CHUNKS * CHUNK as u64, None, 1).await.unwrap();
                model.borrow_mut().create(name, CHUNKS as usize);
            }
            store.commit().await.unwrap();
            model.borrow_mut().committed();
            for round in 0..3 {
                if round > 0 {
                    device.fail_power_after(200 + random.below(3000));
                }
                let working = Cell::new(names.len());
                let clients = names.iter().zip(0_u64..).map(|(name, number)| {
                    let random = Rng::new(seed * 100 + round * 10 + number);
                    let (store, model, working) = (&store, &model, &working);
                    let mut client = Client { store, model, name: name.clone(), random, in_order: number % 2 == 0 };
                    async move {
                        let done = client.work(4).await;
                        working.set(working.get() - 1);
                        done
                    }
                });
                let collecting = async {
                    while working.get() > 0 {
                        let _ = store.collect(&CollectOptions { alive_share_min: 0.95 }, &|_, _, _| ()).await;
                        clock.sleep(Duration::from_millis(300)).await;
                    }
                };
                let (done, ()) = join(join_all(clients), collecting).await;
                assert!(round > 0 || done.iter().all(Result::is_ok), "{done:?}");
                device = Arc::new(device.crashed());
                let disk = shared(&device, clock, 5 + random.below(50) as u8);
                store = Arc::new(Store::open(disk, settings()).await.unwrap());
                let mut all = model.take();
                all.restarted(&store).await;
                model.replace(all);
            }
        });
    }
}

/// Streams that use the disk all the time, and random writers with a small share.
async fn beside_streams<T>(store: &Arc<Store<Disk>>, work: impl AsyncFnOnce() -> T) -> T {
    let is_over = Cell::new(false);
    let streams = (0..6).map(async |number| {
        let volume = store.open_volume(&format!("s{number}")).await.unwrap();
        while !is_over.get() {
            for first in (0..CHUNKS).step_by(AT_ONCE as usize) {
                volume.read_range(first * CHUNK as u64, AT_ONCE as usize * CHUNK).await.unwrap();
            }
        }
    });
    let work = async {
        let done = work().await;
        is_over.set(true);
        done
    };
    join(work, join_all(streams)).await.0
}

#[test]
fn a_commit_waits_for_no_share() {
    let simulation = Simulation::new(7);
    let clock = &simulation.clock.clone();
    simulation.run(async {
        let device = Arc::new(CrashingDevice::new(SIZE_BYTES, 4096, 7));
        let disk = shared(&device, clock, 1);
        let store = Arc::new(Store::create(disk, &plan(SIZE_BYTES, 7), settings()).await.unwrap());
        let mut random = Rng::new(7);
        for number in 0..6 {
            store.create_volume(&format!("s{number}"), CHUNKS * CHUNK as u64, None, 1).await.unwrap();
            let volume = store.open_volume(&format!("s{number}")).await.unwrap();
            let numbers: Vec<u64> = (0..CHUNKS).map(|_| 1 + random.below(1 << 40)).collect();
            volume.write_range(0, bytes_of(&numbers)).await.unwrap();
        }
        store.create_volume("random", CHUNKS * CHUNK as u64, None, 1).await.unwrap();
        store.commit().await.unwrap();
        let volume = store.open_volume("random").await.unwrap();
        let waits = || store.device().counters().random_waits;
        beside_streams(&store, async || {
            for _ in 0..20 {
                let index = random.below(CHUNKS);
                volume.write_range(index * CHUNK as u64, bytes_of(&[random.below(1 << 40)])).await.unwrap();
                let other = store.open_volume(&format!("s{}", random.below(6))).await.unwrap();
                let reading = pin!(other.read_range(random.below(CHUNKS) * CHUNK as u64, CHUNK));
                Work::new(WorkKind::RandomRead, 1).scope(reading).await.unwrap();
                let before = waits();
                Work::new(WorkKind::RandomWrite, 1).scope(pin!(store.commit())).await.unwrap();
                assert_eq!(waits(), before, "a commit waited");
            }
        })
        .await;
        // The reads did: they have a hundredth of the disk.
        assert!(waits() > 5, "{}", waits());
    });
}

#[test]
fn a_served_volume_is_no_stream_though_it_is_read_in_order() {
    let simulation = Simulation::new(9);
    let clock = &simulation.clock.clone();
    simulation.run(async {
        let device = Arc::new(CrashingDevice::new(SIZE_BYTES, 4096, 9));
        let store = Store::create(shared(&device, clock, 20), &plan(SIZE_BYTES, 9), settings()).await.unwrap();
        let store = Arc::new(store);
        store.create_volume("vm", CHUNKS * CHUNK as u64, None, 1).await.unwrap();
        let numbers: Vec<u64> = (1..=CHUNKS).collect();
        store.open_volume("vm").await.unwrap().served().write_range(0, bytes_of(&numbers)).await.unwrap();
        store.commit().await.unwrap();
        drop(store);
        for served in [true, false] {
            let store = Arc::new(Store::open(shared(&device, clock, 20), settings()).await.unwrap());
            let counts = || (store.device().counters().random_requests, store.device().counters().stream_requests);
            let volume = store.open_volume("vm").await.unwrap();
            let volume = if served { volume.served() } else { volume };
            let before = counts();
            for first in (0..CHUNKS).step_by(AT_ONCE as usize) {
                volume.read_range(first * CHUNK as u64, AT_ONCE as usize * CHUNK).await.unwrap();
            }
            let more = (counts().0 > before.0, counts().1 > before.1);
            assert_eq!(more, (served, !served), "{before:?}, {:?}", counts());
        }
    });
}

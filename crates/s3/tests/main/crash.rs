//! Servers that crash at any moment, sleep, lose the volume to each other, and find it again, on a store with faults. What one server
//! had flushed, the next one finds; what the next one has written, no old one changes.

use crate::model::{Owner, SECTOR, stamped, stamps};
use crate::sim::{Client, Faults, World};
use bytes::Bytes;
use futures_util::future::{Either, join5, select};
use nitro_port::Clock as _;
use nitro_s3::{Header, NOTES, Options, S3Error, Volume, create, open, open_snapshot};
use nitro_testkit::{VirtualTime, for_seeds, trace};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

const CHUNK: u64 = 64 << 10;
/// The last chunk is short.
const SIZE: u64 = 5 * CHUNK + 3 * 512;
const SECTORS: usize = SIZE as usize / SECTOR;
/// The texts beside the content count as further sectors of the model.
const MODELLED: usize = SECTORS + NOTES;
const OPTIONS: Options = Options { buffer_bytes: 3 * CHUNK, puts_max: 2, runs_max: 3, noted_max: 3, now_ns: || 1 };

struct Test {
    world: Rc<World>,
    owners: RefCell<Vec<Rc<RefCell<Owner>>>>,
    next_stamp: Cell<u64>,
    /// Servers that have begun to open the volume.
    openings: Cell<u64>,
    flushes: Cell<u64>,
    fenced: Cell<u64>,
    /// Snapshots that were made: by whom, and what each has at least.
    snapshots: RefCell<Vec<Made>>,
}

struct Made {
    name: String,
    owner: Rc<RefCell<Owner>>,
    mark: Vec<usize>,
    /// What it had when it was read first.
    read: RefCell<Option<Vec<u64>>>,
}

type Disk = Volume<Client, VirtualTime>;

impl Test {
    /// Adds a server that has opened the volume, and checks what it has found.
    fn add(&self, owner: Owner) -> Rc<RefCell<Owner>> {
        let owner = Rc::new(RefCell::new(owner));
        let mut owners = self.owners.borrow_mut();
        owners.push(Rc::clone(&owner));
        owners.sort_by_key(|owner| owner.borrow().opened);
        drop(owners);
        let opened = owner.borrow().opened;
        self.neighbours(opened);
        owner
    }

    /// Checks a server against the ones before and after it.
    fn neighbours(&self, opened: u64) {
        for pair in self.owners.borrow().windows(2) {
            let (one, next) = (pair[0].borrow(), pair[1].borrow());
            assert!(one.opened < next.opened, "two servers have opened the volume with generation {}", one.opened);
            if one.opened == opened || next.opened == opened {
                one.check_next(&next);
            }
        }
    }

    fn stamp(&self) -> u64 {
        self.next_stamp.replace(self.next_stamp.get() + 1)
    }

    fn ms(&self, up_to: u64) -> Duration {
        Duration::from_millis(self.world.below(up_to))
    }

    /// Opens the volume with what a crash or a sleep may do.
    async fn life(self: Rc<Self>, number: u64) {
        let clock = self.world.clock();
        let sleeps = Rc::new(Cell::new(Duration::ZERO));
        let lives = if self.world.below(3) == 0 { 600_000 } else { 20_000 };
        let (length, test) = (self.ms(lives), Rc::clone(&self));
        let life = sleepy(clock.clone(), Rc::clone(&sleeps), async move {
            match test.serve(number).await {
                Ok(()) => trace(|| format!("server {number} ends")),
                Err(error) => trace(|| format!("server {number}: {error}")),
            }
        });
        let naps = async {
            loop {
                clock.sleep(self.ms(60_000)).await;
                if self.world.below(3) == 0 {
                    sleeps.set(clock.now() + self.ms(200_000));
                }
            }
        };
        let (end, naps) = (pin!(clock.sleep(length)), pin!(naps));
        if let Either::Right(_) = select(pin!(life), select(end, naps)).await {
            trace(|| format!("server {number} crashes"));
        }
    }

    async fn serve(&self, number: u64) -> Result<(), S3Error> {
        self.openings.set(self.openings.get() + 1);
        let client = Client(Rc::clone(&self.world));
        let volume = open(client, self.world.clock(), "test", self.world.below(u64::MAX), OPTIONS, false).await?;
        trace(|| format!("server {number} has opened generation {}", volume.opened()));
        let work = async {
            let snapshot = found(&volume).await?;
            let owner = self.add(Owner::new(volume.opened(), snapshot));
            let is_done = Cell::new(false);
            let writes = async {
                let written = self.write_some(&volume, &owner).await;
                is_done.set(true);
                written
            };
            let (written, flushed, read, noted, kept) = join5(
                writes,
                self.flush_some(&volume, &owner, &is_done),
                self.read_some(&volume, &owner, &is_done),
                self.note_some(&volume, &owner, &is_done),
                self.keep_some(&volume, &owner, &is_done),
            )
            .await;
            for result in [written, flushed, read, noted, kept] {
                self.judge(result)?;
            }
            self.judge(self.flush(&volume, &owner).await)
        };
        match select(pin!(work), pin!(volume.run())).await {
            Either::Left((ended, _)) => ended,
            Either::Right((never, _)) => match never {},
        }
    }

    /// Errors that there may be: the store's, and the loss of the volume if another server has opened it.
    fn judge(&self, result: Result<(), S3Error>) -> Result<(), S3Error> {
        match &result {
            Ok(()) | Err(S3Error::Store(_)) => {}
            Err(S3Error::Fenced { .. }) => {
                self.fenced.set(self.fenced.get() + 1);
                assert!(self.openings.get() > 1, "a server that is alone has lost the volume");
            }
            // An old server may miss what a new one has deleted.
            Err(S3Error::Missing(name)) => assert!(self.openings.get() > 1, "{name} is missing"),
            Err(error) => panic!("{error}"),
        }
        result
    }

    async fn write_some(&self, volume: &Disk, owner: &RefCell<Owner>) -> Result<(), S3Error> {
        for _ in 0..40 {
            self.world.clock().sleep(self.ms(if self.world.below(8) == 0 { 5000 } else { 50 })).await;
            let (kind, stamp) = (self.world.below(8), self.stamp());
            let first = self.world.below(SECTORS as u64) as usize;
            let most = if self.world.below(4) == 0 { SECTORS } else { 24 };
            let count = 1 + self.world.below((SECTORS - first).min(most) as u64) as usize;
            let (offset, len) = ((first * SECTOR) as u64, (count * SECTOR) as u64);
            let (first, count, stamp) = match kind {
                // Whole chunks, of which something is left at the end of the volume.
                0 => {
                    let chunk = self.world.below(6) * CHUNK;
                    let end = (chunk + CHUNK * (1 + self.world.below(3))).min(SIZE);
                    ((chunk / 512) as usize, ((end - chunk) / 512) as usize, 0)
                }
                1 => (first, count, 0),
                2 => (
                    (offset / CHUNK * CHUNK / 512) as usize,
                    (CHUNK as usize / SECTOR).min(SECTORS - (offset / CHUNK * CHUNK / 512) as usize),
                    stamp,
                ),
                _ => (first, count, stamp),
            };
            trace(|| {
                format!("{:?}: change {kind} of {count} sectors at {first}: {stamp:#x}", self.world.clock().now())
            });
            owner.borrow_mut().begin(first, count, stamp);
            let (offset, len) = match kind {
                0 | 2 => ((first * SECTOR) as u64, (count * SECTOR) as u64),
                _ => (offset, len),
            };
            match kind {
                0 => volume.discard(offset, len)?,
                1 => volume.zero(offset, len).await?,
                _ => volume.write(offset, stamped(stamp, count)).await?,
            }
            owner.borrow_mut().end(first, count);
        }
        Ok(())
    }

    async fn flush(&self, volume: &Disk, owner: &RefCell<Owner>) -> Result<(), S3Error> {
        let mark = owner.borrow().mark();
        volume.flush().await?;
        trace(|| format!("{:?}: flushed", self.world.clock().now()));
        owner.borrow_mut().flushed(&mark);
        let opened = owner.borrow().opened;
        self.neighbours(opened);
        self.flushes.set(self.flushes.get() + 1);
        Ok(())
    }

    async fn flush_some(&self, volume: &Disk, owner: &RefCell<Owner>, is_done: &Cell<bool>) -> Result<(), S3Error> {
        while !is_done.get() {
            self.world.clock().sleep(self.ms(500)).await;
            match self.flush(volume, owner).await {
                // It is tried again.
                Err(S3Error::Store(_)) => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Makes snapshots, and deletes some.
    async fn keep_some(&self, volume: &Disk, owner: &Rc<RefCell<Owner>>, is_done: &Cell<bool>) -> Result<(), S3Error> {
        while !is_done.get() {
            self.world.clock().sleep(self.ms(4000)).await;
            let names: Vec<String> = volume.snapshots().into_iter().map(|snapshot| snapshot.name).collect();
            if names.len() > 2 || (!names.is_empty() && self.world.below(4) == 0) {
                let name = &names[self.world.below(names.len() as u64) as usize];
                match volume.delete_snapshot(name).await {
                    Ok(()) | Err(S3Error::Store(_)) => continue,
                    other => other?,
                }
            }
            let (name, mark) = (format!("s{}", self.stamp()), owner.borrow().mark());
            match volume.snapshot(&name).await {
                Ok(()) => {}
                // It may be made later.
                Err(S3Error::Store(_)) => continue,
                Err(error) => return Err(error),
            }
            trace(|| format!("{:?}: snapshot {name}", self.world.clock().now()));
            let made = Made { name, owner: Rc::clone(owner), mark, read: RefCell::default() };
            self.snapshots.borrow_mut().push(made);
        }
        Ok(())
    }

    /// Checks all snapshots that there are.
    async fn check_snapshots(&self, names: &[String]) {
        for name in names {
            let client = Client(Rc::clone(&self.world));
            let opened = open_snapshot(client, self.world.clock(), ("test", name), 1, OPTIONS).await;
            let read = stamps(&opened.unwrap().read(0, SIZE as usize).await.unwrap());
            let all = self.snapshots.borrow();
            // Nobody has heard of some that were made.
            let Some(made) = all.iter().find(|made| made.name == *name) else { continue };
            made.owner.borrow().check_read(&made.mark, 0, &read);
            let before = made.read.replace(Some(read.clone()));
            assert!(before.is_none_or(|before| before == read), "snapshot {name} has changed");
        }
    }

    async fn note_some(&self, volume: &Disk, owner: &RefCell<Owner>, is_done: &Cell<bool>) -> Result<(), S3Error> {
        while !is_done.get() {
            self.world.clock().sleep(self.ms(1500)).await;
            let (note, stamp) = (self.world.below(NOTES as u64) as usize, self.stamp());
            owner.borrow_mut().begin(SECTORS + note, 1, stamp);
            match volume.set_note(note, stamp.to_le_bytes().to_vec().into()).await {
                Ok(()) => {}
                Err(S3Error::Store(_)) => continue,
                Err(error) => return Err(error),
            }
            let mut owner = owner.borrow_mut();
            owner.end(SECTORS + note, 1);
            let mut mark = vec![0; MODELLED];
            mark[SECTORS + note] = owner.mark()[SECTORS + note];
            owner.flushed(&mark);
            let opened = owner.opened;
            drop(owner);
            self.neighbours(opened);
        }
        Ok(())
    }

    async fn read_some(&self, volume: &Disk, owner: &RefCell<Owner>, is_done: &Cell<bool>) -> Result<(), S3Error> {
        while !is_done.get() {
            self.world.clock().sleep(self.ms(200)).await;
            let first = self.world.below(SECTORS as u64) as usize;
            let count = 1 + self.world.below((SECTORS - first) as u64) as usize;
            let mark = owner.borrow().mark();
            match volume.read((first * SECTOR) as u64, count * SECTOR).await {
                Ok(data) => owner.borrow().check_read(&mark, first, &stamps(&data)),
                Err(S3Error::Store(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What a volume has, with its texts.
async fn found(volume: &Disk) -> Result<Vec<u64>, S3Error> {
    let mut found = stamps(&volume.read(0, SIZE as usize).await?);
    let stamp = |text: Bytes| text.first_chunk().map_or(0, |stamp| u64::from_le_bytes(*stamp));
    found.extend((0..NOTES).map(|note| stamp(volume.note(note))));
    Ok(found)
}

/// A future that makes no progress until a time that changes.
pub async fn sleepy<F: Future>(clock: VirtualTime, until: Rc<Cell<Duration>>, inner: F) -> F::Output {
    let mut inner = pin!(inner);
    let mut sleep: Option<Pin<Box<dyn Future<Output = ()>>>> = None;
    poll_fn(move |context| {
        while clock.now() < until.get() {
            let (clock, rest) = (clock.clone(), until.get() - clock.now());
            let timer = sleep.get_or_insert_with(|| Box::pin(async move { clock.sleep(rest).await }));
            match timer.as_mut().poll(context) {
                Poll::Ready(()) => sleep = None,
                Poll::Pending => return Poll::Pending,
            }
        }
        inner.as_mut().poll(context)
    })
    .await
}

/// Flushes, servers that have lost the volume, and snapshots.
type Totals = (Cell<u64>, Cell<u64>, Cell<u64>);

fn faults(world: &World) -> Faults {
    match world.below(4) {
        0 => Faults::default(),
        1 => Faults { errors: 100, lost: 20, late: 50, dropped: 10, refused: 0 },
        2 => Faults { errors: 300, lost: 100, late: 100, dropped: 50, refused: 5 },
        _ => Faults { errors: 30, lost: 10, late: 10, dropped: 5, refused: 30 },
    }
}

fn scenario(seed: u64, totals: &Totals) {
    trace(|| format!("seed {seed}"));
    let world = World::new(seed);
    let test = Rc::new(Test {
        world: Rc::clone(&world),
        owners: RefCell::default(),
        next_stamp: Cell::new(1),
        openings: Cell::new(0),
        flushes: Cell::new(0),
        fenced: Cell::new(0),
        snapshots: RefCell::default(),
    });
    test.add(Owner::new(0, vec![0; MODELLED]));
    let simulation = Rc::clone(world.simulation());
    let header = Header { uuid: [7; 16], size_bytes: SIZE, chunk_bytes: CHUNK as u32 };
    let story = async {
        create(Client(Rc::clone(&world)), world.clock(), "test", seed, &header).await.unwrap();
        for number in 0..2 + world.below(5) {
            world.faults.set(faults(&world));
            simulation.spawn(Rc::clone(&test).life(number));
            let pause = if world.below(2) == 0 { 3000 } else { 60_000 };
            world.clock().sleep(test.ms(pause)).await;
        }
        // Everything is over, and all that is late has arrived.
        world.clock().sleep(Duration::from_secs(2000)).await;
        world.faults.set(Faults::default());
        let volume = open(Client(Rc::clone(&world)), world.clock(), "test", 1, OPTIONS, false).await.unwrap();
        let opened = volume.opened();
        let work = async {
            let snapshot = found(&volume).await.unwrap();
            let owner = test.add(Owner::new(opened, snapshot));
            let names: Vec<String> = volume.snapshots().into_iter().map(|snapshot| snapshot.name).collect();
            test.check_snapshots(&names).await;
            // What was left behind is deleted meanwhile.
            world.clock().sleep(Duration::from_secs(10)).await;
            test.check_snapshots(&names).await;
            assert_eq!(world.names("snapshot/").len(), names.len());
            for (number, name) in names.iter().enumerate() {
                volume.delete_snapshot(name).await.unwrap();
                world.clock().sleep(Duration::from_secs(10)).await;
                test.check_snapshots(&names[number + 1..]).await;
            }
            owner.borrow_mut().begin(0, 1, u64::MAX);
            volume.write(0, stamped(u64::MAX, 1)).await.unwrap();
            owner.borrow_mut().end(0, 1);
            test.flush(&volume, &owner).await.unwrap();
            world.clock().sleep(Duration::from_secs(10)).await;
            let mark = owner.borrow().mark();
            let read = volume.read(0, SIZE as usize).await.unwrap();
            owner.borrow().check_read(&mark, 0, &stamps(&read));
        };
        select(pin!(work), pin!(volume.run())).await;
        check_garbage(&world, &volume);
    };
    simulation.run(story);
    totals.0.set(totals.0.get() + test.flushes.get());
    totals.1.set(totals.1.get() + test.fenced.get());
    totals.2.set(totals.2.get() + test.snapshots.borrow().len() as u64);
    simulation.end();
}

/// Nothing is in the store that is not needed.
fn check_garbage(world: &World, volume: &Disk) {
    let allocated = volume.allocation(0, SIZE);
    let chunks = allocated.iter().filter(|run| !run.hole).map(|run| run.len.div_ceil(CHUNK)).sum::<u64>();
    let data = world.names("data/");
    assert_eq!(data.len() as u64, chunks, "{data:?}");
    assert!(world.names("segment/").len() <= 1, "{:?}", world.names("segment/"));
}

#[test]
fn what_was_flushed_is_found_by_whoever_has_the_volume_next() {
    for_seeds(300, |seed| scenario(seed, &Totals::default()));
    // A simulation in which nothing happens shows nothing.
    let totals = Totals::default();
    (0..10).for_each(|seed| scenario(seed, &totals));
    assert!(totals.0.get() > 50 && totals.1.get() > 0 && totals.2.get() > 10, "{totals:?}");
}

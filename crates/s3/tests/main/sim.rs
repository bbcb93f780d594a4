//! A store in RAM with faults: requests take time, are not answered, are answered with an error, are carried out much later than they
//! were given up, or never.

use bytes::Bytes;
use futures_channel::oneshot;
use nitro_port::Clock as _;
use nitro_s3::{Put, Store, StoreError};
use nitro_testkit::{Rng, Simulation, VirtualTime, trace};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// What a store does to requests, each in so many of a thousand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Answered with an error, and not carried out.
    pub errors: u64,
    /// Carried out, and not answered.
    pub lost: u64,
    /// Given up, and carried out later.
    pub late: u64,
    /// Neither carried out nor answered.
    pub dropped: u64,
    /// Refused.
    pub refused: u64,
}

pub struct World {
    pub objects: RefCell<BTreeMap<String, Bytes>>,
    pub faults: Cell<Faults>,
    random: RefCell<Rng>,
    /// Loses races: the condition of a put is checked some time before it is carried out.
    pub loses: Cell<bool>,
    /// Requests so far.
    pub requests: Cell<u64>,
    simulation: Rc<Simulation>,
}

impl World {
    pub fn new(seed: u64) -> Rc<Self> {
        Rc::new(Self {
            objects: RefCell::default(),
            faults: Cell::default(),
            random: RefCell::new(Rng::new(seed ^ 0x53)),
            loses: Cell::new(false),
            requests: Cell::new(0),
            simulation: Simulation::new(seed),
        })
    }

    pub fn simulation(&self) -> &Rc<Simulation> {
        &self.simulation
    }

    pub fn clock(&self) -> VirtualTime {
        self.simulation.clock.clone()
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().below(bound)
    }

    pub fn names(&self, folder: &str) -> Vec<String> {
        self.objects.borrow().keys().filter(|name| name.starts_with(folder)).cloned().collect()
    }
}

/// A client of the store.
#[derive(Clone)]
pub struct Client(pub Rc<World>);

enum Op {
    PutNew(String, Bytes),
    Put(String, Bytes),
    Get(String, Range<u64>),
    List(String, Option<String>),
    Delete(Vec<String>),
}

enum Answer {
    Put(Put),
    Done,
    Got(Option<Bytes>),
    Names(Vec<String>),
}

impl World {
    fn carry_out(&self, op: &Op) -> Answer {
        let mut objects = self.objects.borrow_mut();
        match op {
            Op::PutNew(name, _) if objects.contains_key(name) => Answer::Put(Put::Exists),
            Op::PutNew(name, data) => {
                objects.insert(name.clone(), data.clone());
                Answer::Put(Put::Created)
            }
            Op::Put(name, data) => {
                let old = objects.insert(name.clone(), data.clone());
                assert!(old.is_none_or(|old| old == data), "{name} is overwritten");
                Answer::Done
            }
            Op::Get(name, part) => Answer::Got(objects.get(name).map(|data| {
                let end = part.end.min(data.len() as u64);
                data.slice(part.start.min(end) as usize..end as usize)
            })),
            Op::List(folder, after) => {
                let names = objects.keys().filter(|name| name.starts_with(&format!("{folder}/")));
                // Short pages: what needs several is tested.
                Answer::Names(names.filter(|name| after.as_ref().is_none_or(|a| *name > a)).take(5).cloned().collect())
            }
            Op::Delete(names) => {
                for name in names {
                    objects.remove(name);
                }
                Answer::Done
            }
        }
    }
}

impl Client {
    async fn request(&self, op: Op) -> Result<Answer, StoreError> {
        let world = &self.0;
        let number = world.requests.replace(world.requests.get() + 1);
        let faults = world.faults.get();
        let dice = world.below(1000);
        let wait = |world: &World, up_to_ms: u64| Duration::from_micros(world.below(up_to_ms * 1000));
        let (before, after, late) = (wait(world, 20), wait(world, 20), wait(world, 300_000));
        let limits = [faults.errors, faults.lost, faults.late, faults.dropped, faults.refused];
        let mut end = 0;
        let fate = limits.iter().position(|part| {
            end += part;
            dice < end
        });
        let (answer, answered) = oneshot::channel();
        let (at, clock) = (Rc::clone(world), world.clock());
        // A loser checks first, and writes later.
        let is_checked =
            world.loses.get() && matches!(&op, Op::PutNew(name, _) if !world.objects.borrow().contains_key(name));
        // Not a part of the client: it goes on when the client is gone.
        world.simulation.spawn(async move {
            let unsure = |why: &str| Err(StoreError::Unsure(format!("{why} (request {number})")));
            clock.sleep(before).await;
            let carry_out = |at: &World| {
                let answer = at.carry_out(&op);
                if let (true, Op::PutNew(name, data)) = (is_checked, &op) {
                    at.objects.borrow_mut().insert(name.clone(), data.clone());
                    return Answer::Put(Put::Created);
                }
                answer
            };
            let result = match fate {
                Some(0) => unsure("503"),
                Some(1) => {
                    carry_out(&at);
                    return clock.sleep(Duration::from_secs(100)).await;
                }
                Some(2) => {
                    drop(answer.send(unsure("connection reset")));
                    clock.sleep(late).await;
                    trace(|| format!("request {number} is carried out late"));
                    carry_out(&at);
                    return;
                }
                Some(3) => return clock.sleep(Duration::from_secs(100)).await,
                Some(4) => Err(StoreError::Refused(format!("403 (request {number})"))),
                _ => Ok(carry_out(&at)),
            };
            clock.sleep(after).await;
            drop(answer.send(result));
        });
        match answered.await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Unsure("the connection was closed".to_owned())),
        }
    }
}

const OTHER: &str = "an answer of another kind";

impl Store for Client {
    async fn put_new(&self, name: &str, data: Bytes) -> Result<Put, StoreError> {
        match self.request(Op::PutNew(name.to_owned(), data)).await? {
            Answer::Put(put) => Ok(put),
            _ => unreachable!("{OTHER}"),
        }
    }

    async fn put(&self, name: &str, data: Bytes) -> Result<(), StoreError> {
        self.request(Op::Put(name.to_owned(), data)).await.map(drop)
    }

    async fn get(&self, name: &str, part: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        match self.request(Op::Get(name.to_owned(), part)).await? {
            Answer::Got(got) => Ok(got),
            _ => unreachable!("{OTHER}"),
        }
    }

    async fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        match self.request(Op::List(folder.to_owned(), after.map(str::to_owned))).await? {
            Answer::Names(names) => Ok(names),
            _ => unreachable!("{OTHER}"),
        }
    }

    async fn delete(&self, names: &[String]) -> Result<(), StoreError> {
        self.request(Op::Delete(names.to_vec())).await.map(drop)
    }
}

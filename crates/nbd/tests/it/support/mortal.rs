//! A server that dies, and loses what was not flushed, as at a power cut; and the way to it.

use futures_util::future::{Either, select};
use nitro_frontend::{Disk, DiskError, DiskInfo, DiskName, Disks, Opened, Pieces, Requester, Run, StatusOf, ZeroFlags};
use nitro_nbd::client::Connect;
use nitro_nbd::transport::memory::{MemoryReader, MemoryWriter, duplex};
use nitro_nbd::{End, ServerOptions, serve};
use nitro_port::Clock as _;
use nitro_port::latch::Latch;
use nitro_testkit::{Rng, Simulation, VirtualTime};
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::io;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// What a server has, over its lives.
pub struct Medium {
    /// What survives its death.
    pub durable: Vec<u8>,
    /// What was written since the last flush, in order.
    pub unflushed: Vec<(usize, Vec<u8>)>,
    /// The most bytes that were unflushed at any time.
    pub unflushed_bytes_max: usize,
    pub flushes: usize,
    pub writes: usize,
    pub info: DiskInfo,
    /// Flushes fail.
    pub fails_to_flush: bool,
    /// Commands that change anything fail.
    pub refuses: bool,
    /// Connections from now on are not answered, except for the handshake.
    pub is_silent: bool,
    random: Rng,
}

impl Medium {
    /// The content for readers.
    pub fn content(&self) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        apply(&mut bytes, &self.unflushed);
        bytes
    }
}

fn apply(bytes: &mut [u8], writes: &[(usize, Vec<u8>)]) {
    for (at, data) in writes {
        bytes[*at..at + data.len()].copy_from_slice(data);
    }
}

/// The disk of one life of a server.
pub struct MortalDisk {
    medium: Arc<Mutex<Medium>>,
    life: Arc<Latch>,
    time: VirtualTime,
    is_silent: bool,
}

impl MortalDisk {
    fn medium(&self) -> MutexGuard<'_, Medium> {
        self.medium.lock().unwrap()
    }

    /// What is dead does nothing.
    async fn is_alive(&self) {
        if self.life.is_set() {
            pending::<()>().await;
        }
    }

    async fn turns(&self) {
        if self.is_silent {
            pending::<()>().await;
        }
        let turns = self.medium().random.below(6);
        if turns > 0 {
            self.time.sleep(Duration::from_micros(200 * turns)).await;
        }
    }

    /// Changes take effect before or after others get their turn: a server that dies may have carried out what it did not answer.
    async fn change(&self, at: u64, data: Vec<u8>) -> Result<(), DiskError> {
        if self.medium().refuses {
            return Err(DiskError::NoSpace);
        }
        let is_late = self.medium().random.below(2) == 0;
        if is_late {
            self.turns().await;
        }
        self.is_alive().await;
        {
            let mut medium = self.medium();
            medium.writes += 1;
            medium.unflushed.push((at as usize, data));
            let bytes = medium.unflushed.iter().map(|(_, data)| data.len()).sum();
            medium.unflushed_bytes_max = medium.unflushed_bytes_max.max(bytes);
        }
        if !is_late {
            self.turns().await;
        }
        Ok(())
    }
}

impl Disk for MortalDisk {
    fn info(&self) -> DiskInfo {
        self.medium().info.clone()
    }

    async fn read(&self, _: Requester, offset: u64, len: u32) -> Result<Pieces, DiskError> {
        self.turns().await;
        self.is_alive().await;
        let bytes = self.medium().content()[offset as usize..][..len as usize].to_vec();
        self.turns().await;
        Ok(Pieces::from_iter([bytes.into()]))
    }

    async fn write(&self, _: Requester, offset: u64, data: bytes::Bytes, _: bool) -> Result<(), DiskError> {
        self.change(offset, data.to_vec()).await
    }

    async fn flush(&self, _: Requester) -> Result<(), DiskError> {
        self.is_alive().await;
        let count = self.medium().unflushed.len();
        self.turns().await;
        self.is_alive().await;
        let mut medium = self.medium();
        if medium.fails_to_flush {
            return Err(DiskError::Io);
        }
        let Medium { durable, unflushed, .. } = &mut *medium;
        // Another flush may have ended meanwhile.
        let done = count.min(unflushed.len());
        apply(durable, &unflushed[..done]);
        unflushed.drain(..done);
        medium.flushes += 1;
        Ok(())
    }

    async fn trim(&self, _: Requester, offset: u64, len: u32, _: bool) -> Result<(), DiskError> {
        self.change(offset, vec![0; len as usize]).await
    }

    async fn write_zeroes(&self, _: Requester, offset: u64, len: u32, _: ZeroFlags) -> Result<(), DiskError> {
        self.change(offset, vec![0; len as usize]).await
    }

    async fn cache(&self, _: Requester, _: u64, _: u32) -> Result<(), DiskError> {
        Ok(())
    }

    async fn status(&self, of: StatusOf, offset: u64, len: u32) -> Result<Vec<Run>, DiskError> {
        let _ = (of, offset, len);
        Err(DiskError::Unsupported)
    }
}

struct OneExport(Arc<MortalDisk>);

impl Disks for OneExport {
    type Disk = MortalDisk;

    fn list(&self) -> Vec<DiskName> {
        vec![DiskName { name: "disk".into(), description: String::new() }]
    }

    fn open(&self, name: &str) -> Option<Opened<MortalDisk>> {
        (name == "disk").then(|| Opened { disk: Arc::clone(&self.0), requester: Requester::default() })
    }
}

/// A server that can be killed and started.
pub struct Mortal {
    pub medium: Arc<Mutex<Medium>>,
    simulation: Weak<Simulation>,
    /// Set at the end of the present life; `None`: it is dead.
    life: RefCell<Option<Arc<Latch>>>,
    pub connections: Cell<usize>,
    pub options: ServerOptions,
    /// How connections ended that were not cut.
    pub ends: RefCell<Vec<End>>,
}

impl Mortal {
    pub fn new(simulation: &Rc<Simulation>, bytes: usize, seed: u64) -> Rc<Self> {
        let medium = Medium {
            durable: vec![0; bytes],
            unflushed: Vec::new(),
            unflushed_bytes_max: 0,
            flushes: 0,
            writes: 0,
            info: DiskInfo::new(bytes as u64),
            fails_to_flush: false,
            refuses: false,
            is_silent: false,
            random: Rng::new(seed),
        };
        Rc::new(Self {
            medium: Arc::new(Mutex::new(medium)),
            simulation: Rc::downgrade(simulation),
            life: RefCell::new(Some(Arc::default())),
            connections: Cell::new(0),
            options: ServerOptions::default(),
            ends: RefCell::default(),
        })
    }

    pub fn medium(&self) -> MutexGuard<'_, Medium> {
        self.medium.lock().unwrap()
    }

    /// Kills it: of what was not flushed, any part is lost.
    pub fn kill(&self) {
        if let Some(life) = self.life.borrow_mut().take() {
            life.set();
        }
        let mut medium = self.medium();
        let medium = &mut *medium;
        let unflushed = std::mem::take(&mut medium.unflushed);
        let kept: Vec<_> = unflushed.into_iter().filter(|_| medium.random.below(2) == 0).collect();
        apply(&mut medium.durable, &kept);
    }

    /// Cuts the connections of a server that lives on.
    pub fn cut(&self) {
        if let Some(life) = self.life.borrow_mut().replace(Arc::default()) {
            life.set();
        }
    }

    pub fn start(&self) {
        self.life.borrow_mut().get_or_insert_default();
    }
}

/// The way of a client to the server.
pub struct Way(pub Rc<Mortal>);

impl Connect for Way {
    type Read = MemoryReader;
    type Write = MemoryWriter;

    async fn connect(&self) -> io::Result<(MemoryReader, MemoryWriter)> {
        let Some(time) = self.0.simulation.upgrade().map(|simulation| simulation.clock.clone()) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let Some(life) = self.0.life.borrow().clone() else { return Err(io::ErrorKind::ConnectionRefused.into()) };
        let (ours, theirs) = duplex(8 << 10);
        let (medium, is_silent) = (Arc::clone(&self.0.medium), self.0.medium().is_silent);
        let exports = OneExport(Arc::new(MortalDisk { medium, life: Arc::clone(&life), time, is_silent }));
        let options = self.0.options.clone();
        self.0.connections.set(self.0.connections.get() + 1);
        let server = Rc::clone(&self.0);
        let served = async move {
            let served = serve(theirs.reader, theirs.writer, &exports, &options, pending());
            // A kill drops it, with whatever it was doing.
            if let Either::Left((Ok(summary), _)) = select(pin!(served), pin!(ended(life))).await {
                server.ends.borrow_mut().push(summary.end);
            }
        };
        if let Some(simulation) = self.0.simulation.upgrade() {
            simulation.spawn(served);
        }
        Ok((ours.reader, ours.writer))
    }
}

async fn ended(life: Arc<Latch>) {
    life.wait().await;
}

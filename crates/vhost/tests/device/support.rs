//! A disk in memory, and a device that serves it.

use bytes::Bytes;
use nitro_device::guarded::Guard;
use nitro_device::{ReactorThread, event, spawn_local, spawn_thread};
use nitro_frontend::{Disk, DiskError, DiskInfo, Pieces, RequestMemory, Requester, Run, StatusOf, ZeroFlags};
use nitro_vhost::{Control, Host, Incarnation, LocalTask, MmapRegion, Options, VhostError, converse};
use nitro_vhost_client::{Client, Setup};
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

pub const DISK_BYTES: u64 = 4 << 20;

/// A disk in memory, with a cache that a crash loses.
pub struct Ram {
    /// What is read, and what a crash leaves of it.
    pub contents: Mutex<(Vec<u8>, Vec<u8>)>,
    pub size_bytes: AtomicU64,
    pub read_only: bool,
    pub block_bytes: u32,
    pub keeps_writes: bool,
    /// Requests wait for ever.
    pub is_stuck: AtomicBool,
    pub flushes: AtomicU64,
    pub trimmed_bytes: AtomicU64,
}

impl Ram {
    pub fn new(keeps_writes: bool) -> Self {
        let bytes = vec![0; DISK_BYTES as usize];
        Self {
            contents: Mutex::new((bytes.clone(), bytes)),
            size_bytes: AtomicU64::new(DISK_BYTES),
            read_only: false,
            block_bytes: 512,
            keeps_writes,
            is_stuck: AtomicBool::new(false),
            flushes: AtomicU64::new(0),
            trimmed_bytes: AtomicU64::new(0),
        }
    }

    /// The process dies, and another opens the disk.
    pub fn crash(&self) {
        let mut contents = self.contents.lock().unwrap();
        let (now, durable) = &mut *contents;
        if !self.keeps_writes {
            now.clone_from(durable);
        }
    }

    async fn wait(&self) {
        nitro_port::yielding::yield_now().await;
        if self.is_stuck.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    fn change(&self, offset: u64, len: u64, fua: bool, put: impl FnOnce(&mut [u8])) {
        let mut contents = self.contents.lock().unwrap();
        let (now, durable) = &mut *contents;
        let range = offset as usize..(offset + len) as usize;
        put(&mut now[range.clone()]);
        if fua {
            durable[range.clone()].copy_from_slice(&now[range]);
        }
    }
}

impl Disk for Ram {
    fn info(&self) -> DiskInfo {
        let Self { read_only, block_bytes, .. } = *self;
        DiskInfo { read_only, block_bytes, ..DiskInfo::new(self.size_bytes.load(Ordering::SeqCst)) }
    }

    fn keeps_writes(&self) -> bool {
        self.keeps_writes
    }

    /// Every other extent is at hand.
    fn try_read(&self, _: Requester, offset: u64, len: u32) -> Option<Result<Pieces, DiskError>> {
        let at = offset as usize;
        let has_it = (offset / 4096).is_multiple_of(2) && !self.is_stuck.load(Ordering::SeqCst);
        has_it.then(|| {
            Ok(Pieces::from_iter([Bytes::copy_from_slice(&self.contents.lock().unwrap().0[at..at + len as usize])]))
        })
    }

    async fn read(&self, _: Requester, offset: u64, len: u32) -> Result<Pieces, DiskError> {
        self.wait().await;
        let at = offset as usize;
        let bytes = Bytes::copy_from_slice(&self.contents.lock().unwrap().0[at..at + len as usize]);
        let (head, tail) = bytes.split_at(bytes.len() / 3);
        Ok(Pieces::from_iter([Bytes::copy_from_slice(head), Bytes::copy_from_slice(tail)]))
    }

    async fn write(&self, _: Requester, offset: u64, data: Bytes, fua: bool) -> Result<(), DiskError> {
        self.wait().await;
        self.change(offset, data.len() as u64, fua, |place| place.copy_from_slice(&data));
        Ok(())
    }

    async fn flush(&self, _: Requester) -> Result<(), DiskError> {
        self.wait().await;
        self.flushes.fetch_add(1, Ordering::SeqCst);
        let mut contents = self.contents.lock().unwrap();
        let (now, durable) = &mut *contents;
        durable.clone_from(now);
        Ok(())
    }

    async fn trim(&self, _: Requester, offset: u64, len: u32, fua: bool) -> Result<(), DiskError> {
        self.trimmed_bytes.fetch_add(len.into(), Ordering::SeqCst);
        self.change(offset, len.into(), fua, |place| place.fill(0));
        Ok(())
    }

    async fn write_zeroes(&self, _: Requester, offset: u64, len: u32, flags: ZeroFlags) -> Result<(), DiskError> {
        self.change(offset, len.into(), flags.fua, |place| place.fill(0));
        Ok(())
    }

    async fn cache(&self, _: Requester, _: u64, _: u32) -> Result<(), DiskError> {
        Ok(())
    }

    async fn status(&self, _: StatusOf, _: u64, len: u32) -> Result<Vec<Run>, DiskError> {
        Ok(vec![Run { len: len.into(), ..Run::default() }])
    }
}

/// One reactor for all queues.
#[derive(Clone)]
struct OneThread(Arc<Mutex<Option<mpsc::Sender<LocalTask>>>>, Arc<OwnedFd>);

impl Host for OneThread {
    fn spawn(&self, _: usize, task: LocalTask) -> bool {
        let sent = self.0.lock().unwrap().as_ref().is_some_and(|jobs| jobs.send(task).is_ok());
        rustix::io::write(&self.1, &1_u64.to_ne_bytes()).is_ok() && sent
    }

    fn wait(&self, counter: &Arc<OwnedFd>) -> impl Future<Output = io::Result<()>> {
        event::wait(counter)
    }

    fn ring(&self, counter: &Arc<OwnedFd>) -> impl Future<Output = io::Result<()>> {
        event::ring(counter)
    }

    fn guard(&self, map: &Arc<MmapRegion>, lost: &Arc<AtomicBool>) -> io::Result<nitro_vhost::Guard> {
        Ok(Arc::new(Guard::new(map, lost)?))
    }
}

/// A server of one connection.
pub struct Served {
    pub control: Arc<Control>,
    talking: Option<JoinHandle<Result<(), VhostError>>>,
    host: OneThread,
    reactor: Option<ReactorThread<()>>,
}

impl Served {
    /// Ends the connection in order, or has it end with the client.
    pub fn end(mut self) -> Result<(), VhostError> {
        self.talking.take().unwrap().join().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.control.cut();
        if let Some(talking) = self.talking.take() {
            let _ = talking.join();
        }
        self.host.0.lock().unwrap().take();
        let _ = rustix::io::write(&self.host.1, &1_u64.to_ne_bytes());
        let _ = self.reactor.take().unwrap().join();
    }
}

/// A socket's path, removed at the end.
pub struct Place(pub PathBuf, UnixListener);

impl Place {
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("nitro-vhost-{}-{}.sock", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        Self(path, listener)
    }

    /// Serves what `connect` connects, as a process of its own would.
    pub fn serve<T>(&self, disk: &Arc<Ram>, connect: impl FnOnce(&Path) -> T) -> (Served, T) {
        let (jobs, job) = mpsc::channel::<LocalTask>();
        let wake = Arc::new(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap());
        let host = OneThread(Arc::new(Mutex::new(Some(jobs))), Arc::clone(&wake));
        let reactor = spawn_thread("queues", move || async move {
            loop {
                event::wait(&wake).await.unwrap();
                loop {
                    match job.try_recv() {
                        Ok(task) => spawn_local(task()),
                        Err(mpsc::TryRecvError::Empty) => break,
                        Err(mpsc::TryRecvError::Disconnected) => return,
                    }
                }
            }
        })
        .unwrap();
        let options = Options {
            serial: "a disk in memory".to_owned(),
            memory: Arc::new(RequestMemory::default()),
            incarnation: Incarnation::new(),
            busy_poll_max: Duration::ZERO,
        };
        let listener = self.1.try_clone().unwrap();
        let (send, receive) = mpsc::channel();
        let (disk, queues) = (Arc::clone(disk), host.clone());
        let talking = std::thread::spawn(move || {
            let control = Arc::new(Control::new(listener.accept().unwrap().0.into(), || {}).unwrap());
            send.send(Arc::clone(&control)).unwrap();
            converse(&control, disk, Requester::default(), &queues, &options)
        });
        let connected = connect(&self.0);
        let control = receive.recv().unwrap();
        (Served { control, talking: Some(talking), host, reactor: Some(reactor) }, connected)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A device with a driver.
pub fn driven(disk: Ram, setup: Setup) -> (Place, Arc<Ram>, Served, Client) {
    let (place, disk) = (Place::new(), Arc::new(disk));
    let (served, client) = place.serve(&disk, |path| Client::connect(path, setup).unwrap());
    (place, disk, served, client)
}

//! A block device, from its beginning to its end.

use super::driver::{self, Manner};
use super::record::tag;
use super::{Attached, Detach, forget_name, note_name};
use crate::export::{ExportList, VolumeExport};
use crate::origins::aside;
use crate::serve::Served;
use crate::serve::connections::sleep;
use bytes::Bytes;
use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use futures_channel::oneshot;
use futures_util::future::{Either, FutureExt, join_all, select};
use futures_util::{StreamExt, future};
use nitro_console::error::Error;
use nitro_device::net::Peer;
use nitro_device::ublk::{Queue, block_path};
use nitro_frontend::{Disk, Disks, Opened, Unflushed};
use nitro_ublk::abi::{Info, Parameters, feature};
use nitro_ublk::{Channel, Descriptor, Device, serve};
use nitro_vhost::Host;
use rustix::fd::OwnedFd;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Requests of a queue.
const DEPTH: u16 = 128;
/// Most queues of a device.
const QUEUES_MAX: usize = 16;
/// The interval of attempts to remove a device that is in use.
const REMOVE_TURN: Duration = Duration::from_millis(500);

/// How a device begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Beginning {
    /// It is made, with logical blocks of this size.
    New { block_bytes: u32 },
    /// Another server has left it.
    Left(Info),
}

/// A running device.
struct Block {
    number: u32,
    device: Arc<Device<VolumeExport>>,
    /// Of its queues: each is resolved when the queue has ended.
    ended: Vec<oneshot::Receiver<()>>,
    /// A later server can take it over.
    is_recoverable: bool,
}

/// Serves a volume as a block device until it is detached, the volume is removed, or the server ends. Its number goes to
/// `started`.
pub(super) async fn live(
    served: Arc<Served>,
    export: Arc<VolumeExport>,
    from: Beginning,
    started: oneshot::Sender<Result<u32, Error>>,
) {
    let what = format!("volume {}", export.name);
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let peer = Peer::Process { uid: rustix::process::getuid().as_raw(), pid: own };
    let admission = match served.connections.admit(peer) {
        Ok(admission) => admission,
        Err(reason) => {
            // Who asked may have given up.
            let _ = started.send(Err(Error::new(what, reason).or("raise max_connections")));
            return;
        }
    };
    let list = ExportList::new(&served, peer, None, || admission.begin());
    let Some(opened) = list.open(&export.name).filter(|_| !served.connections.stop.is_set()) else {
        let _ = started.send(Err(Error::new(what, "it is not served any more")));
        return;
    };
    list.begin(&opened.disk);
    let block = match Box::pin(begin(&served, &export, opened, from)).await {
        Ok(block) => block,
        Err(error) => {
            let _ = started.send(Err(error.within(what)));
            return;
        }
    };
    let (detach, asked) = unbounded();
    let number = block.number;
    served.block_devices.attached.lock().insert(export.name.clone(), Attached { number, detach });
    tracing::info!("{what}: it is {}", block_path(number));
    let _ = started.send(Ok(number));
    Box::pin(tend(&served, &export, &list, block, asked)).await;
    served.block_devices.attached.lock().remove(&export.name);
}

/// Makes a device, or takes it over.
async fn begin(
    served: &Served,
    export: &VolumeExport,
    opened: Opened<VolumeExport>,
    from: Beginning,
) -> Result<Block, Error> {
    let Some((host, memory)) = served.block_devices.host.get() else {
        return Err(Error::new("block device", "the server is not ready").or("try again"));
    };
    // Without a cache, a volume has no identity by which a later server could know its devices.
    let record = export.entry.path.as_ref().and_then(|_| served.block_devices.record(export.unit.uuid));
    let tag = tag(export.unit.uuid);
    let (info, file) = match from {
        Beginning::New { block_bytes } => {
            warn_of_memory();
            let recovery = record.map_or(0, |_| feature::RECOVERY | feature::REISSUE);
            let queues = served.threads().0.clamp(1, QUEUES_MAX) as u16;
            let wanted = Info::new(queues, DEPTH, feature::USER_COPY | feature::IOCTL_CODES | recovery, tag);
            let parameters = Parameters::new(&opened.disk.info(), block_bytes);
            let (info, file) = aside(move || driver::make(&wanted, &parameters)).await??;
            if let Some(record) = record {
                record.begin(tag, info.number);
            }
            note_name(info.number, &export.name);
            (info, file)
        }
        Beginning::Left(info) => (info, aside(move || driver::take_over(info.number)).await??),
    };
    let unflushed = record.map_or_else(Unflushed::default, |record| record.unflushed());
    let device = Arc::new(Device::new(opened.disk, opened.requester, Arc::clone(memory), unflushed));
    let mut block = Block {
        number: info.number,
        device,
        ended: Vec::new(),
        is_recoverable: info.features & feature::RECOVERY != 0,
    };
    let go = match from {
        Beginning::New { .. } => driver::start,
        Beginning::Left(_) => driver::resume,
    };
    let begun = match block.serve_queues(host, &info, &file) {
        Ok(()) => {
            drop(file);
            block.go(move || go(info.number)).await
        }
        Err(error) => {
            drop(file);
            Err(error)
        }
    };
    if let Err(error) = begun {
        // A device that was left may be taken over by another server.
        if matches!(from, Beginning::New { .. })
            && let Err(other) = block.remove(Manner::Forced).await
        {
            tracing::warn!("{other}");
        }
        return Err(error);
    }
    Ok(block)
}

/// Warns if the kernel may let the server wait for itself when memory is short.
fn warn_of_memory() {
    if !rustix::process::is_io_flusher().unwrap_or(false) {
        tracing::warn!(
            "without CAP_SYS_RESOURCE, the server may wait for writes to its own block devices when memory is short; \
             docs/guide/mounting.md has the rights that it needs"
        );
    }
}

impl Block {
    /// Starts all queues on the threads that serve clients.
    fn serve_queues(&mut self, host: &impl Host, info: &Info, file: &Arc<OwnedFd>) -> Result<(), Error> {
        for index in 0..info.queues {
            let queue = Queue::open(file, index, info.depth).map_err(|e| {
                Error::new("block device", format_args!("a queue cannot be mapped: {e}"))
                    .or("see the kernel's log (dmesg)")
            })?;
            let (device, (running, ended)) = (Arc::clone(&self.device), oneshot::channel::<()>());
            let task = move || {
                let serving = async move {
                    serve(device, Kernel(queue), index).await;
                    drop(running);
                };
                serving.boxed_local()
            };
            if !host.spawn(self.number as usize + usize::from(index), Box::new(task)) {
                return Err(Error::new("block device", "the threads that serve clients have ended"));
            }
            self.ended.push(ended);
        }
        Ok(())
    }

    /// Runs a command that waits for all queues. If one of them has ended, it would wait for ever.
    async fn go(&mut self, command: impl FnOnce() -> Result<(), Error> + Send + 'static) -> Result<(), Error> {
        let broken = select_first(&mut self.ended);
        match select(pin!(aside(command)), pin!(broken)).await {
            Either::Left((done, _)) => done?,
            Either::Right(((), _)) => Err(Error::new("block device", "the kernel refuses to serve its queues")
                .or("see the kernel's log (dmesg); io_uring must be allowed for the server")),
        }
    }

    /// Removes the device.
    async fn remove(&mut self, manner: Manner) -> Result<(), Error> {
        let number = self.number;
        aside(move || driver::stop(number, manner)).await??;
        // The kernel has ended their commands.
        join_all(self.ended.drain(..)).await;
        forget_name(number);
        aside(move || driver::delete(number)).await?
    }
}

/// Waits until one of the queues has ended.
async fn select_first(ended: &mut [oneshot::Receiver<()>]) {
    if ended.is_empty() {
        return future::pending().await;
    }
    let _ = future::select_all(ended.iter_mut()).await;
}

/// Waits for what ends a device, and ends it.
async fn tend(
    served: &Served,
    export: &VolumeExport,
    list: &ExportList<'_>,
    mut block: Block,
    mut asked: UnboundedReceiver<Detach>,
) {
    let (what, number) = (format!("volume {}", export.name), block.number);
    let path = block_path(number);
    let stop = async {
        select(pin!(served.connections.stop.wait()), pin!(list.wait(|export| &export.gone))).await;
    };
    let mut stop = pin!(stop);
    loop {
        let answer = {
            let broken = pin!(select_first(&mut block.ended));
            match select(select(asked.next(), broken), stop.as_mut()).await {
                Either::Left((Either::Left((Some(answer), _)), _)) => answer,
                Either::Left((Either::Right(_), _)) => {
                    forget_name(number);
                    return tracing::warn!("{what}: {path} was removed by another program");
                }
                Either::Left((Either::Left((None, _)), _)) | Either::Right(_) => break,
            }
        };
        let removed = block.remove(Manner::IfUnused).await.map_err(|e| e.within(&what));
        let is_removed = removed.is_ok();
        // Who asked may have given up.
        let _ = answer.send(removed);
        if is_removed {
            return tracing::info!("{what}: {path} was detached");
        }
    }
    end(served, list, &mut block, &what).await;
}

/// Removes a device whose volume or server ends. A device in use stays for the next server, if it can; otherwise it is removed
/// when the volume's clients are cut off.
async fn end(served: &Served, list: &ExportList<'_>, block: &mut Block, what: &str) {
    let path = block_path(block.number);
    loop {
        let Err(error) = block.remove(Manner::IfUnused).await else {
            return tracing::info!("{what}: {path} was removed");
        };
        tracing::debug!("{error}");
        if served.connections.stop.is_set() && block.is_recoverable {
            break;
        }
        let cut = async {
            select(pin!(served.connections.cut.wait()), pin!(list.wait(|export| &export.cut))).await;
        };
        if let Either::Left(_) = select(pin!(cut), pin!(sleep(REMOVE_TURN))).await {
            tracing::warn!("{what}: {path} is in use; it is removed, and who uses it gets errors");
            if let Err(error) = block.remove(Manner::Forced).await {
                tracing::error!("{error}");
            }
            return;
        }
    }
    match select(pin!(block.device.leave()), pin!(served.connections.cut.wait())).await {
        Either::Left((Ok(()), _)) => tracing::warn!("{what}: {path} is in use: its requests wait for the next server"),
        Either::Left((Err(error), _)) => {
            tracing::error!("{what}: {path} is in use, and its last flush failed: {error}")
        }
        Either::Right(_) => tracing::error!("{what}: {path} is in use, and its last requests did not end in time"),
    }
}

/// A queue of the kernel's.
struct Kernel(Queue);

impl Channel for Kernel {
    fn depth(&self) -> u16 {
        self.0.depth()
    }

    async fn next(&self, tag: u16, result: Option<i32>) -> io::Result<Descriptor> {
        let nitro_device::ublk::Descriptor { operation, sectors, first_sector, .. } = self.0.next(tag, result).await?;
        Ok(Descriptor { operation, sectors, first_sector })
    }

    fn take(&self, tag: u16, into: &mut [u8]) -> io::Result<()> {
        self.0.take(tag, 0, into)
    }

    fn put(&self, tag: u16, pieces: &[Bytes]) -> io::Result<()> {
        self.0.put(tag, 0, pieces)
    }
}

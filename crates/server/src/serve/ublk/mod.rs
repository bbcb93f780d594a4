//! Block devices on the host (ublk): which volumes have one, how they get it, and how it is taken over after a crash.

mod block;
mod driver;
pub(super) mod own;
mod record;

use super::Served;
use super::operate::Turn;
use super::reactors::QueueHost;
use crate::control::protocol::Outcome;
use crate::export::VolumeExport;
use crate::origins::{Uuid, aside};
use block::Beginning;
pub(super) use driver::check;
use futures_channel::mpsc::UnboundedSender;
use futures_channel::oneshot;
use nitro_config::Address;
use nitro_console::error::Error;
use nitro_device::spawn_local;
use nitro_device::ublk::block_path;
use nitro_frontend::RequestMemory;
use nitro_ublk::abi::{Info, State, feature};
use parking_lot::Mutex;
use record::{Left, Record, tag};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A request to detach a device, with the place for its answer.
type Detach = oneshot::Sender<Result<(), Error>>;

/// The block devices of a server.
#[derive(Default)]
pub struct BlockDevices {
    /// The threads that serve them, and the memory for their requests; known once the server serves.
    host: OnceLock<(QueueHost, Arc<RequestMemory>)>,
    attached: Mutex<BTreeMap<String, Attached>>,
    /// By the tag of the volume; kept, since they stay mapped.
    records: Mutex<BTreeMap<u64, Option<Record>>>,
}

/// A volume's device.
struct Attached {
    number: u32,
    detach: UnboundedSender<Detach>,
}

impl BlockDevices {
    /// Notes the threads that serve devices, and the memory for requests.
    pub(super) fn open(&self, host: QueueHost, memory: &Arc<RequestMemory>) {
        // It is called once.
        let _ = self.host.set((host, Arc::clone(memory)));
    }

    /// The block device of a volume.
    pub(crate) fn path(&self, volume: &str) -> Option<String> {
        self.attached.lock().get(volume).map(|attached| block_path(attached.number))
    }

    fn record(&self, volume: Uuid) -> Option<Record> {
        *self.records.lock().entry(tag(volume)).or_insert_with(|| Record::of(volume))
    }
}

/// Lets the threads that the calling one starts allocate memory without waiting for the writing of pages that they themselves
/// write (`PR_SET_IO_FLUSHER`, Linux 5.6). Needs `CAP_SYS_RESOURCE`.
pub(super) fn become_flusher() {
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        tracing::debug!(%error, "the kernel may let this server wait for its own writes when memory is short");
    }
}

/// Makes a volume a block device of this machine; returns its path.
pub(crate) async fn attach(served: &Arc<Served>, name: &str, block_bytes: Option<u32>) -> Result<Outcome, Error> {
    let export = served.named(name)?;
    let turn = Turn::take(&export)?;
    if let Some(path) = served.block_devices.path(name) {
        return Ok(outcome(&export, format!("volume {name}: it is {path} already"), Some(path)));
    }
    let block_bytes = block_bytes.unwrap_or(export.block_bytes);
    if !(block_bytes.is_power_of_two() && (512..=4096).contains(&block_bytes)) {
        let why = format!("a device cannot have blocks of {block_bytes} bytes");
        return Err(Error::new(format_args!("volume {name}"), why).or("use 512, 1024, 2048 or 4096"));
    }
    if block_bytes < export.block_bytes {
        let why = format!("its blocks have {} bytes, more than {block_bytes}", export.block_bytes);
        return Err(Error::new(format_args!("volume {name}"), why).or("leave the size of blocks out"));
    }
    let number = launch(served, &export, Beginning::New { block_bytes }).await?;
    drop(turn);
    let path = block_path(number);
    Ok(outcome(&export, format!("volume {name}: it is {path} from now on"), Some(path)))
}

/// Removes the block device of a volume, unless it is in use.
pub(crate) async fn detach(served: &Arc<Served>, name: &str) -> Result<Outcome, Error> {
    let export = served.named(name)?;
    let what = || Error::new(format_args!("volume {name}"), "it has no block device").or("nitro attach makes one");
    let (answer, answered) = oneshot::channel();
    let path = {
        let attached = served.block_devices.attached.lock();
        let attached = attached.get(name).ok_or_else(what)?;
        attached.detach.unbounded_send(answer).map_err(|_| what())?;
        block_path(attached.number)
    };
    answered.await.map_err(|_| what())??;
    Ok(outcome(&export, format!("volume {name}: {path} is removed"), None))
}

fn outcome(export: &VolumeExport, message: String, device: Option<String>) -> Outcome {
    Outcome { message, device, dirty_bytes: export.dirty_bytes(), ..Outcome::default() }
}

/// Starts the task of a device; returns its number when it can be used.
async fn launch(served: &Arc<Served>, export: &Arc<VolumeExport>, from: Beginning) -> Result<u32, Error> {
    let (started, start) = oneshot::channel();
    spawn_local(block::live(Arc::clone(served), Arc::clone(export), from, started));
    let ended = |_| Err(Error::new(format_args!("volume {}", export.name), "its block device could not be begun"));
    start.await.unwrap_or_else(ended)
}

/// Takes over the devices that a killed server has left, and makes those that the configuration asks for. To be called before
/// clients are told that the server is ready.
///
/// # Errors
/// A device that the configuration asks for cannot be made; those made before are removed again.
pub(super) async fn begin(served: &Arc<Served>) -> Result<(), Error> {
    let found = aside(driver::all).await?;
    for export in served.all() {
        take_over(served, &export, &found).await;
    }
    let mut made = Vec::new();
    for export in wanted(served) {
        match attach(served, &export.name, None).await {
            Ok(_) => made.push(export.name.clone()),
            Err(error) => {
                for name in made {
                    if let Err(error) = detach(served, &name).await {
                        tracing::warn!("{error}");
                    }
                }
                return Err(error.within(format_args!("listen {}", Address::Ublk)));
            }
        }
    }
    Ok(())
}

/// Makes devices of volumes that are added later, as long as it is polled.
pub(super) async fn follow(served: &Arc<Served>) {
    let mut known: BTreeSet<_> = served.all().iter().map(|export| export.name.clone()).collect();
    loop {
        let grown = served.grown.listen();
        let all = served.all();
        known.retain(|name| all.iter().any(|export| export.name == *name));
        let new: Vec<_> = all.into_iter().filter(|export| known.insert(export.name.clone())).collect();
        for export in new {
            if let Ok(found) = aside(driver::all).await {
                take_over(served, &export, &found).await;
            }
            if is_wanted(served, &export)
                && let Err(error) = attach(served, &export.name, None).await
            {
                tracing::error!("{error}");
            }
        }
        grown.await;
    }
}

fn wanted(served: &Served) -> impl Iterator<Item = Arc<VolumeExport>> {
    served.all().into_iter().filter(|export| is_wanted(served, export))
}

fn is_wanted(served: &Served, export: &VolumeExport) -> bool {
    served.is_on_ublk && export.is_offered_on(&Address::Ublk) && served.block_devices.path(&export.name).is_none()
}

/// Takes over the device of a volume that a killed server has left, if there is one.
async fn take_over(served: &Arc<Served>, export: &Arc<VolumeExport>, found: &[Info]) {
    let tag = tag(export.unit.uuid);
    for info in found.iter().filter(|info| info.tag == tag).copied() {
        if let Err(error) = take_over_one(served, export, info).await {
            tracing::error!("volume {}: {}: {error}", export.name, block_path(info.number));
        }
    }
}

async fn take_over_one(served: &Arc<Served>, export: &Arc<VolumeExport>, info: Info) -> Result<(), Error> {
    let path = block_path(info.number);
    if served.block_devices.path(&export.name).as_ref() == Some(&path) {
        return Ok(());
    }
    let info = aside(move || driver::released(info)).await??;
    // It was never started, or is already removed; or it ends with its server; or the volume has another one.
    let is_of_use = info.state != State::Dead && info.features & feature::RECOVERY != 0;
    if !is_of_use || served.block_devices.path(&export.name).is_some() {
        return remove(info.number).await;
    }
    let left = served
        .block_devices
        .record(export.unit.uuid)
        .map_or(Left::Unknown, |record| record.left(tag(export.unit.uuid), info.number));
    let is_safe = match left {
        Left::Safe => true,
        Left::Unflushed => false,
        Left::Unknown => export.volume.keeps_writes(),
    };
    if !is_safe {
        tracing::error!(
            "volume {}: the last server ended before acknowledged writes to {path} were flushed, and they are lost: the device is \
             removed, and who uses it gets errors; unmount its file system, and check it",
            export.name
        );
        return remove(info.number).await;
    }
    launch(served, export, Beginning::Left(info)).await?;
    tracing::info!("volume {}: {path} is served again", export.name);
    Ok(())
}

/// Removes a device that no server serves, whoever uses it.
async fn remove(number: u32) -> Result<(), Error> {
    forget_name(number);
    aside(move || driver::stop(number, driver::Manner::Forced).and_then(|()| driver::delete(number))).await?
}

/// The folder in which the rule of udev finds the names of volumes.
const NAMES: &str = "/run/nitro/ublk";

fn name_file(number: u32) -> PathBuf {
    Path::new(NAMES).join(format!("ublkb{number}"))
}

/// Tells udev the volume of a device, for the link `/dev/nitro/VOLUME`. Without it, only the link is missing.
fn note_name(number: u32, volume: &str) {
    let file = name_file(number);
    forget_name(number);
    // It follows no link.
    let create = || File::create_new(&file)?.write_all(format!("{volume}\n").as_bytes());
    let noted = fs::create_dir_all(NAMES).and_then(|()| create());
    if let Err(error) = noted {
        tracing::debug!(%error, "{}: there will be no link in /dev/nitro", file.display());
    }
}

fn forget_name(number: u32) {
    // It may never have been noted.
    let _ = fs::remove_file(name_file(number));
}

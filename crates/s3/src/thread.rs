//! The thread of a volume: `object_store` needs tokio, and nothing else of a server does.

use crate::aws::{Bucket, Place};
use crate::device::{S3Disk, serve};
use crate::error::{S3Error, StoreError};
use crate::format::{Header, Snapshot};
use crate::volume::Options;
use futures_channel::oneshot;
use nitro_port::Clock;
use std::io;
use std::time::{Duration, Instant};

/// Time by tokio.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// How long a volume may take to be made or opened: a wrong endpoint is found out.
const OPENING: Duration = Duration::from_secs(120);

async fn in_time<T>(opening: impl Future<Output = Result<T, S3Error>>) -> Result<T, S3Error> {
    let late = || StoreError::Unsure(format!("the store does not answer within {} s", OPENING.as_secs()));
    tokio::time::timeout(OPENING, opening).await.unwrap_or_else(|_| Err(late().into()))
}

fn seed() -> Result<u64, S3Error> {
    getrandom::u64().map_err(|e| StoreError::Refused(format!("random numbers: {e}")).into())
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    // The process's default for TLS; it may have been installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Opens a volume for writing or reading, or a snapshot for reading, and serves it on a thread of its own until the device is dropped.
/// `label` is what log lines call it, `name` the thread's.
///
/// # Errors
/// There is no volume, or no such snapshot, or the store refuses, or there is no thread.
pub async fn start(place: Place, label: &str, name: &str, is_read_only: bool) -> Result<S3Disk, S3Error> {
    let (opened, opening) = oneshot::channel();
    let label = label.to_owned();
    let run = move || {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(error) => return drop(opened.send(Err(no_thread(&error)))),
        };
        runtime.block_on(async {
            let clock = TokioClock(Instant::now());
            let volume = async {
                let store = Bucket::new(&place)?;
                let (clock, options) = (TokioClock(clock.0), Options::default());
                match &place.snapshot {
                    Some(name) => crate::open_snapshot(store, clock, (&label, name), seed()?, options).await,
                    None => crate::open(store, clock, &label, seed()?, options, is_read_only).await,
                }
            };
            let is_read_only = is_read_only || place.snapshot.is_some();
            match in_time(volume).await {
                Ok(volume) => {
                    let (disk, jobs) = S3Disk::new(&volume, is_read_only);
                    // If nobody waits any more, the disk is dropped, and this ends.
                    drop(opened.send(Ok(disk)));
                    serve(&volume, &clock, is_read_only, jobs).await;
                }
                Err(error) => drop(opened.send(Err(error))),
            }
        });
    };
    let thread = std::thread::Builder::new().name(format!("s3 {name}"));
    // It ends with the device.
    drop(thread.spawn(run).map_err(|e| no_thread(&e))?);
    opening.await.unwrap_or(Err(S3Error::Ended))
}

fn no_thread(error: &io::Error) -> S3Error {
    StoreError::Refused(format!("there is no thread for it: {error}")).into()
}

/// The snapshots of the volume at a place, which is not taken over, in the order in which they were made. Blocks.
///
/// # Errors
/// There is no volume, or it is damaged, or the store refuses.
pub fn list(place: &Place) -> Result<Vec<Snapshot>, S3Error> {
    let runtime = runtime().map_err(|e| no_thread(&e))?;
    runtime.block_on(async {
        let (store, clock) = (Bucket::new(place)?, TokioClock(Instant::now()));
        in_time(async {
            let volume = crate::open(store, clock, &place.to_string(), seed()?, Options::default(), true).await?;
            Ok(volume.snapshots())
        })
        .await
    })
}

/// Makes a volume of a size at a place, after the store was probed. Blocks.
///
/// # Errors
/// There is something already, or the store refuses or cannot keep a volume.
pub fn create(place: &Place, size_bytes: u64, chunk_bytes: u32) -> Result<Header, S3Error> {
    let runtime = runtime().map_err(|e| no_thread(&e))?;
    runtime.block_on(async {
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&seed()?.to_le_bytes());
        uuid[8..].copy_from_slice(&seed()?.to_le_bytes());
        let header = Header { uuid, size_bytes, chunk_bytes };
        let (store, clock) = (Bucket::new(place)?, TokioClock(Instant::now()));
        in_time(crate::create(store, clock, &place.to_string(), seed()?, &header)).await?;
        Ok(header)
    })
}

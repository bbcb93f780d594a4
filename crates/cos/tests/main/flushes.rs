//! A device whose flush fails once, and that goes on as if nothing had happened, as devices behind the kernel do.

use crate::model::{CHUNK, Model, bytes_of, erased, plan, settings};
use bytes::Bytes;
use futures_executor::block_on;
use nitro_cos::{CollectOptions, Error, Store};
use nitro_port::{Device, DeviceError, ErrorKind, Geometry, Operation};
use nitro_testkit::{CrashingDevice, Erased};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const SIZE_BYTES: u64 = 8 << 20;
/// No flush fails.
const NONE: u64 = u64::MAX;

/// A device of which one flush fails.
struct FailingFlush {
    inner: CrashingDevice,
    /// Flushes before that one.
    left: AtomicU64,
}

impl Device for FailingFlush {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.inner.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.inner.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        let left = self.left.load(SeqCst);
        self.left.store(if left == 0 { NONE } else { left.saturating_sub((left != NONE).into()) }, SeqCst);
        if left == 0 {
            return Err(DeviceError::new(ErrorKind::Io, Operation::Flush, 0, 0));
        }
        self.inner.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, len).await
    }

    async fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.reserve(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.inner.write_zeroes(offset, len, may_unmap).await
    }
}

/// Each kind of change; its number of kinds ends them.
async fn change(store: &Arc<Store<Erased>>, kind: usize) -> Option<Result<(), Error>> {
    let volume = store.open_volume("a").await.unwrap();
    Some(match kind {
        0 => volume.write_range(0, bytes_of(&[90, 91])).await,
        1 => volume.zero_range(0, 4 * CHUNK as u64).await,
        2 => store.create_volume("new", CHUNK as u64, None, 1).await,
        3 => store.clone_object("a", "clone", 1).await,
        4 => store.snapshot("a@snapshot", 1).await,
        5 => store.delete("b").await,
        6 => store.set_quota(Some(4 << 20)).await,
        7 => store.begin_import("import", CHUNK as u64, (None, 1), 1).await.map(drop),
        8 => store.commit().await,
        9 => store.checkpoint().await,
        10 => store.collect(&CollectOptions::default(), &|_, _, _| ()).await.map(drop),
        11 => store.close().await,
        _ => return None,
    })
}

/// Commits or writes a checkpoint of a store while a flush of its device fails, `left` flushes from now. Returns
/// whether that was reached.
async fn fails(left: u64, checkpoint: bool) -> bool {
    let inner = CrashingDevice::new(SIZE_BYTES, 4096, left);
    let device = Arc::new(FailingFlush { inner: inner.clone(), left: AtomicU64::new(NONE) });
    let store = Store::create(erased(&device), &plan(SIZE_BYTES, 1), settings()).await.unwrap();
    let (store, mut model) = (Arc::new(store), Model::default());
    for (name, first) in [("a", 1), ("b", 50)] {
        store.create_volume(name, 40 * CHUNK as u64, None, 1).await.unwrap();
        model.create(name, 40);
        let numbers: Vec<u64> = (first..first + 40).collect();
        store.open_volume(name).await.unwrap().write_range(0, bytes_of(&numbers)).await.unwrap();
        (0..).zip(&numbers).for_each(|(index, number)| model.write(name, index, *number));
    }
    store.commit().await.unwrap();
    model.committed();
    let later: Vec<u64> = (200..220).collect();
    store.open_volume("a").await.unwrap().write_range(0, bytes_of(&later)).await.unwrap();
    (0..).zip(&later).for_each(|(index, number)| model.write("a", index, *number));

    device.left.store(left, SeqCst);
    let done = if checkpoint { store.checkpoint().await } else { store.commit().await };
    if device.left.load(SeqCst) != NONE {
        done.unwrap();
        return false;
    }
    done.expect_err("a flush failed, and the store says that everything is durable");
    let before: Vec<_> = store.list().await.unwrap();
    let mut kind = 0;
    while let Some(done) = change(&store, kind).await {
        assert!(matches!(done, Err(Error::Poisoned(_))), "flush {left}, change {kind}: {done:?}");
        kind += 1;
    }
    assert_eq!((kind, store.list().await.unwrap()), (12, before), "what was refused is not there");
    let read = store.open_volume("b").await.unwrap().read_range(0, 40 * CHUNK).await.unwrap();
    assert!(read == bytes_of(&(50..90).collect::<Vec<_>>()), "it can be read");

    // What was committed before is there, and the store takes changes again.
    let device = Arc::new(FailingFlush { inner: inner.crashed(), left: AtomicU64::new(NONE) });
    let store = Arc::new(Store::open(erased(&device), settings()).await.unwrap());
    model.restarted(&store).await;
    for kind in 0..9 {
        change(&store, kind).await.unwrap().unwrap();
    }
    true
}

#[test]
fn after_a_failed_flush_all_changes_are_refused_until_the_store_is_opened_again() {
    for checkpoint in [false, true] {
        let mut left = 0;
        while block_on(fails(left, checkpoint)) {
            left += 1;
        }
        assert!(left >= if checkpoint { 4 } else { 2 }, "{left} flushes, checkpoint: {checkpoint}");
    }
}

nitro_port::plain_origin!(FailingFlush);

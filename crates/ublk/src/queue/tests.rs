use super::*;
use crate::abi::SECTOR_BYTES;
use futures_executor::block_on;
use futures_util::future::Either;
use nitro_frontend::{DiskInfo, Pieces, Requester, Run, StatusOf, Unflushed};
use parking_lot::Mutex as Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DISK_BYTES: usize = 1 << 20;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;
const DISCARD: u32 = 3;
const FUA: u32 = 1 << 13;

/// A disk in RAM that says whether its writes survive the process.
struct Ram {
    bytes: Cell<Vec<u8>>,
    keeps: AtomicBool,
    /// Reads return a byte less than was asked for.
    is_short: bool,
}

impl Disk for Ram {
    fn info(&self) -> DiskInfo {
        DiskInfo::new(DISK_BYTES as u64)
    }

    fn keeps_writes(&self) -> bool {
        self.keeps.load(Ordering::SeqCst)
    }

    async fn read(&self, _: Requester, offset: u64, len: u32) -> Result<Pieces, DiskError> {
        let end = offset as usize + len as usize - usize::from(self.is_short);
        let data = self.bytes.lock()[offset as usize..end].to_vec();
        let rest = data[1..].to_vec();
        Ok(Pieces::from_iter([Bytes::from(data[..1].to_vec()), Bytes::from(rest)]))
    }

    async fn write(&self, _: Requester, offset: u64, data: Bytes, _: bool) -> Result<(), DiskError> {
        self.bytes.lock()[offset as usize..][..data.len()].copy_from_slice(&data);
        Ok(())
    }

    async fn flush(&self, _: Requester) -> Result<(), DiskError> {
        Ok(())
    }

    async fn trim(&self, from: Requester, offset: u64, len: u32, _: bool) -> Result<(), DiskError> {
        self.write_zeroes(from, offset, len, ZeroFlags::default()).await
    }

    async fn write_zeroes(&self, _: Requester, offset: u64, len: u32, _: ZeroFlags) -> Result<(), DiskError> {
        self.bytes.lock()[offset as usize..][..len as usize].fill(0);
        Ok(())
    }

    async fn cache(&self, _: Requester, _: u64, _: u32) -> Result<(), DiskError> {
        Ok(())
    }

    async fn status(&self, _: StatusOf, _: u64, _: u32) -> Result<Vec<Run>, DiskError> {
        Err(DiskError::Unsupported)
    }
}

/// A kernel with one request after another, and their data.
#[derive(Default)]
struct Kernel {
    requests: Cell<Vec<(Descriptor, Vec<u8>)>>,
    under_way: Cell<BTreeMap<u16, Vec<u8>>>,
    /// Answers, with the data after the request.
    answers: Cell<Vec<(i32, Vec<u8>)>>,
}

impl Channel for &Kernel {
    fn depth(&self) -> u16 {
        1
    }

    async fn next(&self, tag: u16, result: Option<i32>) -> io::Result<Descriptor> {
        let before = self.under_way.lock().remove(&tag);
        assert_eq!(before.is_some(), result.is_some());
        if let (Some(data), Some(result)) = (before, result) {
            self.answers.lock().push((result, data));
        }
        let (descriptor, data) = self.requests.lock().pop().ok_or(io::ErrorKind::NotFound)?;
        self.under_way.lock().insert(tag, data);
        Ok(descriptor)
    }

    fn take(&self, tag: u16, into: &mut [u8]) -> io::Result<()> {
        into.copy_from_slice(&self.under_way.lock()[&tag]);
        Ok(())
    }

    fn put(&self, tag: u16, pieces: &[Bytes]) -> io::Result<()> {
        *self.under_way.lock().get_mut(&tag).unwrap() = pieces.concat();
        Ok(())
    }
}

fn device(keeps: bool, is_short: bool) -> (Arc<Device<Ram>>, Arc<AtomicU64>) {
    let disk = Ram { bytes: Cell::new(vec![0; DISK_BYTES]), keeps: keeps.into(), is_short };
    let word = Arc::new(AtomicU64::new(0));
    let stored = Arc::clone(&word);
    let unflushed = Unflushed::new(move |value| {
        stored.store(value, Ordering::SeqCst);
        Ok(())
    });
    (Arc::new(Device::new(Arc::new(disk), Requester::default(), Arc::default(), unflushed)), word)
}

/// Sends requests, and returns their answers.
fn run(device: &Arc<Device<Ram>>, requests: &[(u32, u64, u32, &[u8])]) -> Vec<(i32, Vec<u8>)> {
    let kernel = Kernel::default();
    let described = requests.iter().rev().map(|(operation, first_sector, sectors, data)| {
        let (operation, sectors, first_sector) = (*operation, *sectors, *first_sector);
        (Descriptor { operation, sectors, first_sector }, data.to_vec())
    });
    kernel.requests.lock().extend(described);
    block_on(serve(Arc::clone(device), &kernel, 0));
    kernel.answers.into_inner()
}

#[test]
fn requests_reach_the_disk_and_their_answers_the_kernel() {
    let (device, _) = device(true, false);
    let data: Vec<u8> = (0..1024).map(|at| at as u8 | 1).collect();
    let sectors = DISK_BYTES as u64 / SECTOR_BYTES;
    let answers = run(
        &device,
        &[
            (WRITE, 4, 2, &data),
            (0, 4, 2, &[]),
            (DISCARD, 4, 1, &[]),
            (0, 4, 2, &[]),
            (0, sectors, 1, &[]),
            (77, 0, 1, &[]),
            (FLUSH, 0, 0, &[]),
        ],
    );
    let results: Vec<_> = answers.iter().map(|(result, _)| *result).collect();
    assert_eq!(results, [1024, 1024, 0, 1024, -22, -95, 0]);
    assert_eq!(answers[1].1, data);
    assert_eq!(answers[3].1, [vec![0; 512], data[512..].to_vec()].concat());
}

#[test]
fn a_read_that_is_short_shows_nothing_of_the_kernels_memory() {
    let (device, _) = device(true, true);
    assert_eq!(run(&device, &[(0, 0, 2, &[])]), [(-5, vec![])]);
}

#[test]
fn what_a_crash_would_lose_is_recorded_until_it_is_flushed() {
    let (device, word) = device(false, false);
    let data = &[1; 512][..];
    for (request, lost) in [
        ((WRITE | FUA, 0, 1, data), 0),
        ((WRITE, 0, 1, data), 1),
        ((WRITE | FUA, 0, 1, data), 1),
        ((FLUSH, 0, 0, &data[..0]), 0),
        ((DISCARD, 0, 1, &data[..0]), 1),
    ] {
        run(&device, &[request]);
        assert_eq!(word.load(Ordering::SeqCst), lost, "{request:?}");
    }
    block_on(device.leave()).unwrap();
    assert_eq!(word.load(Ordering::SeqCst), 0, "who leaves in order loses nothing");
}

#[test]
fn a_disk_that_keeps_writes_records_nothing() {
    let (device, word) = device(true, false);
    run(&device, &[(WRITE, 0, 1, &[1; 512])]);
    assert_eq!(word.load(Ordering::SeqCst), 0);
    device.disk.keeps.store(false, Ordering::SeqCst);
    run(&device, &[(WRITE, 0, 1, &[1; 512])]);
    assert_eq!(word.load(Ordering::SeqCst), 1);
}

#[test]
fn a_device_that_leaves_answers_what_it_has_begun_and_begins_nothing() {
    let (device, _) = device(true, false);
    let under_way = device.begin().unwrap();
    block_on(async {
        match select(pin!(device.leave()), pin!(std::future::ready(()))).await {
            Either::Left(_) => panic!("a request is under way"),
            Either::Right(((), leaving)) => {
                drop(under_way);
                leaving.await.unwrap();
            }
        }
    });
    assert!(run(&device, &[(WRITE, 0, 1, &[1; 512])]).is_empty(), "the request is left to the next server");
    assert_eq!(device.disk.bytes.lock()[0], 0);
}

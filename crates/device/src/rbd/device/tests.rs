//! The device on a model of librbd, which answers late, in any order, with errors and with lies.

use super::*;
use futures_util::FutureExt;
use futures_util::future::join_all;
use nitro_testkit::Rng;
use parking_lot::Mutex;

const SIZE: u64 = 1 << 20;
const PART: usize = 4096;

/// What the model does with the next requests.
#[derive(Clone, Copy)]
enum Mood {
    /// It carries them out.
    Well,
    /// It answers with an error of the operating system.
    Fails(i32),
    /// It answers with this number instead of the length.
    Lies(i64),
    /// It answers with another request.
    Mixes,
    /// It does not answer.
    Forgets,
}

struct Model {
    content: Mutex<Vec<u8>>,
    waiting: Mutex<Vec<(Request, Done)>>,
    mood: Mutex<Mood>,
    /// Offset and length of the changes that have come.
    changes: Mutex<Vec<(u64, u64)>>,
}

impl Calls for Model {
    fn begin(&self, request: Request, done: Done) {
        self.waiting.lock().push((request, done));
    }
}

impl Model {
    fn answer_all(&self, rng: &mut Rng) {
        loop {
            let (request, done) = {
                let mut waiting = self.waiting.lock();
                let Some(count) = std::num::NonZeroUsize::new(waiting.len()) else { return };
                waiting.swap_remove(rng.below(count.get() as u64) as usize)
            };
            self.answer(request, done);
        }
    }

    fn answer(&self, mut request: Request, done: Done) {
        match *self.mood.lock() {
            Mood::Well => {
                let result = self.carry_out(&mut request);
                done.end(result, request);
            }
            Mood::Fails(number) => done.end(-i64::from(number), request),
            Mood::Lies(result) => done.end(result, request),
            Mood::Mixes => done.end(PART as i64, Request::Flush),
            Mood::Forgets => {}
        }
    }

    fn carry_out(&self, request: &mut Request) -> i64 {
        let mut content = self.content.lock();
        let mut zero = |offset: u64, len: u64| {
            self.changes.lock().push((offset, len));
            // The content is that of the beginning.
            let end = (offset + len).min(content.len() as u64);
            content[offset.min(end) as usize..end as usize].fill(0);
            0
        };
        match request {
            Request::Read { offset, into } => {
                let len = into.len();
                into.copy_from_slice(&content[*offset as usize..][..len]);
                len as i64
            }
            Request::Write { offset, data } => {
                self.changes.lock().push((*offset, data.len() as u64));
                content[*offset as usize..][..data.len()].copy_from_slice(data);
                data.len() as i64
            }
            Request::Discard { offset, len } | Request::WriteZeroes { offset, len, .. } => zero(*offset, *len),
            Request::Flush => 0,
        }
    }
}

fn device(size_bytes: u64, is_read_only: bool) -> (Arc<Model>, RbdDevice<Model>) {
    let model = Arc::new(Model {
        content: Mutex::new(vec![7; SIZE as usize]),
        waiting: Mutex::default(),
        mood: Mutex::new(Mood::Well),
        changes: Mutex::default(),
    });
    let device =
        RbdDevice::of(Arc::clone(&model), Arc::new(Fate::new("origin rbd:model/image")), size_bytes, is_read_only);
    (model, device)
}

/// The outcome of a request that the model answers at once.
fn now<T>(model: &Model, request: impl Future<Output = T>) -> T {
    let mut request = Box::pin(request);
    let mut rng = Rng::new(1);
    for _ in 0..1 << 16 {
        if let Some(outcome) = request.as_mut().now_or_never() {
            return outcome;
        }
        model.answer_all(&mut rng);
    }
    panic!("it waits for nothing that the model has");
}

#[test]
fn requests_are_under_way_side_by_side_and_answered_in_any_order_by_another_thread() {
    let (model, device) = device(SIZE, false);
    let data = |part: usize| Bytes::from(vec![part as u8; PART]);
    crate::Reactor::new().unwrap().block_on(async {
        for round in 0..8 {
            let writes = (0..64).map(|part| device.write((part * PART) as u64, data(part + round)));
            let mut writes = Box::pin(join_all(writes));
            assert!(writes.as_mut().now_or_never().is_none());
            assert_eq!(model.waiting.lock().len(), 64);
            let answering = Arc::clone(&model);
            let thread = std::thread::spawn(move || answering.answer_all(&mut Rng::new(round as u64)));
            assert!(writes.await.iter().all(Result::is_ok));
            thread.join().unwrap();
            let reads = (0..64).map(|part| device.read((part * PART) as u64, PART));
            let mut reads = Box::pin(join_all(reads));
            assert!(reads.as_mut().now_or_never().is_none());
            model.answer_all(&mut Rng::new(round as u64));
            for (part, read) in reads.await.into_iter().enumerate() {
                assert!(read.unwrap() == data(part + round));
            }
        }
    });
}

#[test]
fn what_librbd_has_not_read_is_not_returned() {
    let (model, device) = device(SIZE, false);
    for mood in [Mood::Lies(0), Mood::Lies(511), Mood::Lies(1 << 40), Mood::Mixes, Mood::Forgets, Mood::Lies(i64::MIN)]
    {
        *model.mood.lock() = mood;
        assert_eq!(now(&model, device.read(0, PART)).unwrap_err().kind, ErrorKind::Io);
    }
    *model.mood.lock() = Mood::Well;
    assert!(now(&model, device.read(0, PART)).unwrap() == vec![7; PART]);
    assert_eq!(now(&model, device.read(SIZE, PART)).unwrap_err().kind, ErrorKind::OutOfRange);
}

#[test]
fn an_image_whose_lock_was_broken_is_neither_read_nor_written_again() {
    let write = || Bytes::from(vec![1; PART]);
    for (number, by_read) in [(libc::ESHUTDOWN, false), (libc::ESHUTDOWN, true), (libc::EROFS, false)] {
        let (model, device) = device(SIZE, false);
        *model.mood.lock() = Mood::Fails(number);
        let error = match by_read {
            true => now(&model, device.read(0, PART)).unwrap_err(),
            false => now(&model, device.write(0, write())).unwrap_err(),
        };
        assert!(error.source.unwrap().to_string().contains("exclusive lock"));
        // It might answer again: the cluster forgets whom it refuses.
        *model.mood.lock() = Mood::Well;
        for failed in [
            device.read(0, PART).now_or_never().unwrap().map(drop),
            device.write(0, write()).now_or_never().unwrap(),
            device.flush().now_or_never().unwrap(),
            device.discard(0, SIZE).now_or_never().unwrap(),
        ] {
            assert_eq!(failed.unwrap_err().kind, ErrorKind::Io);
        }
        assert!(model.waiting.lock().is_empty() && model.content.lock().iter().all(|byte| *byte == 7));
    }
}

#[test]
fn other_errors_are_those_of_their_request_alone() {
    let (model, device) = device(SIZE, false);
    for (number, kind) in [
        (libc::ENOSPC, ErrorKind::NoSpace),
        (libc::EDQUOT, ErrorKind::NoSpace),
        (libc::EIO, ErrorKind::Io),
        (libc::ETIMEDOUT, ErrorKind::Io),
    ] {
        *model.mood.lock() = Mood::Fails(number);
        assert_eq!(now(&model, device.write(0, Bytes::from(vec![1; PART]))).unwrap_err().kind, kind);
        *model.mood.lock() = Mood::Well;
        assert!(now(&model, device.write(0, Bytes::from(vec![1; PART]))).is_ok());
    }
    // A snapshot is read-only by nature.
    *model.mood.lock() = Mood::Fails(libc::EROFS);
    assert!(now(&model, device.read(0, PART)).is_err());
    *model.mood.lock() = Mood::Well;
    assert!(now(&model, device.read(0, PART)).is_ok());
}

#[test]
fn long_ranges_come_in_parts_and_odd_sizes_have_small_blocks() {
    let (model, large) = device(1 << 40, false);
    let (offset, len) = (RANGE_BYTES_MAX - (1 << 20), 3 * RANGE_BYTES_MAX);
    now(&model, large.discard(offset, len)).unwrap();
    now(&model, large.write_zeroes(offset, len, true)).unwrap();
    let changes = model.changes.lock();
    assert_eq!(changes.len(), 8);
    assert_eq!(changes.iter().map(|(_, len)| len).sum::<u64>(), 2 * len);
    assert!(changes.iter().all(|(_, len)| *len <= RANGE_BYTES_MAX));
    assert!(changes[..4].windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0));
    assert_eq!(device(1000, false).1.geometry().block_bytes, 8);
    assert_eq!(device(SIZE, false).1.geometry().block_bytes, 512);
}

#[test]
fn a_snapshot_takes_no_changes() {
    let (model, device) = device(SIZE, true);
    for refused in [
        device.write(0, Bytes::from(vec![1; PART])).now_or_never().unwrap(),
        device.discard(0, SIZE).now_or_never().unwrap(),
        device.write_zeroes(0, SIZE, true).now_or_never().unwrap(),
    ] {
        assert_eq!(refused.unwrap_err().kind, ErrorKind::ReadOnly);
    }
    assert!(device.flush().now_or_never().unwrap().is_ok() && model.waiting.lock().is_empty());
    assert!(now(&model, device.read(0, PART)).is_ok());
}

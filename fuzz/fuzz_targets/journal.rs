//! Journals: whatever stands on the device, reading it takes memory for its size, and what is read can be gone on with.
//! Input: two bytes, how and how many log batches are accepted; then the area as it is (how is even), or batches, which
//! the fuzzer is let build with right headers: for each, a byte of flags, two of length, then its records. Flags: bits 0
//! and 1, kind; 2, the other half; 3, the start rises; 4, the next batch stands where this one does; 5 to 7: the chain,
//! the number of records or the checksum is wrong.
#![no_main]

use bytes::Bytes;
use futures_util::FutureExt as _;
use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_engine::format::journal::{HEADER_BYTES, Header, HeaderCrc, Kind};
use nitro_engine::journal::{AppendError, Area, Identity, Journal, Record, Replay};
use nitro_fuzz::gauge;
use nitro_log::crc32c;
use nitro_port::buf::BufMut;
use nitro_port::{Device, DeviceError, ErrorKind, Geometry, Operation};
use nitro_units::ExtentKey;
use std::future::Future;
use std::sync::Mutex;

const HALF_BYTES: usize = 8 << 10;
const AREA: Area = Area { offset: 0, len: 2 * HALF_BYTES as u64 };
const EPOCH: u64 = 7;

struct Ram(Mutex<Vec<u8>>);

impl Device for Ram {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: AREA.len, block_bytes: 512, preferred_bytes: 4096, rotational: false }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        let image = self.0.lock().expect("no panic so far");
        Ok(BufMut::copy_of(&image[offset as usize..offset as usize + len]).freeze())
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let mut image = self.0.lock().expect("no panic so far");
        image[offset as usize..offset as usize + data.len()].copy_from_slice(&data);
        Ok(())
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        Err(DeviceError::new(ErrorKind::Unsupported, Operation::Discard, offset, len))
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> Result<(), DeviceError> {
        Err(DeviceError::new(ErrorKind::Unsupported, Operation::WriteZeroes, offset, len))
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("RAM is never pending")
}

/// Where the builder is in one half.
#[derive(Default, Clone, Copy)]
struct Row {
    at: usize,
    number: u32,
    previous: HeaderCrc,
}

fn built(mut input: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 2 * HALF_BYTES];
    let mut rows = [Row::default(); 2];
    let mut start = 0;
    while let Some(([flags, low, high], rest)) = input.split_first_chunk::<3>() {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (payload, behind) = rest.split_at(len);
        input = behind;
        let half = usize::from(flags >> 2 & 1);
        let row = &mut rows[half];
        let batch_bytes = (HEADER_BYTES + len).next_multiple_of(512);
        if row.at + batch_bytes > HALF_BYTES {
            continue;
        }
        let at = half * HALF_BYTES + row.at;
        let batch = &mut image[at..at + batch_bytes];
        batch.fill(0);
        batch[HEADER_BYTES..HEADER_BYTES + len].copy_from_slice(payload);
        start += u32::from(flags >> 3 & 1);
        let header = Header {
            batch_bytes: batch_bytes as u32,
            epoch: EPOCH,
            sequence: 1 + half as u64,
            start,
            number: row.number,
            durable: row.number,
            kind: [Kind::Log, Kind::SnapshotPart, Kind::SnapshotEnd, Kind::Log][usize::from(flags & 3)],
            payload_bytes: len as u32,
            records: count(payload) + u32::from(flags >> 6 & 1),
            body_crc: crc32c(&batch[HEADER_BYTES..]) ^ u32::from(flags >> 7),
            previous: HeaderCrc(row.previous.0 ^ u32::from(flags >> 5 & 1)),
        };
        let crc = header.encode(batch);
        if flags & 16 == 0 {
            *row = Row { at: row.at + batch_bytes, number: row.number + 1, previous: crc };
        }
    }
    image
}

fn count(mut payload: &[u8]) -> u32 {
    let mut count = 0;
    while let Ok((_, bytes)) = Record::decode(payload) {
        (payload, count) = (&payload[bytes..], count + 1);
    }
    count
}

fn log(replay: &Replay) -> Vec<Record> {
    replay.batches().iter().filter(|b| !b.is_snapshot()).flat_map(|b| b.records()).collect()
}

/// Goes on behind the first `accepted` batches; they and the new one are all that is found then.
fn go_on(flash: &Ram, replay: Replay, accepted: usize) {
    let accepted = accepted % (replay.log_batches() + 1);
    let snapshot = replay.batches().len() - replay.log_batches();
    assert!(snapshot > 0 && replay.batches()[..snapshot].iter().all(|b| b.is_snapshot()));
    let kept = replay.batches()[snapshot..][..accepted].iter().flat_map(|b| b.records());
    let news = Record::Clean { key: ExtentKey::from_raw(5), version: 6 };
    let expected: Vec<_> = kept.chain([news.clone()]).collect();
    let identity = Identity { epoch: EPOCH, start: 0 };
    let mut journal = replay.resume(accepted, identity);
    match now(journal.append(flash, std::slice::from_ref(&news))) {
        Ok(_) => {
            let again = now(Journal::read(flash, AREA, EPOCH)).expect("RAM does not fail").expect("it is still there");
            assert_eq!((again.log_batches(), log(&again)), (accepted + 1, expected));
        }
        Err(AppendError::Full) => assert!(journal.room() < 512),
        Err(error) => panic!("{error}"),
    }
    journal.begin_snapshot();
    now(journal.finish_snapshot(flash, std::slice::from_ref(&news))).expect("there is room for one record");
    now(journal.append(flash, std::slice::from_ref(&news))).expect("and for another");
    let again = now(Journal::read(flash, AREA, EPOCH)).expect("RAM does not fail").expect("a whole half");
    assert_eq!((again.batches().len(), log(&again)), (2, vec![news]));
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some(([how, accepted], input)) = data.split_first_chunk::<2>() else { return Corpus::Reject };
    let image = if how % 2 == 1 {
        built(input)
    } else {
        let mut image = input.to_vec();
        image.resize(2 * HALF_BYTES, 0);
        image
    };
    let flash = Ram(Mutex::new(image));
    let (found, peak) = gauge::peak_bytes(|| now(Journal::read(&flash, AREA, EPOCH)));
    assert!(peak <= 4 * AREA.len as usize, "{peak} bytes to read {}", AREA.len);
    if let Ok(Some(replay)) = found {
        go_on(&flash, replay, usize::from(*accepted));
    }
    Corpus::Keep
});

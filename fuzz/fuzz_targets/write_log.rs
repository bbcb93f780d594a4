//! Write logs: whatever stands on the device, reading it takes memory for its size and gives whole extents, and what was
//! written in order is all that is found. Input: two bytes, how and where the journal says that the log is needed from
//! on; then the ring as it is (how is even), or batches, which the fuzzer is let build with right headers: for each, a byte
//! of flags, a number of entries, then three bytes for each: what it is, its extent (or the first void one), its content
//! (or how many are void). Flags: bit 0, the batch stands at the ring's start; bit 1, its content is not what its checksum
//! says; bit 2, a batch before it is left out; bit 3, its start is lower. Bit 1 of how: the position is the second byte.
#![no_main]

use bytes::Bytes;
use futures_util::FutureExt as _;
use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_engine::format::write_log::{Entry, Header, LABEL_BYTES, Label, RING_BYTES_MIN, batch_bytes, encode};
use nitro_engine::inspect::{LogContents, log_contents};
use nitro_engine::journal::LogPosition;
use nitro_fuzz::gauge;
use nitro_port::buf::BufMut;
use nitro_port::{Device, DeviceError, ErrorKind, Geometry, Operation};
use nitro_units::{ExtentIndex, ExtentKey, ObjectId};
use std::collections::BTreeMap;
use std::future::Future;

const EXTENT_BYTES: usize = 4096;
const UUID: [u8; 16] = [7; 16];
const BLOCK_BYTES: u32 = 512;

struct Ram(Vec<u8>);

impl Device for Ram {
    fn geometry(&self) -> Geometry {
        let size_bytes = self.0.len() as u64;
        Geometry { size_bytes, block_bytes: BLOCK_BYTES, preferred_bytes: 4096, rotational: false }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        DeviceError::check(&self.geometry(), Operation::Read, offset, len as u64)?;
        Ok(BufMut::copy_of(&self.0[offset as usize..offset as usize + len]).freeze())
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        Err(DeviceError::new(ErrorKind::ReadOnly, Operation::Write, offset, data.len() as u64))
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

/// What the batches that count hold.
#[derive(Default)]
struct Model {
    newest: BTreeMap<u64, u8>,
    batches: usize,
    /// A batch that does not count was written, or one over one that did: from then on, who knows.
    over: bool,
}

fn key(extent: u8) -> ExtentKey {
    ExtentKey::new(ObjectId(u16::from(extent % 2)), ExtentIndex(u64::from(extent / 2)))
}

fn content(byte: u8) -> Bytes {
    let mut bytes = BufMut::zeroed(EXTENT_BYTES);
    bytes.fill(byte);
    bytes.freeze()
}

fn entry([kind, extent, byte]: [u8; 3]) -> Entry {
    match kind % 3 {
        0 => Entry::Content { key: key(extent), bytes: content(byte) },
        1 => Entry::Content { key: key(extent), bytes: content(0) },
        _ => Entry::Void { first: key(extent), count: byte.into() },
    }
}

/// The ring that an input describes, and what of it counts from sequence 0 on.
fn built(mut input: &[u8], ring: &mut [u8]) -> Model {
    let (mut at, mut sequence, mut start, mut model) = (0, 0, 100, Model::default());
    let mut written: Vec<std::ops::Range<usize>> = Vec::new();
    while let Some(([flags, count], rest)) = input.split_first_chunk::<2>() {
        let (entries, behind) = rest.as_chunks::<3>().0.split_at(usize::from(*count).min(64).min(rest.len() / 3));
        input = behind.as_flattened();
        let all: Vec<_> = entries.iter().copied().map(entry).collect();
        let len = batch_bytes(all.iter().map(Entry::encoded_bytes).sum(), BLOCK_BYTES);
        at = if flags & 1 == 1 || at + len > ring.len() { 0 } else { at };
        sequence += u64::from(flags >> 2 & 1);
        start -= u32::from(flags >> 3 & 1);
        let header = Header { batch_bytes: 0, uuid: UUID, sequence, tail: 0, start, records: 0, body_crc: 0 };
        let batch = encode(header, &all, BLOCK_BYTES);
        ring[at..at + len].copy_from_slice(&batch);
        ring[at + len - 1] ^= flags >> 1 & 1;
        let place = at..at + len;
        model.over |= flags & 0xE != 0 || written.iter().any(|w| w.start < place.end && place.start < w.end);
        written.push(place);
        if model.over {
            break;
        }
        for [kind, extent, byte] in entries.iter().copied() {
            let key = key(extent);
            match kind % 3 {
                2 => (0..u64::from(byte)).for_each(|n| {
                    let _ = model.newest.remove(&ExtentKey::new(key.object(), ExtentIndex(key.index().0 + n)).raw());
                }),
                1 => drop(model.newest.insert(key.raw(), 0)),
                _ => drop(model.newest.insert(key.raw(), byte)),
            }
        }
        (at, sequence, model.batches) = (at + len, sequence + 1, model.batches + 1);
    }
    model
}

fn check(found: &LogContents, model: &Model) {
    assert!(found.batches >= model.batches || model.over, "{} of {} batches", found.batches, model.batches);
    if model.over {
        return;
    }
    assert!(!found.damaged);
    assert_eq!((found.batches, found.end.sequence), (model.batches, model.batches as u64));
    let bytes = |bytes: &Bytes| bytes.iter().all(|b| *b == bytes[0]).then_some(bytes[0]).expect("one content");
    let newest: BTreeMap<u64, u8> = found.newest.iter().map(|(key, b)| (key.raw(), bytes(b))).collect();
    assert_eq!(newest, model.newest);
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some(([how, position], input)) = data.split_first_chunk::<2>() else { return Corpus::Reject };
    let mut image = vec![0; LABEL_BYTES + RING_BYTES_MIN as usize];
    let label = Label {
        extent_bytes: EXTENT_BYTES as u32,
        uuid: UUID,
        cache_uuid: [1; 16],
        ring_bytes: RING_BYTES_MIN,
        start: Some(1),
    };
    label.encode(&mut image);
    let ring = &mut image[LABEL_BYTES..];
    let mut model = Model { over: true, ..Model::default() };
    if how % 2 == 1 {
        model = built(input, ring);
    } else {
        let len = input.len().min(ring.len());
        ring[..len].copy_from_slice(&input[..len]);
    }
    let mut from = LogPosition { uuid: UUID, sequence: 0, offset: 0 };
    if how & 2 != 0 {
        (from.sequence, from.offset) = (u64::from(*position % 16), u64::from(*position / 16) * 512);
        (model.over, model.batches) = (true, 0);
    }
    let log = Ram(image);
    let (found, peak) = gauge::peak_bytes(|| now(log_contents(&log, from)));
    assert!(peak <= 4 * RING_BYTES_MIN as usize, "{peak} bytes to read {RING_BYTES_MIN}");
    let found = found.expect("RAM does not fail");
    assert!(found.newest.iter().all(|(_, bytes)| bytes.len() == EXTENT_BYTES));
    check(&found, &model);
    assert_eq!(now(log_contents(&log, from)).ok(), Some(found));
    Corpus::Keep
});

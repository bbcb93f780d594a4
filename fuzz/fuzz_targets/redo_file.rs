//! Redo files: whatever stands in one, opening it takes memory for what is there; and an origin gets the point that was sealed, or
//! nothing of another one. Input: one byte, how; then, where how is even, blocks of 64 bytes, which begin the blocks of the file:
//! bits 1 and 2 of how say whether magic numbers, versions and checksums of headers, and of chunks, are made right. Where how is odd,
//! four bytes say which bits of which byte of the file are flipped, and parts of a point follow: three bytes each, kind, place and
//! length in blocks, and content.
#![no_main]

use bytes::Bytes;
use futures_executor::block_on;
use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_device::RamDevice;
use nitro_fuzz::gauge;
use nitro_log::seal;
use nitro_port::{Device, PointLog as _, PointPart};
use nitro_redo::{BLOCK_BYTES, Chunk, Header, RedoError, RedoLog};
use std::sync::Arc;

const ORIGIN_BYTES: usize = 256 * SECTOR_BYTES;
/// Room for as many parts as are made.
const FILE_BYTES: u64 = 4 << 20;
const SECTOR_BYTES: usize = 512;

type File = Arc<RamDevice>;

fn file(image: &[u8], size_bytes: u64) -> File {
    let device = RamDevice::new(size_bytes, BLOCK_BYTES as u32);
    block_on(device.write(0, Bytes::copy_from_slice(image))).expect("RAM does not fail");
    Arc::new(device)
}

fn opened(file: &File) -> Result<RedoLog<File>, RedoError> {
    block_on(RedoLog::open(Arc::clone(file), || 1))
}

fn content(origin: &RamDevice) -> Bytes {
    block_on(origin.read(0, ORIGIN_BYTES)).expect("RAM does not fail")
}

/// Blocks of which the input says the beginnings.
fn made_right(how: u8, input: &[u8]) -> Vec<u8> {
    let mut image = Vec::new();
    for (index, start) in input.chunks(64).take(32).enumerate() {
        let mut block = vec![0; BLOCK_BYTES];
        block[..start.len()].copy_from_slice(start);
        if index < 2 && how & 2 != 0 {
            block[..8].copy_from_slice(b"NitroRdo");
            block[8..12].copy_from_slice(&1_u32.to_le_bytes());
            seal(&mut block);
        } else if index >= 2 && how & 4 != 0 {
            block[..8].copy_from_slice(b"NitroRdC");
            seal(&mut block);
        }
        let _ = Header::decode(&block);
        if let Ok(chunk) = Chunk::decode(&block) {
            let _ = chunk.parts(Bytes::from(vec![0; chunk.data_bytes]));
        }
        image.extend(block);
    }
    image
}

fn part([kind, at, rest]: [u8; 3]) -> PointPart {
    let sectors = usize::from(rest % 16 + 1).min(256 - usize::from(at));
    let (offset, len) = (u64::from(at) * SECTOR_BYTES as u64, sectors * SECTOR_BYTES);
    match kind % 4 {
        0 => PointPart::Zeroes { offset, len: len as u64 },
        1 => PointPart::Unneeded { offset, len: len as u64 },
        _ => PointPart::Data { offset, bytes: vec![rest; len].into() },
    }
}

/// The content of an origin after parts.
fn after(parts: &[PointPart]) -> Vec<u8> {
    let mut all = vec![0xEE; ORIGIN_BYTES];
    for part in parts {
        match part {
            PointPart::Data { offset, bytes } => all[*offset as usize..][..bytes.len()].copy_from_slice(bytes),
            // RAM that is discarded reads as zeroes.
            PointPart::Zeroes { offset, len } | PointPart::Unneeded { offset, len } => {
                all[*offset as usize..][..*len as usize].fill(0);
            }
        }
    }
    all
}

/// A point is sealed, and some bits of the file flip.
fn flipped(flip: [u8; 4], input: &[u8]) {
    let parts: Vec<_> = input.as_chunks::<3>().0.iter().copied().take(300).map(part).collect();
    let file = file(&[], FILE_BYTES);
    let log = opened(&file).expect("an empty file is begun");
    block_on(async {
        log.begin(1).await?;
        log.add(parts.clone()).await?;
        log.seal(1).await
    })
    .expect("RAM does not fail");
    let [bits, at @ ..] = flip;
    let at = u32::from_le_bytes([at[0], at[1], at[2], 0]) as usize % FILE_BYTES as usize;
    let mut block = block_on(file.read((at & !4095) as u64, 4096)).expect("RAM does not fail").to_vec();
    block[at & 4095] ^= bits;
    block_on(file.write((at & !4095) as u64, block.into())).expect("RAM does not fail");
    let origin = RamDevice::new(ORIGIN_BYTES as u64, SECTOR_BYTES as u32);
    let before = vec![0xEE; ORIGIN_BYTES];
    block_on(origin.write(0, before.clone().into())).expect("RAM does not fail");
    match opened(&file) {
        Ok(log) => {
            block_on(log.apply(&origin)).expect("what was opened is applied").expect("one copy of the header is whole");
            assert!(content(&origin) == after(&parts), "another point");
            assert!(!opened(&file).expect("it was finished").is_sealed());
        }
        Err(_) => assert!(bits != 0 && content(&origin) == before, "refused, or changed"),
    }
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((how, rest)) = data.split_first() else { return Corpus::Reject };
    if how & 1 == 1 {
        let Some((flip, rest)) = rest.split_first_chunk::<4>() else { return Corpus::Reject };
        flipped(*flip, rest);
        return Corpus::Keep;
    }
    let image = made_right(*how, rest);
    let file = file(&image, image.len().max(2 * BLOCK_BYTES) as u64);
    let (result, peak) = gauge::peak_bytes(|| opened(&file));
    assert!(peak < 4 * image.len() + (256 << 10), "{peak} bytes of memory");
    if let Ok(log) = result {
        let origin = RamDevice::new(ORIGIN_BYTES as u64, SECTOR_BYTES as u32);
        let _ = block_on(log.apply(&origin));
    }
    Corpus::Keep
});

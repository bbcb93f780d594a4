//! Superblocks: what is accepted comes back from its encoding and is within the settings' bounds.
//! Input: one byte; then the block. Where the byte is odd, the fuzzer is let past magic number, version and checksum.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_cache::settings::{EXTENT_BYTES, WEU_BYTES};
use nitro_engine::format::FORMAT_VERSION;
use nitro_engine::format::superblock::{SUPERBLOCK_BYTES, Superblock};
use nitro_log::crc32c;

const CRC_AT: usize = SUPERBLOCK_BYTES - 4;

fn mended(bytes: &[u8]) -> Vec<u8> {
    let mut block = bytes.to_vec();
    block.resize(SUPERBLOCK_BYTES, 0);
    block[..8].copy_from_slice(b"NITROSSD");
    block[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    let crc = crc32c(&block[..CRC_AT]);
    block[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    block
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((how, bytes)) = data.split_first() else { return Corpus::Reject };
    let block = if how % 2 == 1 { mended(bytes) } else { bytes.to_vec() };
    if let Ok(superblock) = Superblock::decode(&block) {
        assert!(EXTENT_BYTES.check(superblock.extent_bytes.into()).is_ok());
        assert!(WEU_BYTES.check(superblock.weu_bytes.into()).is_ok());
        let mut again = vec![0xAA; SUPERBLOCK_BYTES];
        superblock.encode(&mut again);
        assert_eq!(Superblock::decode(&again), Ok(superblock));
    }
    Corpus::Keep
});

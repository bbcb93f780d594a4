//! Superblocks: what is accepted comes back from its encoding and is within the settings' bounds.
//! Input: one byte; then the block. Where the byte is odd, the fuzzer is let past magic number, version (which the byte chooses) and
//! checksum.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_cache::settings::{EXTENT_BYTES, WEU_BYTES};
use nitro_engine::format::FORMAT_VERSION_FEATURES;
use nitro_engine::format::superblock::{DEVICES_MAX, SUPERBLOCK_BYTES, Superblock};
use nitro_log::crc32c;

const CRC_AT: usize = SUPERBLOCK_BYTES - 4;

fn mended(bytes: &[u8], version: u32) -> Vec<u8> {
    let mut block = bytes.to_vec();
    block.resize(SUPERBLOCK_BYTES, 0);
    block[..8].copy_from_slice(b"NITROSSD");
    block[8..12].copy_from_slice(&version.to_le_bytes());
    let crc = crc32c(&block[..CRC_AT]);
    block[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    block
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((how, bytes)) = data.split_first() else { return Corpus::Reject };
    let block =
        if how % 2 == 1 { mended(bytes, 1 + u32::from(how / 2) % FORMAT_VERSION_FEATURES) } else { bytes.to_vec() };
    if let Ok(superblock) = Superblock::decode(&block) {
        assert!(EXTENT_BYTES.check(superblock.extent_bytes.into()).is_ok());
        assert!(WEU_BYTES.check(superblock.weu_bytes.into()).is_ok());
        let place = superblock.place;
        assert!((1..=DEVICES_MAX).contains(&place.devices.into()) && place.number < place.devices);
        assert!(u32::from(place.lost) >> place.devices == 0 && place.lost >> place.number & 1 == 0);
        let mut again = vec![0xAA; SUPERBLOCK_BYTES];
        superblock.encode(&mut again);
        assert_eq!(Superblock::decode(&again), Ok(superblock));
    }
    Corpus::Keep
});

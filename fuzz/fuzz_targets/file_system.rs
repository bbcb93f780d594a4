//! Blocks of a volume, for what looks at them for file systems: any bytes, behind the superblock of an ext4, XFS, btrfs or NTFS.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nitro_detect::{Detector, PIECE_BYTES};

const RAM_BYTES: u64 = 64 << 10;
const VOLUME_BYTES: u64 = 64 << 20;
/// Most of what is looked at is within the volume.
const PIECES: u32 = 1 << 17;

#[derive(Debug, Arbitrary)]
struct Look<'a> {
    piece: u32,
    bytes: &'a [u8],
}

/// What a superblock says, by the bytes where it says it.
type Fields = &'static [(usize, &'static [u8])];

/// Superblocks of volumes of 64 MiB: no magic number is found by chance.
const SUPERBLOCKS: [Fields; 4] = [
    // ext4: 16,384 blocks of 4 KiB in one group of 4096 inodes.
    &[
        (1028, &[0, 64, 0, 0]),
        (1048, &[2]),
        (1056, &[0, 128]),
        (1064, &[0, 16]),
        (1080, &[0x53, 0xEF]),
        (1100, &[1]),
        (1108, &[11]),
        (1112, &[0, 1]),
        (1248, &[8]),
    ],
    // XFS: four groups of 4096 blocks, inodes of 512 bytes.
    &[
        (0, b"XFSB\x00\x00\x10\x00"),
        (14, &[64, 0]),
        (32, b"nitro"),
        (86, &[16, 0]),
        (100, &[0, 5, 2, 0, 2, 0]),
        (124, &[12]),
    ],
    // btrfs: nodes of 4 KiB, one chunk of 8 MiB for the tree of chunks at its own address.
    &[
        (65536 + 64, b"_BHRfS_M"),
        (65536 + 148, &[0, 16]),
        (65536 + 160, &[97]),
        (65536 + 201, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]),
        (65536 + 811 + 17, &[0, 0, 128]),
        (65536 + 811 + 17 + 24, &[2]),
        (65536 + 811 + 17 + 44, &[1, 0, 0, 0, 1]),
    ],
    // NTFS: clusters of 4 KiB, the table in the fifth.
    &[(3, b"NTFS    "), (11, &[0, 2, 8]), (41, &[0, 2]), (48, &[4]), (56, &[2]), (64, &[0xF6])],
];

fn superblock(fields: Fields) -> Vec<u8> {
    let mut bytes = vec![0; 72 << 10];
    for (at, field) in fields {
        bytes[*at..at + field.len()].copy_from_slice(field);
    }
    bytes
}

fuzz_target!(|input: (u8, Vec<Look<'_>>)| {
    let (kind, looks) = input;
    let mut detector = Detector::new(RAM_BYTES);
    if kind & 8 > 0 {
        detector.scan(VOLUME_BYTES);
    }
    if let Some(fields) = SUPERBLOCKS.get(usize::from(kind & 7)) {
        detector.look(0, &superblock(fields));
        assert!(detector.knows_any(), "superblock {}", kind & 7);
    }
    for look in looks {
        let offset = u64::from(look.piece % PIECES) * PIECE_BYTES;
        let sighting = detector.look(offset, look.bytes);
        assert!(sighting.learned.iter().all(|(range, _)| range.start < range.end));
        assert!(detector.counters().ram_bytes <= RAM_BYTES);
    }
    let _ = detector.worth_reading();
    let mut read = 0;
    while let Some(range) = detector.next_to_scan() {
        read += range.end - range.start;
    }
    assert!(read <= VOLUME_BYTES);
});

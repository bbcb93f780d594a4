//! Objects of a volume in a bucket: what is accepted is within the volume, takes little memory, and comes back from its encoding.
//! Input: one byte, the kind of the object and whether magic number, version (1 or 2) and checksum are made right; eight bytes, the number of
//! chunks of the volume; then the object.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::gauge;
use nitro_log::seal;
use nitro_s3::{Header, MANIFEST_BYTES_MAX, Manifest, RUNS_MAX, SNAPSHOTS_MAX, Segment};

const CHUNK: u32 = 64 << 10;
const MAGICS: [&[u8; 8]; 3] = [b"NITROS3V", b"NITROS3G", b"NITROS3S"];

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some(([how, chunks @ ..], rest)) = data.split_first_chunk::<9>() else { return Corpus::Reject };
    let kind = usize::from(how % 3);
    let mut bytes = rest.to_vec();
    if how / 3 % 2 == 1 && bytes.len() >= 16 {
        bytes[..8].copy_from_slice(MAGICS[kind]);
        bytes[8..12].copy_from_slice(&(1 + u32::from(how / 6 % 2)).to_le_bytes());
        seal(&mut bytes);
    }
    let chunks = 1 + u64::from_le_bytes(*chunks) % Header::CHUNKS_MAX;
    let header = Header { uuid: [0; 16], size_bytes: chunks * u64::from(CHUNK), chunk_bytes: CHUNK };
    let ((), peak) = gauge::peak_bytes(|| match kind {
        0 => {
            if let Ok(header) = Header::decode(&bytes) {
                assert!(header.refused().is_none() && header.encode() == bytes);
            }
        }
        1 => {
            if let Ok(manifest) = Manifest::decode(&bytes, &header) {
                assert!(manifest.runs.len() <= RUNS_MAX && bytes.len() as u64 <= MANIFEST_BYTES_MAX);
                let chunks = manifest.header(&header).chunks();
                assert!(manifest.snapshots.len() <= SNAPSHOTS_MAX && chunks <= Header::CHUNKS_MAX);
                assert!(manifest.runs.iter().all(|run| run.first + run.count <= chunks));
                assert!(manifest.encode() == bytes);
            }
        }
        _ => {
            let index = chunks % header.segments();
            if let Ok(segment) = Segment::decode(&bytes, &header, index) {
                // A shorter one is of a smaller volume.
                assert!(
                    segment.chunks.len() as u64 == header.segment_chunks(index)
                        && segment.encode().starts_with(&bytes[..16])
                );
            }
        }
    });
    // A segment has all of its chunks, also those that a smaller volume had not.
    let most = 4 * bytes.len() + (64 << 10) + if kind == 2 { Segment::BYTES_MAX as usize } else { 0 };
    assert!(peak < most, "{peak} bytes of memory");
    Corpus::Keep
});

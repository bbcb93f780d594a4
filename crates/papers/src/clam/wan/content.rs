//! Chunks of a file, cut by content.

use super::Chunk;
use fastcdc::v2020::StreamCDC;
use nitro_console::error::Error;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Bytes that are read of a file, at most.
const BYTES_MAX: u64 = 1 << 30;
/// The least, the mean and the greatest size of a chunk, in bytes.
const SIZES: [usize; 3] = [1024, 4096, 16384];

/// The chunks of a file's first gibibyte.
pub(super) fn chunks(path: &Path) -> Result<Vec<Chunk>, Error> {
    let failed = |e: std::io::Error| Error::new(format_args!("--content {}", path.display()), e).or("name a file");
    let file = File::open(path).map_err(failed)?;
    let [least, mean, most] = SIZES;
    let cut = StreamCDC::new(BufReader::new(file).take(BYTES_MAX), least, mean, most);
    let chunk = |part: Result<fastcdc::v2020::ChunkData, fastcdc::v2020::Error>| {
        let part = part.map_err(|e| failed(std::io::Error::other(e)))?;
        let (mut key, mut value) = ([0; 20], [0; 12]);
        key.copy_from_slice(&blake3::hash(&part.data).as_bytes()[..20]);
        value[..8].copy_from_slice(&part.offset.to_le_bytes());
        Ok(Chunk { key, value, bytes: part.length as u64 })
    };
    let all: Vec<Chunk> = cut.map(chunk).collect::<Result<_, Error>>()?;
    if all.is_empty() {
        return Err(
            Error::new(format_args!("--content {}", path.display()), "it is empty").or("name a file with content")
        );
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_content_has_the_same_keys_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("twice");
        let once: Vec<u8> = (0u64..20_000).flat_map(|n| crate::load::mix(n).to_le_bytes()).collect();
        std::fs::write(&path, [&once[..], b"moved by a few bytes", &once[..]].concat()).unwrap();
        let chunks = chunks(&path).unwrap();
        assert_eq!(chunks.iter().map(|chunk| chunk.bytes).sum::<u64>(), once.len() as u64 * 2 + 20);
        let distinct: std::collections::HashSet<_> = chunks.iter().map(|chunk| chunk.key).collect();
        assert!(distinct.len() < chunks.len() * 6 / 10, "{} of {}", distinct.len(), chunks.len());
        assert!(super::chunks(&folder.path().join("absent")).is_err());
        std::fs::write(&path, "").unwrap();
        assert!(super::chunks(&path).is_err());
    }
}

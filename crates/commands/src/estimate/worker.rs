//! The work of one thread.

use super::regions::{REGION_BYTES, Regions};
use super::tally::{Seen, Tally};
use bytes::Bytes;
use nitro_port::buf::{BufMut, is_zero};
use nitro_port::codec::{Compression, Compressor, FingerprintHash};
use std::io;

/// Reads regions until none are left, and counts their extents in `tallies`.
pub(super) fn scan(regions: &Regions, tallies: &[Tally]) -> io::Result<()> {
    let mut compressors = [Compression::Lz4, Compression::Zstd].map(Compressor::new);
    while let Some((start, len)) = regions.next() {
        // The last extent is padded with zeroes, as in the cache.
        let mut buf = BufMut::with_len(REGION_BYTES as usize);
        if let Err(error) = regions.read(start, &mut buf[..len]) {
            regions.stop();
            return Err(io::Error::new(error.kind(), format!("reading {len} bytes at {start}: {error}")));
        }
        buf[len..].fill(0);
        let region = buf.freeze();
        for tally in tallies {
            let used = len.next_multiple_of(tally.extent_bytes);
            for at in (0..used).step_by(tally.extent_bytes) {
                count(tally, &region.slice(at..at + tally.extent_bytes), &mut compressors);
            }
        }
    }
    Ok(())
}

fn count(tally: &Tally, extent: &Bytes, compressors: &mut [Compressor; 2]) {
    if is_zero(extent) {
        return tally.zero();
    }
    let fingerprint = FingerprintHash::Blake3.of(extent);
    if tally.see(&fingerprint) == Seen::FirstSampled {
        let [lz4, zstd] = compressors.each_mut().map(|compressor| compressor.compress(extent).1.len());
        tally.compressed(lz4, zstd);
    }
}

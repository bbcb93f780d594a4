//! A hash that identifies the generator: another trace has another hash.

use super::FiuLike;
use super::reader::ASSUMPTIONS;
use crate::{Op, Reader, Request, TraceError};
use nitro_units::Fingerprint;
use sha1::{Digest, Sha1};

/// Number of requests that are hashed: enough for each size to be read and written again.
const REQUESTS: u32 = 1 << 16;

impl FiuLike {
    /// The SHA-1 of all parameters, of the constants of the generator, and of the first 65,536 requests with their
    /// contents.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn digest(&self) -> Result<Fingerprint, TraceError> {
        let mut hasher = Sha1::new();
        self.add_parameters(&mut hasher);
        let mut reader = self.reader()?;
        let mut request = Request::default();
        for _ in 0..REQUESTS {
            if !reader.next(&mut request)? {
                break;
            }
            for number in [request.time_ns, request.offset, request.len, u64::from(request.op == Op::Write)] {
                hasher.update(number.to_le_bytes());
            }
            request.fingerprints.iter().for_each(|print| hasher.update(print.0));
        }
        let mut digest = [0; 20];
        digest.copy_from_slice(&hasher.finalize());
        Ok(Fingerprint(digest))
    }

    fn add_parameters(&self, hasher: &mut Sha1) {
        // Without `..`, so that a new parameter is not forgotten here.
        let Self {
            volume_bytes,
            footprint_share,
            blocks,
            writes_per_read,
            duplicate_share,
            same_place_share,
            first_read_share,
            own_share,
            reuse,
            initial_dedup,
            sizes,
            record_blocks,
            days,
            rhythm,
            scale,
            seed,
        } = self;
        let numbers = [
            volume_bytes,
            footprint_share,
            blocks,
            writes_per_read,
            duplicate_share,
            same_place_share,
            first_read_share,
            own_share,
            initial_dedup,
            record_blocks,
            days,
            rhythm,
            scale,
        ];
        for number in numbers.into_iter().chain(sizes).chain(&ASSUMPTIONS) {
            hasher.update(number.to_le_bytes());
        }
        hasher.update(seed.to_le_bytes());
        // Without it, requests are those of generators that did not have it.
        if *reuse != 0.0 {
            hasher.update(reuse.to_le_bytes());
        }
    }
}

//! What a server tells of an export, and what follows for its client.

use super::error::ClientError;
use crate::protocol::{
    TRANSMIT_CAN_MULTI_CONN, TRANSMIT_READ_ONLY, TRANSMIT_ROTATIONAL, TRANSMIT_SEND_FAST_ZERO, TRANSMIT_SEND_FLUSH,
    TRANSMIT_SEND_FUA, TRANSMIT_SEND_TRIM, TRANSMIT_SEND_WRITE_ZEROES,
};
use nitro_port::Geometry;

/// The longest read or write that the client sends, in bytes; longer ones become several.
pub(super) const REQUEST_BYTES_MAX: u32 = 4 << 20;
/// The longest range of another request in bytes: a multiple of every block size, below the 32 bits of its field.
pub(super) const RANGE_BYTES_MAX: u64 = 1 << 30;
/// The alignment of requests to a server that tells none ("Block size constraints" in proto.md).
const USUAL_BLOCK_BYTES: u32 = 512;
/// The largest block of a device ([`Geometry::block_bytes`]).
const BLOCK_BYTES_MAX: u32 = 4096;
/// The preferred size of requests to a server that tells none.
const PREFERRED_BYTES: u32 = 4096;
/// The largest preferred size that is passed on.
const PREFERRED_BYTES_MAX: u32 = 1 << 20;

/// An export, as its server describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Export {
    /// Size in bytes.
    pub size_bytes: u64,
    /// `TRANSMIT_*` bits.
    pub flags: u16,
    /// Replies have chunks.
    pub(super) structured: bool,
    /// The number of the context `base:allocation`.
    pub(super) allocation: Option<u32>,
    /// Block sizes in bytes: minimum, preferred and maximum.
    pub(super) blocks: Option<(u32, u32, u32)>,
}

impl Export {
    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether it cannot be written to.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.has(TRANSMIT_READ_ONLY)
    }

    /// Whether several connections see the same data, and a FLUSH on one covers the writes of all.
    #[must_use]
    pub fn takes_connections(&self) -> bool {
        self.has(TRANSMIT_CAN_MULTI_CONN)
    }

    /// Whether the server makes writes durable on request.
    #[must_use]
    pub fn flushes(&self) -> bool {
        self.has(TRANSMIT_SEND_FLUSH)
    }

    /// Whether the server makes writes durable on request, in whichever way.
    #[must_use]
    pub fn keeps_on_request(&self) -> bool {
        self.flushes() || self.needs_fua()
    }

    /// Whether each write has to be made durable by itself, since there is no FLUSH.
    pub(super) fn needs_fua(&self) -> bool {
        !self.flushes() && self.has(TRANSMIT_SEND_FUA)
    }

    pub(super) fn trims(&self) -> bool {
        self.has(TRANSMIT_SEND_TRIM)
    }

    pub(super) fn zeroes(&self) -> bool {
        self.has(TRANSMIT_SEND_WRITE_ZEROES)
    }

    pub(super) fn zeroes_fast(&self) -> bool {
        self.has(TRANSMIT_SEND_FAST_ZERO)
    }

    /// The longest read or write in bytes.
    pub(super) fn request_bytes_max(&self) -> u32 {
        let (min, _, max) = self.blocks.unwrap_or((1, 1, REQUEST_BYTES_MAX));
        let max = max.min(REQUEST_BYTES_MAX);
        (max - max % min).max(min)
    }

    /// Size and block sizes of a device with the export's content.
    ///
    /// # Errors
    /// [`ClientError::Unusable`]: the server requires larger blocks than a device has, or what it tells makes no sense.
    pub fn geometry(&self) -> Result<Geometry, ClientError> {
        let unusable = |why: String| Err(ClientError::Unusable(why));
        let (min, preferred, max) = self.blocks.unwrap_or((0, PREFERRED_BYTES, u32::MAX));
        // The largest power of two up to the usual one that the size is a multiple of.
        let fitting = 1 << self.size_bytes.trailing_zeros().min(USUAL_BLOCK_BYTES.ilog2());
        let block_bytes = if min == 0 { fitting } else { min };
        if self.size_bytes == 0 {
            return unusable("it is empty".to_owned());
        }
        if self.size_bytes > i64::MAX as u64 {
            return unusable(format!("a size of {} bytes is none", self.size_bytes));
        }
        if self.blocks.is_some() && (!min.is_power_of_two() || max < min || preferred < min) {
            return unusable(format!("block sizes of {min}, {preferred} and {max} bytes are none"));
        }
        if block_bytes > BLOCK_BYTES_MAX {
            return unusable(format!(
                "the server requires blocks of {block_bytes} bytes, and at most {BLOCK_BYTES_MAX} are supported"
            ));
        }
        if !self.size_bytes.is_multiple_of(block_bytes.into()) {
            return unusable(format!(
                "its {} bytes are not a multiple of its blocks of {block_bytes}",
                self.size_bytes
            ));
        }
        Ok(Geometry {
            size_bytes: self.size_bytes,
            block_bytes,
            preferred_bytes: preferred.clamp(block_bytes, PREFERRED_BYTES_MAX),
            rotational: self.has(TRANSMIT_ROTATIONAL),
        })
    }

    /// Why an export that is found later under the same name is not this one; `None`: nothing speaks against it.
    pub(super) fn differs_from(&self, now: &Self) -> Option<String> {
        if self.size_bytes != now.size_bytes {
            return Some(format!("it had {} bytes and has {}", self.size_bytes, now.size_bytes));
        }
        let lost = |flag, what: &str| (self.has(flag) && !now.has(flag)).then(|| format!("it {what} no more"));
        let grown = |old: &Self, new: &Self| {
            let block = |export: &Self| export.geometry().map_or(u32::MAX, |geometry| geometry.block_bytes);
            (block(new) > block(old)).then(|| "it requires larger blocks".to_owned())
        };
        (now.is_read_only() && !self.is_read_only())
            .then(|| "it can only be read".to_owned())
            .or_else(|| lost(TRANSMIT_SEND_FLUSH, "flushes"))
            .or_else(|| if self.needs_fua() { lost(TRANSMIT_SEND_FUA, "takes FUA") } else { None })
            .or_else(|| grown(self, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(size_bytes: u64, blocks: Option<(u32, u32, u32)>) -> Export {
        Export { size_bytes, blocks, flags: TRANSMIT_SEND_FLUSH, ..Export::default() }
    }

    #[test]
    fn block_sizes_are_those_that_the_server_tells_or_usual_ones() {
        for (size, blocks, block, longest) in [
            (1 << 20, None, 512, REQUEST_BYTES_MAX),
            (1000, None, 8, REQUEST_BYTES_MAX),
            (1 << 20, Some((1, 4096, u32::MAX)), 1, REQUEST_BYTES_MAX),
            (1 << 20, Some((4096, 65536, 70_000)), 4096, 69_632),
            (1 << 20, Some((512, 512, 512)), 512, 512),
        ] {
            let export = export(size, blocks);
            assert_eq!(export.geometry().unwrap().block_bytes, block, "{export:?}");
            assert_eq!(export.request_bytes_max(), longest, "{export:?}");
        }
        for (size, blocks) in [
            (0, None),
            (u64::MAX, None),
            (1 << 20, Some((0, 4096, 4096))),
            (1 << 20, Some((3, 4096, 4096))),
            (1 << 20, Some((8192, 8192, 8192))),
            (1 << 20, Some((4096, 512, 4096))),
            (1 << 20, Some((4096, 4096, 512))),
            (1000, Some((512, 512, 512))),
        ] {
            assert!(export(size, blocks).geometry().is_err(), "{size} {blocks:?}");
        }
    }

    #[test]
    fn another_export_is_told_by_its_size_and_by_what_it_lost() {
        let before = export(1 << 20, None);
        assert_eq!(before.differs_from(&before), None);
        for now in [
            export(1 << 21, None),
            Export { flags: TRANSMIT_SEND_FLUSH | TRANSMIT_READ_ONLY, ..before },
            Export { flags: 0, ..before },
            export(1 << 20, Some((4096, 4096, 4096))),
        ] {
            assert!(before.differs_from(&now).is_some(), "{now:?}");
        }
        let more = Export { flags: TRANSMIT_SEND_FLUSH | TRANSMIT_SEND_TRIM, ..before };
        assert_eq!(before.differs_from(&more), None);
        // What fails is an error of its request alone.
        assert_eq!(more.differs_from(&before), None);
    }
}

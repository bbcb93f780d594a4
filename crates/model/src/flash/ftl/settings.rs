//! Calculations that the settings of the layers share.

use crate::Error;

/// Checks that a share is from 0 to 10.
pub(super) fn check_share(setting: &'static str, share: f64) -> Result<(), Error> {
    if (0.0..=10.0).contains(&share) { Ok(()) } else { Err(Error::setting(setting, share, "must be from 0 to 10")) }
}

/// The logical blocks of an SSD with `blocks` blocks: the reserve is `share` of the logical blocks, and at least
/// `reserve`.
pub(super) fn logical_blocks(blocks: u32, share: f64, reserve: u32) -> Result<u32, Error> {
    // The sum compensates for rounding errors, so that 107 blocks at 7 % are 100 logical ones and not 99.
    let logical = ((f64::from(blocks) / (1.0 + share) + 1e-9).floor() as u32).min(blocks.saturating_sub(reserve));
    if logical == 0 { Err(Error::TooSmall { blocks }) } else { Ok(logical) }
}

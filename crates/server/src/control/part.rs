//! Parts of a volume, as commands name them.

use nitro_console::error::Error;
use std::ops::Range;

/// The bytes of a volume of `size_bytes` from `offset` on: `length` of them, or all to its end.
///
/// # Errors
/// The part is empty, or does not lie within the volume.
pub fn part_of_volume(name: &str, size_bytes: u64, offset: u64, length: Option<u64>) -> Result<Range<u64>, Error> {
    let end = length.map_or(size_bytes, |length| offset.saturating_add(length));
    if offset >= end || end > size_bytes {
        let why = format!("it has {size_bytes} bytes, which do not contain {offset} to {end}");
        return Err(Error::new(format_args!("volume {name}"), why).or("give an offset and a length within it"));
    }
    Ok(offset..end)
}

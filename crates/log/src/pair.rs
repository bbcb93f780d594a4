//! Superblocks with two copies, at the two ends of a device, so that one write cannot damage both.

use nitro_port::buf::BufMut;
use nitro_port::{Device, DeviceError};

/// Offsets of the two copies on a device of `size_bytes`: its first and its last whole block.
#[must_use]
pub const fn ends(size_bytes: u64, block_bytes: usize) -> [u64; 2] {
    let block = block_bytes as u64;
    [0, (size_bytes / block).saturating_sub(1) * block]
}

/// Writes both copies, one after the other, with a flush after each: at any time, at least one copy is whole.
///
/// # Errors
/// The error of the device's write or flush.
pub async fn write_both(device: &impl Device, at: [u64; 2], block: &[u8]) -> Result<(), DeviceError> {
    for offset in at {
        device.write(offset, BufMut::copy_of(block).freeze()).await?;
        device.flush().await?;
    }
    Ok(())
}

/// Reads a superblock of `block_bytes`: the first copy that `decode` accepts, decoded.
///
/// # Errors
/// The error of the first copy, if the second copy cannot be read or decoded either.
pub async fn read_first_whole<T, E: From<DeviceError>>(
    device: &impl Device,
    at: [u64; 2],
    block_bytes: usize,
    decode: impl Fn(&[u8]) -> Result<T, E>,
) -> Result<T, E> {
    let read = async |offset| match device.read(offset, block_bytes).await {
        Ok(block) => decode(&block),
        Err(error) => Err(error.into()),
    };
    match read(at[0]).await {
        Ok(found) => Ok(found),
        Err(error) => read(at[1]).await.map_err(|_| error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_executor::block_on;
    use nitro_device::RamDevice;

    #[test]
    fn either_copy_will_do() {
        let (device, block) = (RamDevice::new(64 << 10, 4096), [7; 4096]);
        let at = ends(64 << 10, 4096);
        assert_eq!((at, ends(9000, 4096), ends(100, 4096)), ([0, 60 << 10], [0, 4096], [0, 0]));
        let whole = |bytes: &[u8]| if bytes == block { Ok(()) } else { Err(None) };
        let read = || block_on(read_first_whole(&device, at, 4096, |bytes| whole(bytes)));
        block_on(write_both(&device, at, &block)).unwrap();
        for (offset, expected) in [(0, Ok(())), (at[1], Err(true))] {
            block_on(device.write(offset, BufMut::zeroed(4096).freeze())).unwrap();
            assert_eq!(read().map_err(|error| error.is_none()), expected);
        }
    }
}

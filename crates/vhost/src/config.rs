//! Features and configuration space of the device (virtio 1.2, §5.2.3 and §5.2.4).

use nitro_frontend::DiskInfo;

/// Most queues of a device.
pub(crate) const QUEUES_MAX: usize = 32;
/// Most descriptors of a queue.
pub(crate) const QUEUE_SIZE_MAX: u16 = 1024;
/// Bytes of a sector, the unit of offsets and lengths.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Most data segments of a request, and most bytes of a segment.
const SEGMENTS_MAX: u32 = 254;
const SEGMENT_BYTES_MAX: u32 = 1 << 20;
/// Most bytes of a range to discard or to zero, and most ranges of a request.
pub(crate) const RANGE_BYTES_MAX: u32 = 1 << 30;
pub(crate) const RANGES_MAX: u32 = 32;
/// Bytes of the configuration space; bytes beyond it read as zero.
const SPACE_BYTES: usize = 60;
/// Bytes of a physical block.
const PHYSICAL_BLOCK_BYTES: u32 = 4096;

pub(crate) const F_SIZE_MAX: u64 = 1 << 1;
pub(crate) const F_SEG_MAX: u64 = 1 << 2;
pub(crate) const F_READ_ONLY: u64 = 1 << 5;
pub(crate) const F_BLOCK_SIZE: u64 = 1 << 6;
pub(crate) const F_FLUSH: u64 = 1 << 9;
pub(crate) const F_TOPOLOGY: u64 = 1 << 10;
pub(crate) const F_MULTI_QUEUE: u64 = 1 << 12;
pub(crate) const F_DISCARD: u64 = 1 << 13;
pub(crate) const F_WRITE_ZEROES: u64 = 1 << 14;
pub(crate) const F_INDIRECT: u64 = 1 << 28;
pub(crate) const F_EVENT_IDX: u64 = 1 << 29;
/// `VHOST_USER_F_PROTOCOL_FEATURES`: protocol features of vhost-user can be negotiated.
pub(crate) const F_PROTOCOL: u64 = 1 << 30;
pub(crate) const F_VERSION_1: u64 = 1 << 32;

/// The features that the device offers for a disk.
pub(crate) fn features(info: &DiskInfo) -> u64 {
    let always = F_SIZE_MAX
        | F_SEG_MAX
        | F_BLOCK_SIZE
        | F_FLUSH
        | F_TOPOLOGY
        | F_MULTI_QUEUE
        | F_INDIRECT
        | F_EVENT_IDX
        | F_PROTOCOL
        | F_VERSION_1;
    let trim = if info.can_trim { F_DISCARD } else { 0 };
    always | if info.read_only { F_READ_ONLY } else { F_WRITE_ZEROES | trim }
}

/// `len` bytes of the configuration space from `offset` on.
pub(crate) fn space(info: &DiskInfo, offset: usize, len: usize) -> Vec<u8> {
    let whole = whole_space(info);
    (offset..offset + len).map(|at| whole.get(at).copied().unwrap_or(0)).collect()
}

/// `struct virtio_blk_config`, little-endian.
fn whole_space(info: &DiskInfo) -> Vec<u8> {
    let physical_blocks = (PHYSICAL_BLOCK_BYTES / info.block_bytes).max(1);
    let unit_blocks = info.block_preferred_bytes.next_power_of_two().max(info.block_bytes) / info.block_bytes;
    // A part of a block at the end cannot be used. The capacity is in sectors, whatever the size of a block.
    let whole_bytes = info.size_bytes - info.size_bytes % u64::from(info.block_bytes);
    let mut space = Vec::with_capacity(SPACE_BYTES);
    space.extend((whole_bytes / SECTOR_BYTES).to_le_bytes());
    space.extend(SEGMENT_BYTES_MAX.to_le_bytes());
    space.extend(SEGMENTS_MAX.to_le_bytes());
    // Cylinders, heads and sectors: not offered.
    space.extend([0; 4]);
    space.extend(info.block_bytes.to_le_bytes());
    // Topology: physical block size, its alignment, minimum and optimal length of a request in logical blocks.
    space.extend([physical_blocks.ilog2() as u8, 0]);
    space.extend(u16::try_from(unit_blocks).unwrap_or(u16::MAX).max(1).to_le_bytes());
    space.extend(unit_blocks.to_le_bytes());
    // Cache mode (not offered), padding.
    space.extend([0; 2]);
    space.extend((QUEUES_MAX as u16).to_le_bytes());
    let range_sectors = RANGE_BYTES_MAX / SECTOR_BYTES as u32;
    // Discard: most sectors, most ranges, alignment in sectors. Write zeroes: most sectors, most ranges, may unmap.
    let aligned = PHYSICAL_BLOCK_BYTES / SECTOR_BYTES as u32;
    for number in [range_sectors, RANGES_MAX, aligned, range_sectors, RANGES_MAX] {
        space.extend(number.to_le_bytes());
    }
    space.extend([1, 0, 0, 0]);
    debug_assert_eq!(space.len(), SPACE_BYTES);
    space
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_space_is_laid_out_as_the_standard_says() {
        let info = DiskInfo { block_preferred_bytes: 4096, ..DiskInfo::new(1 << 30) };
        let at = |offset, len| space(&info, offset, len);
        assert_eq!(at(0, 8), (1_u64 << 21).to_le_bytes());
        assert_eq!(at(12, 4), 254_u32.to_le_bytes());
        assert_eq!(at(20, 4), 512_u32.to_le_bytes());
        assert_eq!(at(24, 8), [3, 0, 8, 0, 8, 0, 0, 0]);
        assert_eq!(at(34, 2), 32_u16.to_le_bytes());
        assert_eq!(at(36, 4), (2_u32 << 20).to_le_bytes());
        assert_eq!(at(56, 8), [1, 0, 0, 0, 0, 0, 0, 0], "what lies beyond reads as zero");
    }

    #[test]
    fn blocks_of_4096_are_announced_and_the_capacity_stays_in_sectors() {
        let info = DiskInfo { block_bytes: 4096, block_preferred_bytes: 8192, ..DiskInfo::new((1 << 20) + 512) };
        let at = |offset, len| space(&info, offset, len);
        assert_eq!(at(0, 8), 2048_u64.to_le_bytes());
        assert_eq!(at(20, 4), 4096_u32.to_le_bytes());
        assert_eq!(at(24, 8), [0, 0, 2, 0, 2, 0, 0, 0], "physical blocks are logical ones; two of them are preferred");
    }

    #[test]
    fn a_disk_without_writes_is_offered_as_such() {
        let read_only = features(&DiskInfo { read_only: true, ..DiskInfo::new(512) });
        assert_eq!(read_only & (F_READ_ONLY | F_DISCARD | F_WRITE_ZEROES), F_READ_ONLY);
        let writable = features(&DiskInfo { can_trim: false, ..DiskInfo::new(512) });
        assert_eq!(writable & (F_READ_ONLY | F_DISCARD | F_WRITE_ZEROES), F_WRITE_ZEROES);
    }
}

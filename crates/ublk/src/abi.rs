//! The contents of the buffers of control commands (`linux/ublk_cmd.h`). Numbers are in the machine's byte order.

use nitro_frontend::DiskInfo;

/// Bytes of a sector.
pub const SECTOR_BYTES: u64 = 512;
/// Longest read or write in bytes.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Longest range in bytes to discard or to zero at once.
pub const RANGE_BYTES_MAX: u32 = 1 << 30;
/// Bytes of the driver's set of features.
pub const FEATURES_BYTES: usize = 8;
/// A device number that lets the driver choose one.
pub const ANY_NUMBER: u32 = u32::MAX;

/// Features of a device (`UBLK_F_...`).
pub mod feature {
    /// When the server ends, the device waits for another one.
    pub const RECOVERY: u64 = 1 << 3;
    /// Requests that the last server had begun go to the next one.
    pub const REISSUE: u64 = 1 << 4;
    /// Commands are encoded as those of ioctl(2).
    pub const IOCTL_CODES: u64 = 1 << 6;
    /// Data are copied by pread(2) and pwrite(2).
    pub const USER_COPY: u64 = 1 << 7;
}

/// The state of a device (`UBLK_S_...`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is not started, or was removed.
    Dead,
    /// It is served.
    Live,
    /// Its server has ended; requests wait for another one.
    Quiesced,
    /// Its server has ended; requests fail.
    Failing,
    /// A state of a newer kernel.
    Other(u16),
}

/// The properties of a device (`struct ublksrv_ctrl_dev_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Its number, as in `/dev/ublkb0`, or [`ANY_NUMBER`].
    pub number: u32,
    /// Queues; the driver may make fewer.
    pub queues: u16,
    /// Requests of a queue.
    pub depth: u16,
    /// Its state.
    pub state: State,
    /// Longest read or write in bytes.
    pub request_bytes_max: u32,
    /// The process that serves it.
    pub server: i32,
    /// Its [features](feature).
    pub features: u64,
    /// What the server that made it has noted for itself.
    pub tag: u64,
}

impl Info {
    /// Bytes of the structure.
    pub const BYTES: usize = 64;

    /// A device to be made, for a disk that is marked with `tag`.
    #[must_use]
    pub fn new(queues: u16, depth: u16, features: u64, tag: u64) -> Self {
        let request_bytes_max = REQUEST_BYTES_MAX;
        Self { number: ANY_NUMBER, queues, depth, state: State::Dead, request_bytes_max, server: 0, features, tag }
    }

    /// As the driver reads it.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.queues.to_ne_bytes());
        put(2, &self.depth.to_ne_bytes());
        put(8, &self.request_bytes_max.to_ne_bytes());
        put(12, &self.number.to_ne_bytes());
        put(16, &self.server.to_ne_bytes());
        put(24, &self.features.to_ne_bytes());
        put(32, &self.tag.to_ne_bytes());
        out
    }

    /// As the driver wrote it.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let state = match half(4) {
            0 => State::Dead,
            1 => State::Live,
            2 => State::Quiesced,
            3 => State::Failing,
            other => State::Other(other),
        };
        Self {
            number: word(12),
            queues: half(0),
            depth: half(2),
            state,
            request_bytes_max: word(8),
            server: word(16).cast_signed(),
            features: long(24),
            tag: long(32),
        }
    }
}

/// The parameters of a block device (`struct ublk_params`, with its parts `basic` and `discard`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    attributes: u32,
    /// Logarithms of the sizes of blocks: logical, physical, optimal and minimal I/O.
    shifts: [u8; 4],
    sectors: u64,
    discard_sectors_max: u32,
}

/// Attributes (`UBLK_ATTR_...`).
const READ_ONLY: u32 = 1;
const ROTATIONAL: u32 = 2;
const VOLATILE_CACHE: u32 = 4;
const FUA: u32 = 8;
/// Parts that are set (`UBLK_PARAM_TYPE_...`).
const BASIC_AND_DISCARD: u32 = 3;
/// The unit in which the page cache writes.
const PAGE_SHIFT: u8 = 12;

impl Parameters {
    /// Bytes of the structure up to the end of its last part that is set.
    pub const BYTES: usize = 60;

    /// The parameters for a disk with logical blocks of `block_bytes`, a power of two from 512 to 4096. Bytes after the last
    /// whole block cannot be reached.
    #[must_use]
    pub fn new(info: &DiskInfo, block_bytes: u32) -> Self {
        let block_bytes = block_bytes.next_power_of_two().clamp(SECTOR_BYTES as u32, 1 << PAGE_SHIFT);
        let preferred = info.block_preferred_bytes.next_power_of_two().clamp(1 << PAGE_SHIFT, REQUEST_BYTES_MAX);
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let blocks = info.size_bytes / u64::from(block_bytes);
        Self {
            attributes: VOLATILE_CACHE | FUA | flag(info.read_only, READ_ONLY) | flag(info.rotational, ROTATIONAL),
            shifts: [block_bytes.trailing_zeros() as u8, PAGE_SHIFT, preferred.trailing_zeros() as u8, PAGE_SHIFT],
            sectors: blocks * (u64::from(block_bytes) / SECTOR_BYTES),
            discard_sectors_max: if info.can_trim { RANGE_BYTES_MAX / SECTOR_BYTES as u32 } else { 0 },
        }
    }

    /// As the driver reads it.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(Self::BYTES as u32).to_ne_bytes());
        put(4, &BASIC_AND_DISCARD.to_ne_bytes());
        put(8, &self.attributes.to_ne_bytes());
        put(12, &self.shifts);
        put(16, &(REQUEST_BYTES_MAX / SECTOR_BYTES as u32).to_ne_bytes());
        put(24, &self.sectors.to_ne_bytes());
        // The granularity must not be 0.
        put(44, &(1_u32 << PAGE_SHIFT).to_ne_bytes());
        put(48, &self.discard_sectors_max.to_ne_bytes());
        put(52, &(RANGE_BYTES_MAX / SECTOR_BYTES as u32).to_ne_bytes());
        put(56, &1_u16.to_ne_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap())
    }

    #[test]
    fn properties_are_where_the_kernel_has_them() {
        let features = feature::USER_COPY | feature::RECOVERY;
        let asked = Info::new(2, 128, features, 0x1122_3344_5566_7788);
        let mut bytes = asked.encode();
        assert_eq!(Info::decode(&bytes), asked);
        assert_eq!((word(&bytes, 0), word(&bytes, 8), word(&bytes, 12)), (128 << 16 | 2, 1 << 20, u32::MAX));
        assert_eq!(u64::from_ne_bytes(*bytes[24..].first_chunk().unwrap()), 0x88);
        // What the driver fills in.
        bytes[4] = 2;
        bytes[12..16].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[16..20].copy_from_slice(&4321_i32.to_ne_bytes());
        let told = Info::decode(&bytes);
        assert_eq!((told.number, told.state, told.server, told.tag), (7, State::Quiesced, 4321, asked.tag));
        bytes[4] = 9;
        assert_eq!(Info::decode(&bytes).state, State::Other(9));
    }

    #[test]
    fn parameters_are_where_the_kernel_has_them() {
        let info = DiskInfo { rotational: true, block_preferred_bytes: 8192, ..DiskInfo::new((1 << 20) + 512 + 1) };
        let bytes = Parameters::new(&info, 512).encode();
        assert_eq!((word(&bytes, 0), word(&bytes, 4), word(&bytes, 8)), (60, 3, 2 | 4 | 8));
        assert_eq!((&bytes[12..16], word(&bytes, 16), word(&bytes, 20)), (&[9, 12, 13, 12][..], 2048, 0));
        assert_eq!((word(&bytes, 24), word(&bytes, 44)), (2049, 4096), "a rest of less than a block is not reached");
        assert_eq!((word(&bytes, 48), word(&bytes, 52), word(&bytes, 56)), (1 << 21, 1 << 21, 1));
        let read_only = DiskInfo { read_only: true, can_trim: false, ..info };
        let bytes = Parameters::new(&read_only, 4096).encode();
        assert_eq!((word(&bytes, 8), bytes[12], word(&bytes, 24), word(&bytes, 48)), (1 | 2 | 4 | 8, 12, 2048, 0));
    }
}

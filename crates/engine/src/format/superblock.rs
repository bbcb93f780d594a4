//! The superblock, which describes a cache device. There are two copies: in the first 4 KiB of the device, and in its
//! last whole 4 KiB block. If a cache has several devices, each of them has both.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `NITROSSD` |
//! | 8 | 4 | format version: 4; in caches of earlier programs 1, 2 if a write log is, or was, in use, or 3 if the cache has several devices |
//! | 12 | 4 | extent size in bytes |
//! | 16 | 4 | WEU size in bytes |
//! | 20 | 4 | number of WEU slots |
//! | 24 | 8 | offset of the first WEU slot |
//! | 32 | 16 | UUID of the cache |
//! | 48 | 8 | epoch: random for each formatting |
//! | 56 | 8 | offset of the journal |
//! | 64 | 8 | bytes of the journal |
//! | 72 | 4 | start: how often the cache has been started |
//! | 76 | 1 | fingerprints: 0 none, 1 BLAKE3, 2 SHA-1 |
//! | 77 | 8 | offset of the index of fingerprints on flash, zero if there is none |
//! | 85 | 8 | bytes of that index |
//! | 93 | 16 | identification of the machine's state at that start, given by the program; zero: unknown |
//! | 109 | 1 | number of devices of the cache; 0: one |
//! | 110 | 1 | number of this device, from 0 |
//! | 111 | 2 | devices that are lost: one bit each, from the lowest bit of the first byte on |
//! | 113 | 1 | format versions 3 and 4: 1 if a write log is, or was, in use |
//! | 114 | 8 | features that a program must know to use the cache: one bit each. Bit 0: records of volumes have identities; bit 1: WEUs have records of duplicates |
//! | 122 | 3970 | reserved, zero |
//! | 4092 | 4 | CRC-32C of the 4092 bytes before |

use super::{
    FORMAT_VERSION, FORMAT_VERSION_FEATURES, FORMAT_VERSION_LOGGED, FORMAT_VERSION_STRIPED, FormatError, other_version,
};
use crate::settings::EngineSettings;
use nitro_cache::SettingError;
use nitro_cache::settings::{EXTENT_BYTES, WEU_BYTES};
use nitro_log::{Reader, Writer, is_sealed, seal};
use nitro_port::codec::FingerprintHash;

const MAGIC: [u8; 8] = *b"NITROSSD";
const NAME: &str = "superblock";
/// Feature: the journal's records of volumes have the identities of their origins.
pub const FEATURE_IDENTITIES: u64 = 1;
/// Feature: WEUs have records of duplicates, and the journal has bits for those that are void.
pub const FEATURE_DUPLICATES: u64 = 1 << 1;
/// The features that this program knows; it writes all of them.
pub const FEATURES: u64 = FEATURE_IDENTITIES | FEATURE_DUPLICATES;
/// Bytes that identify a machine's state.
pub const IDENTITY_BYTES: usize = 16;
/// Bytes of one copy.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// The offsets of the copies on a device of `size_bytes`: in its first and in its last whole block of
/// [`SUPERBLOCK_BYTES`].
#[must_use]
pub const fn superblock_offsets(size_bytes: u64) -> [u64; 2] {
    nitro_log::ends(size_bytes, SUPERBLOCK_BYTES)
}

/// A part of the device, such as the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// First byte; a multiple of 4096.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Most devices of a cache.
pub const DEVICES_MAX: u32 = 16;

/// A device's place among those of its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DevicePlace {
    /// Number of devices, from 1 to [`DEVICES_MAX`].
    pub devices: u8,
    /// The number of this one, from 0.
    pub number: u8,
    /// Those that are lost: one bit each. They are not used again until the cache is formatted.
    pub lost: u16,
}

impl DevicePlace {
    /// That of the only device of a cache.
    pub const ONLY: Self = Self { devices: 1, number: 0, lost: 0 };
}

/// The description of a cache device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    /// Extent size in bytes.
    pub extent_bytes: u32,
    /// WEU size in bytes.
    pub weu_bytes: u32,
    /// Number of WEU slots.
    pub weu_count: u32,
    /// Offset of the first slot on the device; a multiple of the WEU size.
    pub data_offset: u64,
    /// The identity of the cache.
    pub uuid: [u8; 16],
    /// Random for each formatting.
    pub epoch: u64,
    /// The area of the journal.
    pub journal: Area,
    /// How often the cache has been started.
    pub start: u32,
    /// The hash function of fingerprints.
    pub fingerprints: Option<FingerprintHash>,
    /// A write log is, or was, in use: the journal may have records about it.
    pub logged: bool,
    /// The part of the device for an index of fingerprints. Programs that do not know it leave it unchanged, and can
    /// ignore it: its entries are checked before they are used.
    pub index: Option<Area>,
    /// See [`CrashMemory::identity`](crate::CrashMemory::identity), of the last start; zeroes: not known.
    pub identity: [u8; IDENTITY_BYTES],
    /// The device's place among those of the cache.
    pub place: DevicePlace,
}

/// The number of a hash.
const fn number(fingerprints: Option<FingerprintHash>) -> u8 {
    match fingerprints {
        None => 0,
        Some(FingerprintHash::Blake3) => 1,
        Some(FingerprintHash::Sha1) => 2,
    }
}

impl Superblock {
    /// One copy's bytes.
    pub fn encode(&self, block: &mut [u8]) {
        block[..SUPERBLOCK_BYTES].fill(0);
        Writer::new(block)
            .put(&MAGIC)
            .u32(FORMAT_VERSION_FEATURES)
            .u32(self.extent_bytes)
            .u32(self.weu_bytes)
            .u32(self.weu_count)
            .u64(self.data_offset)
            .put(&self.uuid)
            .u64(self.epoch)
            .u64(self.journal.offset)
            .u64(self.journal.len)
            .u32(self.start)
            .u8(number(self.fingerprints))
            .u64(self.index.map_or(0, |area| area.offset))
            .u64(self.index.map_or(0, |area| area.len))
            .put(&self.identity)
            .u8(self.place.devices)
            .u8(self.place.number)
            .put(&self.place.lost.to_le_bytes())
            .u8(self.logged.into())
            .u64(FEATURES);
        seal(&mut block[..SUPERBLOCK_BYTES]);
    }

    /// The end of the last slot on the device, in bytes.
    #[must_use]
    pub fn data_end(&self) -> u64 {
        self.data_offset.saturating_add(u64::from(self.weu_count) * u64::from(self.weu_bytes))
    }

    /// Checks that a cache with this format can be used with `settings`.
    ///
    /// # Errors
    /// [`SettingError`] naming the first setting that differs, with the value that it has.
    pub fn check(&self, settings: &EngineSettings) -> Result<(), SettingError> {
        let same = |name, value: u64, has: u64| {
            let reason = format!("the cache was made with {has}");
            if value == has { Ok(()) } else { Err(SettingError { name, value, reason, nearest: has }) }
        };
        same("extent_size", settings.manager.extent_bytes.into(), self.extent_bytes.into())?;
        same("weu_size", settings.manager.weu_bytes.into(), self.weu_bytes.into())?;
        let weu = u64::from(self.weu_bytes);
        same("cache_size", settings.manager.cache_bytes / weu * weu, u64::from(self.weu_count) * weu)?;
        match (settings.fingerprints(), self.fingerprints) {
            (Some(wanted), Some(has)) => {
                same("fingerprint_hash", number(Some(wanted)).into(), number(Some(has)).into())
            }
            _ => Ok(()),
        }
    }

    /// The format version of one copy, whether this program knows it or not.
    ///
    /// # Errors
    /// [`FormatError`]: there is no superblock, or it is damaged.
    pub fn version(bytes: &[u8]) -> Result<u32, FormatError> {
        let (block, version, _) = begin(bytes)?;
        if is_sealed(block) { Ok(version) } else { Err(FormatError::Checksum { structure: NAME }) }
    }

    /// Reads one copy.
    ///
    /// # Errors
    /// [`FormatError`] naming what is wrong; [`FormatError::Magic`]: the device is not a Nitro cache.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let (block, version, mut reader) = begin(bytes)?;
        if !(FORMAT_VERSION..=FORMAT_VERSION_FEATURES).contains(&version) {
            return Err(other_version(version));
        }
        if !is_sealed(block) {
            return Err(FormatError::Checksum { structure: NAME });
        }
        let mut superblock = Self {
            extent_bytes: reader.u32()?,
            weu_bytes: reader.u32()?,
            weu_count: reader.u32()?,
            data_offset: reader.u64()?,
            uuid: reader.array()?,
            epoch: reader.u64()?,
            journal: Area { offset: reader.u64()?, len: reader.u64()? },
            start: reader.u32()?,
            fingerprints: match reader.u8()? {
                0 => None,
                1 => Some(FingerprintHash::Blake3),
                2 => Some(FingerprintHash::Sha1),
                other => return Err(reader.refuse("fingerprints", other.into())),
            },
            logged: version == FORMAT_VERSION_LOGGED,
            index: Some(Area { offset: reader.u64()?, len: reader.u64()? }).filter(|area| area.len > 0),
            identity: reader.array()?,
            place: DevicePlace::ONLY,
        };
        if version >= FORMAT_VERSION_STRIPED {
            let place =
                DevicePlace { devices: reader.u8()?, number: reader.u8()?, lost: u16::from_le_bytes(reader.array()?) };
            let least = if version == FORMAT_VERSION_STRIPED { 2 } else { 1 };
            if !(least..=DEVICES_MAX).contains(&place.devices.into()) {
                return Err(reader.refuse("number of devices", place.devices.into()));
            }
            if place.number >= place.devices {
                return Err(reader.refuse("number of this device", place.number.into()));
            }
            if u32::from(place.lost) >> place.devices != 0 || place.lost >> place.number & 1 == 1 {
                return Err(reader.refuse("devices that are lost", place.lost.into()));
            }
            superblock.place = place;
            superblock.logged = match reader.u8()? {
                0 => false,
                1 => true,
                other => return Err(reader.refuse("write log", other.into())),
            };
        }
        if version >= FORMAT_VERSION_FEATURES {
            let unknown = reader.u64()? & !FEATURES;
            if unknown != 0 {
                return Err(FormatError::Features { structure: NAME, unknown });
            }
        }
        EXTENT_BYTES.check(superblock.extent_bytes.into()).map_err(|e| reader.refuse("extent size", e.value))?;
        WEU_BYTES.check(superblock.weu_bytes.into()).map_err(|e| reader.refuse("WEU size", e.value))?;
        if superblock.data_offset < SUPERBLOCK_BYTES as u64 || superblock.data_offset > 1 << 40 {
            return Err(reader.refuse("data offset", superblock.data_offset));
        }
        let Area { offset, len } = superblock.journal;
        if offset < SUPERBLOCK_BYTES as u64 || offset.checked_add(len).is_none_or(|e| e > superblock.data_offset) {
            return Err(reader.refuse("offset of the journal", offset));
        }
        if let Some(index) = superblock.index {
            let end = index.offset.checked_add(index.len);
            if index.offset < offset + len || end.is_none_or(|end| end > superblock.data_offset) {
                return Err(reader.refuse("offset of the index", index.offset));
            }
        }
        Ok(superblock)
    }
}

/// The bytes of one copy, its version, and a reader after these: the magic number is right, the checksum is not checked.
fn begin(bytes: &[u8]) -> Result<(&[u8], u32, Reader<'_>), FormatError> {
    let need = SUPERBLOCK_BYTES;
    let block = bytes.get(..need).ok_or(FormatError::Short { structure: NAME, have: bytes.len(), need })?;
    let mut reader = Reader::new(NAME, block);
    if reader.array()? != MAGIC {
        return Err(FormatError::Magic { structure: NAME });
    }
    let version = reader.u32()?;
    Ok((block, version, reader))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_whole_superblock_is_read_whichever_it_is() {
        let mut block = vec![0; SUPERBLOCK_BYTES];
        block[..8].copy_from_slice(&MAGIC);
        block[8] = 9;
        assert_eq!(Superblock::version(&block), Err(FormatError::Checksum { structure: NAME }));
        seal(&mut block);
        assert_eq!(Superblock::version(&block), Ok(9));
        assert_eq!(Superblock::decode(&block), Err(other_version(9)));
        assert_eq!(other_version(9).to_string().split(':').next(), Some("made by a later nitro"));
        assert!(!other_version(0).to_string().contains("later"));
    }

    #[test]
    fn a_superblock_comes_back_and_any_flipped_bit_is_noticed() {
        let superblock = Superblock {
            extent_bytes: 8192,
            weu_bytes: 2 << 20,
            weu_count: 2047,
            data_offset: 4 << 20,
            uuid: *b"0123456789abcdef",
            epoch: 99,
            journal: Area { offset: 8192, len: 1 << 20 },
            start: 3,
            fingerprints: Some(FingerprintHash::Sha1),
            logged: true,
            index: Some(Area { offset: 2 << 20, len: 2 << 20 }),
            identity: *b"machine and boot",
            place: DevicePlace::ONLY,
        };
        for (place, logged) in
            [(DevicePlace::ONLY, true), (DevicePlace { devices: 16, number: 3, lost: 0x8001 }, false)]
        {
            comes_back(Superblock { place, logged, ..superblock });
        }
        let alone = Superblock { place: DevicePlace { devices: 2, number: 1, lost: 2 }, ..superblock };
        let mut block = vec![0; SUPERBLOCK_BYTES];
        alone.encode(&mut block);
        assert!(Superblock::decode(&block).is_err(), "a device that is lost itself");
    }

    fn comes_back(superblock: Superblock) {
        let mut block = vec![0xAA; SUPERBLOCK_BYTES];
        superblock.encode(&mut block);
        assert_eq!(Superblock::decode(&block), Ok(superblock));
        for byte in 0..SUPERBLOCK_BYTES {
            block[byte] ^= 1;
            assert!(Superblock::decode(&block).is_err(), "byte {byte}");
            block[byte] ^= 1;
        }
        assert_eq!(Superblock::decode(&[0; 4096]), Err(FormatError::Magic { structure: NAME }));
    }
}

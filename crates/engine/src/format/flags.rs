//! The flags of a stored extent, in a WEU's table and in the journal: bit 0, it has a fingerprint; bit 1, it is stored
//! as it is, in whole blocks, without a prefix; bits 2 to 6, the class of the request that stored it.

use super::FormatError;
use nitro_log::Reader;
use nitro_units::ClassId;

const FINGERPRINT: u8 = 1;
const RAW: u8 = 1 << 1;
const CLASS_SHIFT: u32 = 2;
const CLASS: u8 = 0x1F << CLASS_SHIFT;

/// The flags of a stored extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) has_fingerprint: bool,
    pub(super) raw: bool,
    pub(super) class: ClassId,
}

impl Flags {
    pub(super) fn to_byte(self) -> u8 {
        u8::from(self.has_fingerprint) * FINGERPRINT + u8::from(self.raw) * RAW + (self.class.number() << CLASS_SHIFT)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let byte = reader.u8()?;
        if byte & !(FINGERPRINT | RAW | CLASS) != 0 {
            return Err(reader.refuse("flags", byte.into()));
        }
        let class = ClassId::new((byte & CLASS) >> CLASS_SHIFT).unwrap_or_default();
        Ok(Self { has_fingerprint: byte & FINGERPRINT != 0, raw: byte & RAW != 0, class })
    }
}

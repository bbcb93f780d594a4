//! What clients write: every sector tells where and by which write it was written, or which shared content it is part of.

use nitro_testkit::Rng;
use nitro_testkit::crashing::SECTOR_BYTES;

/// Contents that are written again and again, everywhere, so that duplicates are found.
pub const SHARED: u64 = 24;
/// Shared contents repeat with this period, in sectors: the largest extent of the tests.
const PERIOD: u64 = 16;

const UNIQUE: u32 = 0x5157_5257;
const POOLED: u32 = 0x4C4F_4F50;
const THIN: u32 = 0x4E49_4854;

/// The content of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Of this write alone.
    Unique { volume: u64, write: u64 },
    /// Of this write alone, and compressible to a small part of its size.
    Thin { volume: u64, write: u64 },
    /// One of [`SHARED`]; number 0 is zeroes.
    Shared(u64),
}

impl Content {
    /// The bytes of a sector.
    pub fn fill(self, sector: u64, out: &mut [u8]) {
        let (magic, volume, number, place) = match self {
            Self::Shared(0) => return out.fill(0),
            Self::Shared(number) => (POOLED, 0, number, sector % PERIOD),
            Self::Unique { volume, write } => (UNIQUE, volume, write, sector),
            Self::Thin { volume, write } => (THIN, volume, write, sector),
        };
        let mut noise = Rng::new(number << 24 ^ place << 4 ^ volume);
        // A third of the contents shrink to about half.
        let words = match self {
            Self::Thin { .. } => 0,
            _ if number.is_multiple_of(3) => SECTOR_BYTES / 16,
            _ => SECTOR_BYTES / 8,
        };
        out.fill(0x55);
        out.chunks_mut(8).take(words).for_each(|w| w.copy_from_slice(&noise.next().to_le_bytes()));
        out[..4].copy_from_slice(&magic.to_le_bytes());
        out[4..8].copy_from_slice(&(volume as u32).to_le_bytes());
        out[8..16].copy_from_slice(&number.to_le_bytes());
        out[16..24].copy_from_slice(&place.to_le_bytes());
    }
}

/// What a sector's bytes are, in words.
pub fn describe(sector: &[u8]) -> String {
    if sector.iter().all(|b| *b == 0) {
        return "zeroes".into();
    }
    let word = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().unwrap());
    let (magic, volume, number, place) = (word(0) as u32, word(0) >> 32, word(8), word(16));
    let (content, name) = match magic {
        UNIQUE => (Content::Unique { volume, write: number }, format!("write {number} of volume {volume}")),
        THIN => (Content::Thin { volume, write: number }, format!("write {number} of volume {volume}")),
        POOLED => (Content::Shared(number), format!("shared content {number}")),
        _ => return format!("foreign bytes {:02x?}", &sector[..24]),
    };
    let mut whole = [0; SECTOR_BYTES];
    content.fill(place, &mut whole);
    let differs = whole.iter().zip(sector).filter(|(a, b)| a != b).count();
    let patched = if differs == 0 { String::new() } else { format!(", {differs} bytes of it others") };
    format!("{name}, sector {place}{patched}")
}

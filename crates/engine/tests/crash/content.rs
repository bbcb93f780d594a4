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
    Unique { volume: u8, write: u32 },
    /// Of this write alone, and compressible to a small part of its size.
    Thin { volume: u8, write: u32 },
    /// One of [`SHARED`]; number 0 is zeroes.
    Shared(u32),
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
        let mut noise = Rng::new(u64::from(number) << 24 ^ place << 4 ^ u64::from(volume));
        // A third of the contents shrink to about half.
        let words = match self {
            Self::Thin { .. } => 0,
            _ if number.is_multiple_of(3) => SECTOR_BYTES / 16,
            _ => SECTOR_BYTES / 8,
        };
        out.fill(0x55);
        out.chunks_mut(8).take(words).for_each(|w| w.copy_from_slice(&noise.next().to_le_bytes()));
        let head = [u64::from(magic) | u64::from(volume) << 32, number.into(), place];
        out.chunks_mut(8).zip(head).for_each(|(out, word)| out.copy_from_slice(&word.to_le_bytes()));
    }

    /// The content that a sector says it is of, and its place there. The bytes behind that may be others.
    fn told(sector: &[u8]) -> Option<(Self, u32)> {
        if sector.iter().all(|b| *b == 0) {
            return Some((Self::Shared(0), 0));
        }
        let word = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().unwrap());
        let (volume, write) = (word(4) as u8, word(8));
        let content = match word(0) {
            UNIQUE => Self::Unique { volume, write },
            THIN => Self::Thin { volume, write },
            POOLED => Self::Shared(write),
            _ => return None,
        };
        Some((content, word(16)))
    }

    fn bytes(self, place: u32) -> [u8; SECTOR_BYTES] {
        let mut whole = [0; SECTOR_BYTES];
        self.fill(place.into(), &mut whole);
        whole
    }
}

/// The bytes of a sector, in little RAM: a content and a place say what they are, where no two writes share the sector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sector {
    Of(Content, u32),
    Bytes(Box<[u8; SECTOR_BYTES]>),
}

impl Sector {
    pub const ZERO: Self = Self::Of(Content::Shared(0), 0);

    /// # Panics
    /// If it is no whole sector.
    pub fn new(bytes: &[u8]) -> Self {
        match Content::told(bytes) {
            Some((content, place)) if content.bytes(place) == *bytes => Self::Of(content, place),
            _ => Self::Bytes(Box::new(bytes.try_into().unwrap())),
        }
    }

    pub fn bytes(&self) -> [u8; SECTOR_BYTES] {
        match self {
            Self::Of(content, place) => content.bytes(*place),
            Self::Bytes(bytes) => **bytes,
        }
    }
}

/// What a sector's bytes are, in words.
pub fn describe(sector: &[u8]) -> String {
    let Some((content, place)) = Content::told(sector) else { return format!("foreign bytes {:02x?}", &sector[..24]) };
    let name = match content {
        Content::Shared(0) => return "zeroes".into(),
        Content::Shared(number) => format!("shared content {number}"),
        Content::Unique { volume, write } | Content::Thin { volume, write } => {
            format!("write {write} of volume {volume}")
        }
    };
    let differs = content.bytes(place).iter().zip(sector).filter(|(a, b)| a != b).count();
    let patched = if differs == 0 { String::new() } else { format!(", {differs} bytes of it others") };
    format!("{name}, sector {place}{patched}")
}

#[test]
fn a_sector_is_kept_as_it_is() {
    let mut out = [0; SECTOR_BYTES];
    for content in [
        Content::Unique { volume: 1, write: 77 },
        Content::Thin { volume: 0, write: 3 },
        Content::Shared(0),
        Content::Shared(7),
    ] {
        content.fill(9000, &mut out);
        let kept = Sector::new(&out);
        assert!(matches!(kept, Sector::Of(same, _) if same == content) && kept.bytes() == out);
        for at in [0, 4, 8, 12, 16, 20, 24, 511] {
            let mut other = out;
            other[at] ^= 1;
            assert_eq!(Sector::new(&other).bytes(), other, "{content:?}, byte {at}");
        }
    }
}

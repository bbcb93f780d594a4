//! The pieces on an SSD, and their keys.

use crate::format::checksum;
use crate::place::Reference;
use nitro_cache::admission::{Lane, Shelf};
use nitro_cache::class::Band;
use nitro_units::{ClassId, ExtentKey};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

/// The kind of a piece; each kind is a class of the cache manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// Recipe blocks (file metadata).
    Fmd,
    /// Pages of the fingerprint index, or of short fingerprints.
    Fpi,
    /// Chunks.
    Data,
}

impl PieceKind {
    pub(crate) const ALL: [Self; 3] = [Self::Fmd, Self::Fpi, Self::Data];

    /// The index in [`ALL`](Self::ALL).
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fmd => "fmd",
            Self::Fpi => "fpi",
            Self::Data => "data",
        }
    }

    pub(crate) fn class(self) -> ClassId {
        ClassId::new(self as u8 + 1).unwrap_or_default()
    }

    pub(crate) fn of(class: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.class().number() == class)
    }

    /// The shelf whose open unit the piece goes to. Each kind fills its own unit.
    pub(crate) const fn shelf(self) -> Shelf {
        let lane = match self {
            Self::Data => Lane::Main,
            Self::Fmd | Self::Fpi => Lane::Side,
        };
        Shelf { lane, band: Band::NORMAL }
    }
}

/// The identity of a piece, as two hashes: its key, and a seed that is mixed into its check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) kind: PieceKind,
    pub(crate) key: ExtentKey,
    pub(crate) class: ClassId,
    pub(super) seed: u64,
}

impl Piece {
    fn new(kind: PieceKind, name: &[u8], filling: u64) -> Self {
        let hash = xxh3_128_with_seed(name, filling ^ u64::from(kind.class().number()));
        let key = ExtentKey::from_raw(hash as u64);
        Self { kind, key, class: kind.class(), seed: (hash >> 64) as u64 }
    }

    /// The piece of a chunk or a recipe block in the container with this sequence number. Different contents may have
    /// the same fingerprint, and blocks with the same fingerprint may have different places; the place distinguishes
    /// them.
    pub(crate) fn chunk(kind: PieceKind, reference: &Reference, sequence: u64, keys: u64) -> Self {
        let mut name = [0; 36];
        name[..20].copy_from_slice(&reference.fingerprint.0);
        name[20..28].copy_from_slice(&reference.place.pack().to_le_bytes());
        name[28..].copy_from_slice(&sequence.to_le_bytes());
        Self::new(kind, &name, keys)
    }

    /// The piece of a page of the fingerprint index.
    pub(crate) fn page(number: u64, keys: u64) -> Self {
        Self::new(PieceKind::Fpi, &number.to_le_bytes(), keys)
    }

    /// The piece of a page of short fingerprints.
    pub(crate) fn short(number: u32, keys: u64) -> Self {
        Self::new(PieceKind::Fpi, &number.to_le_bytes(), keys)
    }

    /// The check of the piece's bytes in a unit with this generation.
    pub(crate) fn check(&self, bytes: &[u8], generation: u32) -> u32 {
        xxh3_64_with_seed(bytes, self.seed ^ u64::from(generation) << 32 ^ bytes.len() as u64) as u32
    }
}

/// The seed of keys: collisions cannot be produced without knowing the store's seed.
pub(crate) fn key_seed(store_seed: u64, filling: u64) -> u64 {
    checksum(b"keys of an SSD", store_seed, filling)
}

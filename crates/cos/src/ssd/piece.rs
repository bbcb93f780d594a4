//! What is kept on an SSD, and how it is named there.

use crate::format::checksum;
use crate::place::Reference;
use nitro_cache::admission::{Lane, Shelf};
use nitro_cache::class::Band;
use nitro_units::{ClassId, ExtentKey};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

/// What a piece is; the classes of the cache manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// Blocks of recipes: files' metadata.
    Fmd,
    /// Pages of the fingerprint index.
    Fpi,
    /// Chunks.
    Data,
}

impl PieceKind {
    pub(crate) const ALL: [Self; 3] = [Self::Fmd, Self::Fpi, Self::Data];

    /// Its place among [`ALL`](Self::ALL).
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

    /// The open unit that it goes to: each kind fills its own.
    pub(crate) const fn shelf(self) -> Shelf {
        let lane = match self {
            Self::Data => Lane::Main,
            Self::Fmd | Self::Fpi => Lane::Side,
        };
        Shelf { lane, band: Band::NORMAL }
    }
}

/// What a piece is, by two hashes: one names it, the other is mixed into its check.
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

    /// A chunk, or a block of a recipe, at its place in a container of that sequence number. There may be contents of one
    /// fingerprint that are not the same, and blocks of one fingerprint that have other places: the place tells them apart.
    pub(crate) fn chunk(kind: PieceKind, reference: &Reference, sequence: u64, keys: u64) -> Self {
        let mut name = [0; 36];
        name[..20].copy_from_slice(&reference.fingerprint.0);
        name[20..28].copy_from_slice(&reference.place.pack().to_le_bytes());
        name[28..].copy_from_slice(&sequence.to_le_bytes());
        Self::new(kind, &name, keys)
    }

    /// A page of the fingerprint index.
    pub(crate) fn page(number: u64, keys: u64) -> Self {
        Self::new(PieceKind::Fpi, &number.to_le_bytes(), keys)
    }

    /// The check of its bytes in a unit of that generation.
    pub(crate) fn check(&self, bytes: &[u8], generation: u32) -> u32 {
        xxh3_64_with_seed(bytes, self.seed ^ u64::from(generation) << 32 ^ bytes.len() as u64) as u32
    }
}

/// What keys are seeded with: nobody who does not know the store's seed can aim at collisions.
pub(crate) fn key_seed(store_seed: u64, filling: u64) -> u64 {
    checksum(b"keys of an SSD", store_seed, filling)
}

//! Admission to caches that replace extents one by one, by the server's policies.

use crate::settings::Settings;
use crate::workload::Piece;
use nitro_cache::admission::{Admission, AdmissionKind, Provenance, is_metadata};
use nitro_cache::builtin;
use nitro_trace::Op;
use nitro_units::{ClassId, ExtentKey};

/// The level of an extent in two-level selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// Metadata of file systems.
    First,
    /// Data.
    Second,
}

impl Level {
    /// The class of an extent whose level is all that is known of it.
    const fn class(self) -> ClassId {
        match self {
            Self::First => builtin::METADATA,
            Self::Second => ClassId::UNCLASSIFIED,
        }
    }
}

/// The policy of admission, if it may refuse extents.
pub(super) struct Door(Option<Box<dyn Admission>>);

impl Door {
    /// For a cache of `extents`.
    pub(super) fn new(settings: &Settings, extents: u64) -> Self {
        let refuses = settings.admission != AdmissionKind::All;
        Self(refuses.then(|| settings.admission.build(extents, settings.seed)))
    }

    /// Whether metadata is kept apart from data, so that data does not replace it.
    pub(super) const fn has_levels(&self) -> bool {
        self.0.is_some()
    }

    /// The level to which a piece belongs; all pieces belong to the second one if there are no levels.
    pub(super) fn level(&self, piece: &Piece) -> Level {
        if self.has_levels() && is_metadata(piece.class()) { Level::First } else { Level::Second }
    }

    /// Notes that an extent was looked up for a read or write, cached or not.
    pub(super) fn looked_up(&mut self, piece: &Piece) {
        if let Some(policy) = self.0.as_mut().filter(|_| matches!(piece.op(), Op::Read | Op::Write)) {
            policy.looked_up(piece.key);
        }
    }

    /// Whether an extent that is not cached is admitted, and replaces `victims`: the keys of one place and their level.
    /// `None`: there is a free place.
    pub(super) fn admits(
        &mut self,
        piece: &Piece,
        victims: Option<(Level, &mut dyn Iterator<Item = ExtentKey>)>,
    ) -> bool {
        let Some(policy) = &mut self.0 else { return true };
        match victims {
            None => policy.saw_victim(None),
            Some((level, keys)) => policy.saw_victim(Some(&mut keys.map(|key| (key, level.class())))),
        }
        let from = match piece.op() {
            Op::Write => Provenance::written(piece.class()),
            _ => Provenance::read(piece.class()),
        };
        policy.admit(piece.key, from).is_some()
    }

    /// RAM in bytes.
    pub(super) fn ram_bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |policy| policy.ram_bytes() as u64)
    }
}

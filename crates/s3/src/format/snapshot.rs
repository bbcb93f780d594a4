//! Snapshots: generations that are kept under a name.

use super::header::Header;
use super::name::Id;
use nitro_log::{FormatError, Reader};

/// The most snapshots of a volume.
pub const SNAPSHOTS_MAX: usize = 64;
/// The most bytes of the name of a snapshot.
pub const SNAPSHOT_NAME_MAX: usize = 64;

/// A snapshot, as the manifest has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name: see [`Snapshot::is_name`].
    pub name: String,
    /// The generation that it is.
    pub generation: u64,
    /// The object that has its manifest.
    pub id: Id,
    /// When it was made, in nanoseconds since 1970 by the clock of its maker.
    pub made_ns: u64,
    /// The size of the volume then, in bytes.
    pub size_bytes: u64,
}

impl Snapshot {
    /// The bytes of an encoded snapshot.
    pub(super) const BYTES: usize = 8 * 5 + SNAPSHOT_NAME_MAX;

    /// Whether a snapshot may have this name: 1 to [`SNAPSHOT_NAME_MAX`] letters, digits and `-._:` of ASCII.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        (1..=SNAPSHOT_NAME_MAX).contains(&name.len()) && name.chars().all(is_allowed)
    }

    pub(super) fn encode(&self, content: &mut Vec<u8>) {
        for field in [self.generation, self.id.generation, self.id.nonce, self.made_ns, self.size_bytes] {
            content.extend_from_slice(&field.to_le_bytes());
        }
        content.extend(self.name.bytes().chain(std::iter::repeat(0)).take(SNAPSHOT_NAME_MAX));
    }

    /// Reads one of a volume of this header, as of generation `newest`.
    pub(super) fn decode(fields: &mut Reader<'_>, header: &Header, newest: u64) -> Result<Self, FormatError> {
        let [generation, of_object, nonce, made_ns, size_bytes] =
            [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        if generation == 0 || generation >= newest || of_object == 0 {
            return Err(fields.refuse("generation of a snapshot", generation));
        }
        if (Header { size_bytes, ..*header }).refused().is_some() {
            return Err(fields.refuse("size of a snapshot", size_bytes));
        }
        let name: [u8; SNAPSHOT_NAME_MAX] = fields.array()?;
        let len = name.iter().position(|byte| *byte == 0).unwrap_or(SNAPSHOT_NAME_MAX);
        let (name, rest) = name.split_at(len);
        match std::str::from_utf8(name) {
            Ok(name) if Self::is_name(name) && rest.iter().all(|byte| *byte == 0) => {
                let id = Id { generation: of_object, nonce };
                Ok(Self { name: name.to_owned(), generation, id, made_ns, size_bytes })
            }
            _ => Err(fields.refuse("name of a snapshot", len as u64)),
        }
    }
}

//! Records of the journal: changes of the store.
//!
//! | tag | record | fields behind the tag (1 byte) |
//! |---|---|---|
//! | 1 | object | id (8), kind (1), flags (1: 1 read-only, 2 incomplete, 4 an older record is in the directory), levels (1; 0: no recipe), bytes of a chunk (4), bytes of the object (8), root's fingerprint (20) and place (8), created (8), import token (8), imported bytes (8), number of the recipe (8), modification time in ns since 1970 (8), bytes of the name (2), name |
//! | 2 | object removed | id (8) |
//! | 3 | container | slot (4), state (1: 0 free, 1 open, 2 sealed, 3 sealed and being emptied, 4 free with its storage kept), kind (1), sectors of regions (2), chunks (2), sequence number (8) |
//! | 4 | chunk of an object | object (8), index (8), fingerprint (20; all zero: a hole), place (8) |
//! | 5 | fingerprints indexed | the index has the chunks of all containers up to this sequence number (8) |
//! | 6 | fingerprints summarised | the summary vector on the device has the chunks of all containers up to this sequence number (8) |
//! | 7 | quota | containers that new content may fill (4; 0: all) |
//! | 8 | object hidden | bytes of the object (8), bytes of the name (2), name: the record of this name in the directory is not valid |
//! | 9 | object no longer hidden | bytes of the name (2), name: the directory has no record of this name any more |

use super::{u16_at, u32_at, u64_at};
use crate::format::region::ChunkKind;
use crate::place::{Place, Reference};
use nitro_log::FormatError;
use nitro_units::Fingerprint;

/// Bytes of an object's record without its name.
pub(crate) const OBJECT_BYTES: usize = 1 + 8 + 3 + 4 + 8 + REFERENCE_BYTES + 5 * 8 + 2;
/// Bytes of a container's record.
pub(crate) const SLOT_BYTES: usize = 1 + 4 + 2 + 2 + 2 + 8;
/// Bytes of the record of an object's chunk.
pub(crate) const CHUNK_BYTES: usize = 1 + 2 * 8 + REFERENCE_BYTES;
const REFERENCE_BYTES: usize = 20 + 8;
/// The separator between the name of an object and that of its snapshot.
pub(crate) const SNAPSHOT: char = '@';

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A volume or image: chunks of a fixed size that can be overwritten.
    Volume,
    /// A backup stream: content-defined chunks, written once.
    Stream,
}

impl Kind {
    /// The kind with its article, in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Volume => "a volume",
            Self::Stream => "a stream",
        }
    }
}

/// The root of a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) reference: Reference,
    /// The number of levels of the tree; at least 1.
    pub(crate) levels: u8,
}

/// An object as in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectRecord {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) read_only: bool,
    pub(crate) incomplete: bool,
    /// Whether the directory has a record of this object, too. If they differ, this one is newer.
    pub(crate) in_directory: bool,
    pub(crate) chunk_bytes: u32,
    pub(crate) size_bytes: u64,
    pub(crate) root: Option<Root>,
    pub(crate) created: u64,
    pub(crate) token: u64,
    pub(crate) imported_bytes: u64,
    /// The number of the recipe, which increases with each recipe that is written. The recipe contains all chunk
    /// records logged before.
    pub(crate) recipe: u64,
    /// The time of the last change, in nanoseconds since 1970.
    pub(crate) modified_ns: u64,
    pub(crate) name: String,
}

impl ObjectRecord {
    /// Bytes of the record in the journal.
    pub(crate) fn journal_bytes(&self) -> usize {
        OBJECT_BYTES + self.name.len()
    }
}

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SlotState {
    Free = 0,
    Open = 1,
    Sealed = 2,
    /// Sealed, and being emptied: the index may have places of its chunks that the journal does not have yet.
    Leaving = 3,
    /// Free, with its storage reserved: recipes and the collector find room there even if there is none elsewhere.
    Reserved = 4,
}

/// A slot as in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotRecord {
    pub(crate) slot: u32,
    pub(crate) state: SlotState,
    pub(crate) kind: ChunkKind,
    pub(crate) sectors: u16,
    pub(crate) chunks: u16,
    pub(crate) sequence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    Object(Box<ObjectRecord>),
    Removed { id: u64 },
    Slot(SlotRecord),
    Chunk { object: u64, index: u64, reference: Option<Reference> },
    Indexed { sequence: u64 },
    Summarised { sequence: u64 },
    Quota { containers: u32 },
    Hidden { size_bytes: u64, name: String },
    Unhidden { name: String },
}

fn put_reference(out: &mut Vec<u8>, reference: Option<&Reference>) {
    out.extend_from_slice(&reference.map_or([0; 20], |r| r.fingerprint.0));
    out.extend_from_slice(&reference.map_or(0, |r| r.place.pack()).to_le_bytes());
}

impl Record {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Object(object) => {
                out.extend_from_slice(&[1]);
                out.extend_from_slice(&object.id.to_le_bytes());
                let flags = [object.read_only, object.incomplete, object.in_directory];
                let flags = flags.iter().rev().fold(0, |all, flag| all << 1 | u8::from(*flag));
                let kind = if object.kind == Kind::Volume { 0 } else { 1 };
                out.extend_from_slice(&[kind, flags, object.root.map_or(0, |r| r.levels)]);
                out.extend_from_slice(&object.chunk_bytes.to_le_bytes());
                out.extend_from_slice(&object.size_bytes.to_le_bytes());
                put_reference(out, object.root.as_ref().map(|r| &r.reference));
                for number in [object.created, object.token, object.imported_bytes, object.recipe, object.modified_ns] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                put_name(out, &object.name);
            }
            Self::Removed { id } => put_tagged(out, 2, &[*id]),
            Self::Slot(slot) => {
                out.push(3);
                out.extend_from_slice(&slot.slot.to_le_bytes());
                out.extend_from_slice(&[slot.state as u8, slot.kind as u8]);
                out.extend_from_slice(&slot.sectors.to_le_bytes());
                out.extend_from_slice(&slot.chunks.to_le_bytes());
                out.extend_from_slice(&slot.sequence.to_le_bytes());
            }
            Self::Chunk { object, index, reference } => {
                put_tagged(out, 4, &[*object, *index]);
                put_reference(out, reference.as_ref());
            }
            Self::Indexed { sequence } => put_tagged(out, 5, &[*sequence]),
            Self::Summarised { sequence } => put_tagged(out, 6, &[*sequence]),
            Self::Quota { containers } => {
                out.push(7);
                out.extend_from_slice(&containers.to_le_bytes());
            }
            Self::Hidden { size_bytes, name } => {
                put_tagged(out, 8, &[*size_bytes]);
                put_name(out, name);
            }
            Self::Unhidden { name } => {
                out.push(9);
                put_name(out, name);
            }
        }
    }

    /// Bytes of the record that hides an object with this name.
    pub(crate) fn hidden_bytes(name: &str) -> usize {
        1 + 8 + 2 + name.len()
    }

    /// Decodes a record from the beginning of `bytes`, and advances `bytes` behind it.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Result<Self, FormatError> {
        let mut fields = Fields { rest: bytes };
        let record = match fields.take(1)?[0] {
            1 => Self::Object(Box::new(fields.object()?)),
            2 => Self::Removed { id: fields.u64()? },
            3 => Self::Slot(fields.slot()?),
            4 => Self::Chunk { object: fields.u64()?, index: fields.u64()?, reference: fields.reference()? },
            5 => Self::Indexed { sequence: fields.u64()? },
            6 => Self::Summarised { sequence: fields.u64()? },
            7 => Self::Quota { containers: u32_at(fields.take(4)?, 0) },
            8 => Self::Hidden { size_bytes: fields.u64()?, name: fields.name()? },
            9 => Self::Unhidden { name: fields.name()? },
            other => return Err(refuse("tag", other.into())),
        };
        *bytes = fields.rest;
        Ok(record)
    }
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
}

fn put_tagged(out: &mut Vec<u8>, tag: u8, numbers: &[u64]) {
    out.push(tag);
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn refuse(field: &'static str, value: u64) -> FormatError {
    FormatError::Field { structure: "journal record", field, value }
}

struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let short = FormatError::Short { structure: "journal record", have: self.rest.len(), need: len };
        let (field, rest) = self.rest.split_at_checked(len).ok_or(short)?;
        self.rest = rest;
        Ok(field)
    }

    fn u64(&mut self) -> Result<u64, FormatError> {
        self.take(8).map(|b| u64_at(b, 0))
    }

    fn name(&mut self) -> Result<String, FormatError> {
        let len = usize::from(u16_at(self.take(2)?, 0));
        String::from_utf8(self.take(len)?.to_vec()).map_err(|_| refuse("name", 0))
    }

    fn reference(&mut self) -> Result<Option<Reference>, FormatError> {
        let mut fingerprint = Fingerprint([0; 20]);
        fingerprint.0.copy_from_slice(self.take(20)?);
        let place = Place::unpack(self.u64()?);
        Ok((fingerprint.0 != [0; 20]).then_some(Reference { fingerprint, place }))
    }

    fn object(&mut self) -> Result<ObjectRecord, FormatError> {
        let id = self.u64()?;
        let &[kind, flags, levels] = self.take(3)? else { return Err(refuse("kind", 0)) };
        let kind = match kind {
            0 => Kind::Volume,
            1 => Kind::Stream,
            other => return Err(refuse("kind", other.into())),
        };
        let chunk_bytes = u32_at(self.take(4)?, 0);
        let size_bytes = self.u64()?;
        let reference = self.reference()?;
        let (created, token, imported_bytes) = (self.u64()?, self.u64()?, self.u64()?);
        let (recipe, modified_ns) = (self.u64()?, self.u64()?);
        let name = self.name()?;
        if levels > 8 {
            return Err(refuse("levels", levels.into()));
        }
        if chunk_bytes == 0 {
            return Err(refuse("bytes of a chunk", 0));
        }
        let root = reference.filter(|_| levels > 0).map(|reference| Root { reference, levels });
        let (read_only, incomplete, in_directory) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
        Ok(ObjectRecord {
            id,
            kind,
            read_only,
            incomplete,
            in_directory,
            chunk_bytes,
            size_bytes,
            root,
            created,
            token,
            imported_bytes,
            recipe,
            modified_ns,
            name,
        })
    }

    fn slot(&mut self) -> Result<SlotRecord, FormatError> {
        let slot = u32_at(self.take(4)?, 0);
        let &[state, kind] = self.take(2)? else { return Err(refuse("state", 0)) };
        let state = match state {
            0 => SlotState::Free,
            1 => SlotState::Open,
            2 => SlotState::Sealed,
            3 => SlotState::Leaving,
            4 => SlotState::Reserved,
            other => return Err(refuse("state of a container", other.into())),
        };
        let kind = ChunkKind::from_number(kind).ok_or(refuse("kind of a container", kind.into()))?;
        let (sectors, chunks) = (u16_at(self.take(2)?, 0), u16_at(self.take(2)?, 0));
        Ok(SlotRecord { slot, state, kind, sectors, chunks, sequence: self.u64()? })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A record with all fields set.
    pub(crate) fn an_object() -> ObjectRecord {
        let place = Place { slot: 5, sector: 6, sectors: 7, number: 8 };
        let reference = Reference { fingerprint: Fingerprint([9; 20]), place };
        ObjectRecord {
            id: 1,
            kind: Kind::Stream,
            read_only: true,
            incomplete: false,
            in_directory: true,
            chunk_bytes: 8192,
            size_bytes: 12345,
            root: Some(Root { reference, levels: 2 }),
            created: 3,
            token: 4,
            imported_bytes: 5,
            recipe: 6,
            modified_ns: 7,
            name: "müller@Montag".to_owned(),
        }
    }

    #[test]
    fn records_come_back() {
        let object = an_object();
        let reference = object.root.map(|root| root.reference).unwrap();
        let slot = SlotRecord {
            slot: 3,
            state: SlotState::Sealed,
            kind: ChunkKind::Recipe,
            sectors: 10,
            chunks: 20,
            sequence: 30,
        };
        let records = [
            Record::Object(Box::new(object)),
            Record::Removed { id: 77 },
            Record::Slot(slot),
            Record::Chunk { object: 1, index: 2, reference: Some(reference) },
            Record::Chunk { object: 1, index: 3, reference: None },
            Record::Indexed { sequence: 4 },
            Record::Summarised { sequence: 5 },
            Record::Quota { containers: 6 },
            Record::Hidden { size_bytes: 7, name: "vm@1".to_owned() },
            Record::Unhidden { name: "vm".to_owned() },
        ];
        let mut bytes = Vec::new();
        for record in &records {
            let before = bytes.len();
            record.encode(&mut bytes);
            let len = match record {
                Record::Object(object) => object.journal_bytes(),
                Record::Slot(_) => SLOT_BYTES,
                Record::Chunk { .. } => CHUNK_BYTES,
                Record::Hidden { name, .. } => Record::hidden_bytes(name),
                _ => continue,
            };
            assert_eq!(bytes.len() - before, len, "{record:?}");
        }
        let mut rest = &bytes[..];
        for record in &records {
            assert_eq!(&Record::decode(&mut rest).unwrap(), record);
        }
        assert!(rest.is_empty());
        for len in 0..60 {
            assert!(Record::decode(&mut &bytes[..len]).is_err());
        }
    }
}

//! The objects of a volume: their names and their bytes. docs/FORMAT.md has the tables.

mod header;
mod manifest;
mod name;
mod segment;
mod snapshot;

pub use header::Header;
pub use manifest::{MANIFEST_BYTES_MAX, Manifest, NOTE_BYTES_MAX, NOTES, RUNS_MAX, Run};
pub use name::Id;
pub(crate) use name::VOLUME;
pub(crate) use name::{
    DATA, MANIFESTS, SEGMENTS, SNAPSHOTS, data_name, manifest_name, parse_data, parse_manifest, parse_segment,
    parse_snapshot, segment_name, snapshot_name,
};
pub use segment::{SEGMENT_CHUNKS, Segment};
pub use snapshot::{SNAPSHOT_NAME_MAX, SNAPSHOTS_MAX, Snapshot};

use nitro_log::{FormatError, is_sealed};

/// The version of all objects.
const VERSION: u32 = 1;

/// Checks magic number, version and checksum, in this order, and returns what is between the version and the checksum.
fn open<'a>(structure: &'static str, magic: &[u8; 8], bytes: &'a [u8]) -> Result<&'a [u8], FormatError> {
    open_version(structure, magic, VERSION, bytes).map(|(_, content)| content)
}

/// As [`open`], of any version up to `newest`, which it returns, too.
fn open_version<'a>(
    structure: &'static str,
    magic: &[u8; 8],
    newest: u32,
    bytes: &'a [u8],
) -> Result<(u32, &'a [u8]), FormatError> {
    const FRAME: usize = 8 + 4 + 4;
    if bytes.len() < FRAME {
        return Err(FormatError::Short { structure, have: bytes.len(), need: FRAME });
    }
    if bytes[..8] != *magic {
        return Err(FormatError::Magic { structure });
    }
    let found = nitro_log::u32_at(bytes, 8);
    if !(VERSION..=newest).contains(&found) {
        return Err(FormatError::Version { found, known: newest });
    }
    if !is_sealed(bytes) {
        return Err(FormatError::Checksum { structure });
    }
    Ok((found, &bytes[12..bytes.len() - 4]))
}

/// Adds magic number, version and checksum.
fn close(magic: &[u8; 8], content: &[u8]) -> Vec<u8> {
    close_version(magic, VERSION, content)
}

/// As [`close`], of a version.
fn close_version(magic: &[u8; 8], version: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len() + 16);
    bytes.extend_from_slice(magic);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(content);
    bytes.extend_from_slice(&[0; 4]);
    nitro_log::seal(&mut bytes);
    bytes
}

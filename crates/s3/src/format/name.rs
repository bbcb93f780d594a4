//! Names of objects below the prefix. Those of data and of segments are never used twice.

/// The object that says that there is a volume.
pub(crate) const VOLUME: &str = "volume";
/// The folder of manifests.
pub(crate) const MANIFESTS: &str = "manifest";
/// The folder of segments.
pub(crate) const SEGMENTS: &str = "segment";
/// The folder of the manifests of snapshots.
pub(crate) const SNAPSHOTS: &str = "snapshot";
/// The folder of data.
pub(crate) const DATA: &str = "data";

/// What tells an object from all others of the same chunk or segment: the generation that its writer was about to write, and a random
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// The generation, from 1.
    pub generation: u64,
    /// A random number.
    pub nonce: u64,
}

impl Id {
    /// No object: all bytes are zero.
    pub const HOLE: Self = Self { generation: 0, nonce: 0 };

    /// Whether there is no object.
    #[must_use]
    pub const fn is_hole(self) -> bool {
        self.generation == 0
    }
}

/// The name of a manifest.
pub(crate) fn manifest_name(generation: u64) -> String {
    format!("{MANIFESTS}/{generation:016x}")
}

/// The name of a chunk's data.
pub(crate) fn data_name(chunk: u64, id: Id) -> String {
    format!("{DATA}/{chunk:08x}-{:016x}-{:016x}", id.generation, id.nonce)
}

/// The name of a segment.
pub(crate) fn segment_name(segment: u64, id: Id) -> String {
    format!("{SEGMENTS}/{segment:08x}-{:016x}-{:016x}", id.generation, id.nonce)
}

/// The name of a snapshot's manifest.
pub(crate) fn snapshot_name(id: Id) -> String {
    format!("{SNAPSHOTS}/{:016x}-{:016x}", id.generation, id.nonce)
}

/// The id in the name of a snapshot's manifest; `None`: it is no such name.
pub(crate) fn parse_snapshot(name: &str) -> Option<Id> {
    let (generation, nonce) = name.strip_prefix(SNAPSHOTS)?.strip_prefix('/')?.split_once('-')?;
    let id = Id { generation: hex(generation)?, nonce: hex(nonce)? };
    (snapshot_name(id) == name).then_some(id)
}

/// The generation in the name of a manifest; `None`: it is no such name.
pub(crate) fn parse_manifest(name: &str) -> Option<u64> {
    let generation = hex(name.strip_prefix(MANIFESTS)?.strip_prefix('/')?)?;
    (manifest_name(generation) == name).then_some(generation)
}

/// Chunk and id in the name of data; `None`: it is no such name.
pub(crate) fn parse_data(name: &str) -> Option<(u64, Id)> {
    parse(name, DATA).filter(|(chunk, id)| data_name(*chunk, *id) == name)
}

/// Segment and id in the name of a segment; `None`: it is no such name.
pub(crate) fn parse_segment(name: &str) -> Option<(u64, Id)> {
    parse(name, SEGMENTS).filter(|(segment, id)| segment_name(*segment, *id) == name)
}

fn parse(name: &str, folder: &str) -> Option<(u64, Id)> {
    let mut parts = name.strip_prefix(folder)?.strip_prefix('/')?.splitn(3, '-');
    let index = hex(parts.next()?)?;
    Some((index, Id { generation: hex(parts.next()?)?, nonce: hex(parts.next()?)? }))
}

fn hex(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_others_are_none() {
        let id = Id { generation: 0x12, nonce: u64::MAX };
        assert_eq!(parse_data(&data_name(7, id)), Some((7, id)));
        assert_eq!(parse_segment(&segment_name(1 << 40, id)), Some((1 << 40, id)));
        assert_eq!(parse_manifest(&manifest_name(9)), Some(9));
        assert_eq!(parse_snapshot(&snapshot_name(id)), Some(id));
        for name in
            ["data/7-12-3", "data/", "manifest/9", "manifest/+000000000000009", "segment/x", "volume", "dat\u{e9}"]
        {
            assert!(
                [parse_data(name).is_none(), parse_segment(name).is_none(), parse_snapshot(name).is_none()]
                    == [true; 3]
                    && parse_manifest(name).is_none(),
                "{name}"
            );
        }
    }
}

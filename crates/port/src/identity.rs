//! Which piece of storage this is: a file, a block device, an object of a store or an image of a cluster, independent of its path.
//!
//! A [`StorageId`] lists what the storage was recognised by when it was open, each a [`Means`] with a digest. Two of them are
//! compared in one place, [`StorageId::compare`]. Names, sizes and times of change are no means: they are hints.

use crate::codec::FingerprintHash;
use std::fmt;

/// What storage is recognised by. The numbers are stored; see docs/FORMAT.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Means {
    /// A file: UUID of its file system, inode number and time of birth.
    FileBirth = 1,
    /// A file: UUID of its file system, inode number and generation of the inode.
    FileGeneration = 2,
    /// A file: UUID of its file system, or source of a network file system, and inode number.
    FileNumber = 3,
    /// A file: device number and inode number, within one boot.
    BootFile = 4,
    /// A disk: its World Wide Identification (WWID, EUI-64, NAA or NVMe's UUID), with the start of a partition.
    Wwid = 16,
    /// A device of the device mapper, or an MD array: its UUID.
    MapperUuid = 17,
    /// A disk: its serial number, with the start of a partition.
    Serial = 18,
    /// A partition: its UUID in the partition table.
    PartitionUuid = 19,
    /// A disk: the number that the kernel gave it when it appeared (`diskseq`), within one boot, with the start of a partition.
    BootDisk = 20,
    /// An object of a store: UUID of the store and number of the object.
    Object = 32,
    /// An image of a Ceph cluster: UUID of the cluster, number of the pool, namespace, id of the image, number of the snapshot.
    RbdImage = 33,
    /// A volume in a bucket: its UUID.
    Bucket = 48,
}

impl Means {
    /// All means, the strongest of each kind of storage first.
    pub const ALL: [Self; 12] = [
        Self::FileBirth,
        Self::FileGeneration,
        Self::FileNumber,
        Self::BootFile,
        Self::Wwid,
        Self::MapperUuid,
        Self::Serial,
        Self::PartitionUuid,
        Self::BootDisk,
        Self::Object,
        Self::RbdImage,
        Self::Bucket,
    ];

    const fn number(self) -> u8 {
        self as u8
    }

    fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|means| means.number() == number)
    }

    /// Whether a difference proves that this is other storage: the kernel's numbers differ after each boot, and when a device
    /// is attached again.
    const fn refutes(self) -> bool {
        !matches!(self, Self::BootFile | Self::BootDisk)
    }
}

/// The outcome of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sameness {
    /// The same storage.
    Same,
    /// Other storage.
    Other,
    /// There are no means that both have.
    Unknown,
}

/// Bytes of a digest.
const DIGEST_BYTES: usize = 8;
/// Bytes of an encoded means with its digest.
const ITEM_BYTES: usize = 1 + DIGEST_BYTES;

/// What a piece of storage is recognised by. Empty: by nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StorageId {
    /// Sorted by means; each occurs once.
    items: Vec<(Means, [u8; DIGEST_BYTES])>,
}

impl StorageId {
    /// Most bytes of an encoded identity.
    pub const BYTES_MAX: usize = Means::ALL.len() * ITEM_BYTES;

    /// Adds a means with the values that it consists of.
    pub fn add(&mut self, means: Means, values: &[&[u8]]) {
        let mut text = Vec::new();
        for value in values {
            text.extend_from_slice(&(value.len() as u64).to_le_bytes());
            text.extend_from_slice(value);
        }
        let hash = FingerprintHash::Blake3.of(&text);
        let digest = hash.0.first_chunk().copied().unwrap_or_default();
        self.items.retain(|(other, _)| *other != means);
        self.items.push((means, digest));
        self.items.sort();
    }

    /// Whether `other` is the same storage: it is if both have a means in common, and all that they have in common agree.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Sameness {
        let mut sameness = Sameness::Unknown;
        for (means, digest) in &self.items {
            match other.items.iter().find(|(theirs, _)| theirs == means) {
                Some((_, theirs)) if theirs == digest => sameness = Sameness::Same,
                Some(_) if means.refutes() => return Sameness::Other,
                Some(_) | None => {}
            }
        }
        sameness
    }

    /// Whether there is any means that outlasts a boot.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        self.items.iter().any(|(means, _)| means.refutes())
    }

    /// A name for each means, the strongest first: storage that is the [same](Sameness::Same) has one in common.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.items.iter().map(|(means, digest)| format!("{:02x}{}", means.number(), hex(digest)))
    }

    /// The stored form, at most [`BYTES_MAX`](Self::BYTES_MAX) bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.items.iter().flat_map(|(means, digest)| [means.number()].into_iter().chain(*digest)).collect()
    }

    /// Reads the stored form. Means of later programs are left out.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let mut items = Vec::new();
        for item in bytes.chunks_exact(ITEM_BYTES).take(Means::ALL.len() * 2) {
            if let (Some(means), Some(digest)) = (Means::of(item[0]), item[1..].first_chunk()) {
                items.push((means, *digest));
            }
        }
        items.sort();
        items.dedup_by_key(|(means, _)| *means);
        Self { items }
    }

    /// Reads the form that [`Display`](fmt::Display) writes; `None`: it is another one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if !text.is_ascii() || !text.len().is_multiple_of(2) {
            return None;
        }
        let bytes = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok());
        Some(Self::decode(&bytes.collect::<Option<Vec<u8>>>()?))
    }
}

impl fmt::Display for StorageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.encode()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(items: &[(Means, &str)]) -> StorageId {
        let mut id = StorageId::default();
        items.iter().for_each(|(means, value)| id.add(*means, &[value.as_bytes()]));
        id
    }

    #[test]
    fn what_both_have_decides() {
        use Means::*;
        use Sameness::*;
        let disk = id(&[(Wwid, "a"), (Serial, "s"), (BootDisk, "7")]);
        for (other, expected) in [
            (id(&[]), Unknown),
            (id(&[(MapperUuid, "a")]), Unknown),
            (id(&[(Serial, "s")]), Same),
            (id(&[(Wwid, "a"), (Serial, "t")]), Other),
            (id(&[(Wwid, "b"), (Serial, "s")]), Other),
            (id(&[(BootDisk, "7")]), Same),
            // Another boot, or attached again.
            (id(&[(BootDisk, "8")]), Unknown),
            (id(&[(BootDisk, "8"), (Serial, "s")]), Same),
            (id(&[(BootDisk, "7"), (Serial, "t")]), Other),
        ] {
            assert_eq!(disk.compare(&other), expected, "{other:?}");
            assert_eq!(other.compare(&disk), expected, "{other:?}");
        }
    }

    #[test]
    fn it_comes_back_and_what_is_unknown_is_left_out() {
        let all = Means::ALL.map(|means| (means, "x"));
        let id = id(&all);
        let bytes = id.encode();
        assert_eq!(bytes.len(), StorageId::BYTES_MAX);
        assert_eq!(StorageId::decode(&bytes), id);
        assert_eq!(StorageId::parse(&id.to_string()), Some(id.clone()));
        let later = [bytes.as_slice(), &[99; ITEM_BYTES], &[1; 4]].concat();
        assert_eq!(StorageId::decode(&later), id);
        assert_eq!((StorageId::parse("0"), StorageId::parse("zz"), StorageId::parse("é")), (None, None, None));
        assert_eq!(id.names().count(), Means::ALL.len());
    }

    #[test]
    fn values_do_not_run_into_each_other() {
        let (mut one, mut two) = (StorageId::default(), StorageId::default());
        one.add(Means::Serial, &[b"ab", b"c"]);
        two.add(Means::Serial, &[b"a", b"bc"]);
        assert_eq!(one.compare(&two), Sameness::Other);
    }
}

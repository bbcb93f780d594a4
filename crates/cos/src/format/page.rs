//! A page of the directory, which is a B+ tree of objects by name. Page 0 is the root.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `NCDP` |
//! | 4 | 1 | level: 0 has objects, higher ones pages of the level below; 255: an unused page |
//! | 5 | 1 | reserved, zero |
//! | 6 | 2 | entries |
//! | 8 | 8 | number of the page |
//! | 16 | 8 | objects in the directory (page 0; zero in others, as the next three fields) |
//! | 24 | 8 | snapshots among them |
//! | 32 | 8 | bytes of all these objects |
//! | 40 | 8 | pages, unused ones included |
//! | 48 | 8 | the first unused page (page 0), or the next one (unused pages); 0: none |
//! | 56 | | entries, by name. Level 0: the record of an object as in the journal. Higher levels: bytes of the name (2), name, page (8): names before the next entry's are under this page, those before the second entry's under the first |
//!
//! A page has at most 16,000 bytes. Its fingerprint is BLAKE3, cut to 160 bits, of its bytes.

use super::{u16_at, u64_at};
use crate::format::record::{ObjectRecord, Record, SNAPSHOT};
use nitro_log::FormatError;

const MAGIC: [u8; 4] = *b"NCDP";
const HEADER_BYTES: usize = 56;
const UNUSED: u8 = u8::MAX;
/// The maximum level, which no directory reaches.
const LEVEL_MAX: u8 = 16;
/// The maximum size of a page in bytes. Two of the largest entries fit into half a page.
pub(crate) const PAGE_BYTES: usize = 16_000;
const STRUCTURE: &str = "page of the directory";

/// The sums of the objects in the directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) objects: u64,
    pub(crate) snapshots: u64,
    pub(crate) logical_bytes: u64,
}

impl Totals {
    /// The sums of one object.
    pub(crate) fn of(record: &ObjectRecord) -> Self {
        Self::named(&record.name, record.size_bytes)
    }

    /// The sums of an object with this name and size.
    pub(crate) fn named(name: &str, size_bytes: u64) -> Self {
        Self { objects: 1, snapshots: name.contains(SNAPSHOT).into(), logical_bytes: size_bytes }
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.objects = self.objects.saturating_add(more.objects);
        self.snapshots = self.snapshots.saturating_add(more.snapshots);
        self.logical_bytes = self.logical_bytes.saturating_add(more.logical_bytes);
    }

    pub(crate) fn remove(&mut self, less: Self) {
        self.objects = self.objects.saturating_sub(less.objects);
        self.snapshots = self.snapshots.saturating_sub(less.snapshots);
        self.logical_bytes = self.logical_bytes.saturating_sub(less.logical_bytes);
    }
}

/// What only some pages have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) totals: Totals,
    /// The number of pages, in page 0.
    pub(crate) pages: u64,
    /// The first unused page, in page 0; the next one, in unused pages.
    pub(crate) unused: u64,
}

/// A page of the level below, with the first name under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) name: String,
    pub(crate) page: u64,
}

/// The entries of a page, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entries {
    Objects(Vec<ObjectRecord>),
    Pages { level: u8, children: Vec<Child> },
    Unused,
}

/// A page of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) number: u64,
    pub(crate) head: Head,
    pub(crate) entries: Entries,
}

/// The index of the page under which a name is.
pub(crate) fn child_of(children: &[Child], name: &str) -> usize {
    children.partition_point(|child| child.name.as_str() <= name).saturating_sub(1)
}

impl Page {
    /// Page 0 of an empty directory.
    pub(crate) fn root() -> Self {
        let head = Head { pages: 1, ..Head::default() };
        Self { number: 0, head, entries: Entries::Objects(Vec::new()) }
    }

    /// The level; 255 if the page is not in use.
    pub(crate) fn level(&self) -> u8 {
        match &self.entries {
            Entries::Objects(_) => 0,
            Entries::Pages { level, .. } => *level,
            Entries::Unused => UNUSED,
        }
    }

    /// Bytes of the encoded page.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let entries: usize = match &self.entries {
            Entries::Objects(records) => records.iter().map(ObjectRecord::journal_bytes).sum(),
            Entries::Pages { children, .. } => children.iter().map(Child::encoded_bytes).sum(),
            Entries::Unused => 0,
        };
        HEADER_BYTES + entries
    }

    /// Inserts or replaces an object. Returns the replaced record, and whether the object is the last one; `None` if
    /// the page has no objects.
    pub(crate) fn put(&mut self, record: ObjectRecord) -> Option<(Option<ObjectRecord>, bool)> {
        let Entries::Objects(records) = &mut self.entries else { return None };
        match records.binary_search_by(|r| r.name.cmp(&record.name)) {
            Ok(at) => Some((Some(std::mem::replace(&mut records[at], record)), false)),
            Err(at) => {
                records.insert(at, record);
                Some((None, at + 1 == records.len()))
            }
        }
    }

    /// The object with this name.
    pub(crate) fn object(&self, name: &str) -> Option<&ObjectRecord> {
        let Entries::Objects(records) = &self.entries else { return None };
        records.binary_search_by(|r| r.name.as_str().cmp(name)).ok().and_then(|at| records.get(at))
    }

    /// Removes and returns the object with this name.
    pub(crate) fn take(&mut self, name: &str) -> Option<ObjectRecord> {
        let Entries::Objects(records) = &mut self.entries else { return None };
        records.binary_search_by(|r| r.name.as_str().cmp(name)).ok().map(|at| records.remove(at))
    }

    /// Moves the upper half of the entries to a new page and returns it with its first name; with `only_last`, only the
    /// last entry, so that pages are full when names are inserted in order.
    pub(crate) fn split(&mut self, number: u64, only_last: bool) -> (String, Self) {
        let (name, entries) = match &mut self.entries {
            Entries::Objects(records) => {
                let upper = records.split_off(half(records.iter().map(ObjectRecord::journal_bytes), only_last));
                (upper.first().map(|r| r.name.clone()), Entries::Objects(upper))
            }
            Entries::Pages { level, children } => {
                let upper = children.split_off(half(children.iter().map(Child::encoded_bytes), only_last));
                (upper.first().map(|c| c.name.clone()), Entries::Pages { level: *level, children: upper })
            }
            Entries::Unused => (None, Entries::Unused),
        };
        (name.unwrap_or_default(), Self { number, head: Head::default(), entries })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let count = match &self.entries {
            Entries::Objects(records) => records.len(),
            Entries::Pages { children, .. } => children.len(),
            Entries::Unused => 0,
        };
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[self.level(), 0]);
        out.extend_from_slice(&(count as u16).to_le_bytes());
        let Head { totals, pages, unused } = self.head;
        for number in [self.number, totals.objects, totals.snapshots, totals.logical_bytes, pages, unused] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        match &self.entries {
            Entries::Objects(records) => {
                records.iter().for_each(|record| Record::Object(Box::new(record.clone())).encode(out));
            }
            Entries::Pages { children, .. } => children.iter().for_each(|child| child.encode(out)),
            Entries::Unused => {}
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let refuse = |field, value| FormatError::Field { structure: STRUCTURE, field, value };
        if bytes.len() < HEADER_BYTES {
            return Err(FormatError::Short { structure: STRUCTURE, have: bytes.len(), need: HEADER_BYTES });
        }
        if bytes[..4] != MAGIC {
            return Err(FormatError::Magic { structure: STRUCTURE });
        }
        let (level, count) = (bytes[4], usize::from(u16_at(bytes, 6)));
        let totals =
            Totals { objects: u64_at(bytes, 16), snapshots: u64_at(bytes, 24), logical_bytes: u64_at(bytes, 32) };
        let head = Head { totals, pages: u64_at(bytes, 40), unused: u64_at(bytes, 48) };
        let mut rest = &bytes[HEADER_BYTES..];
        let entries = match level {
            0 => {
                let mut records: Vec<ObjectRecord> = Vec::new();
                for _ in 0..count {
                    let Record::Object(record) = Record::decode(&mut rest)? else {
                        return Err(refuse("kind of an entry", 0));
                    };
                    records.push(*record);
                }
                if !records.is_sorted_by(|a, b| a.name < b.name) {
                    return Err(refuse("order of names", 0));
                }
                Entries::Objects(records)
            }
            UNUSED if count == 0 => Entries::Unused,
            1..=LEVEL_MAX if count > 0 => {
                let mut children: Vec<Child> = Vec::new();
                for _ in 0..count {
                    children.push(Child::decode(&mut rest)?);
                }
                if !children[1..].is_sorted_by(|a, b| a.name < b.name) {
                    return Err(refuse("order of names", 0));
                }
                Entries::Pages { level, children }
            }
            other => return Err(refuse("level", other.into())),
        };
        if !rest.is_empty() {
            return Err(refuse("bytes behind the entries", rest.len() as u64));
        }
        Ok(Self { number: u64_at(bytes, 8), head, entries })
    }

    /// Whether bytes begin as those of a page.
    pub(crate) fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }
}

impl Child {
    fn encoded_bytes(&self) -> usize {
        2 + self.name.len() + 8
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.name.len() as u16).to_le_bytes());
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(&self.page.to_le_bytes());
    }

    /// Decodes an entry from the beginning of `rest`, and advances `rest` behind it.
    fn decode(rest: &mut &[u8]) -> Result<Self, FormatError> {
        let take = |rest: &mut &[u8], len: usize| {
            let short = FormatError::Short { structure: STRUCTURE, have: rest.len(), need: len };
            let (field, behind) = rest.split_at_checked(len).ok_or(short)?;
            *rest = behind;
            Ok(field.to_vec())
        };
        let len = usize::from(u16_at(&take(rest, 2)?, 0));
        let refuse = |_| FormatError::Field { structure: STRUCTURE, field: "name", value: 0 };
        let name = String::from_utf8(take(rest, len)?).map_err(refuse)?;
        Ok(Self { name, page: u64_at(&take(rest, 8)?, 0) })
    }
}

/// The index of the first entry of the upper half by bytes, or of the last entry.
fn half(sizes: impl ExactSizeIterator<Item = usize> + Clone, only_last: bool) -> usize {
    let last = sizes.len().saturating_sub(1);
    if only_last {
        return last;
    }
    let all: usize = sizes.clone().sum();
    let mut below = 0;
    let lower = sizes.take_while(|size| {
        below += size;
        below <= all / 2
    });
    lower.count().clamp(1, last.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::tests::an_object;

    fn named(name: &str) -> ObjectRecord {
        ObjectRecord { name: name.to_owned(), ..an_object() }
    }

    #[test]
    fn pages_come_back() {
        let mut leaf = Page::root();
        leaf.head = Head { totals: Totals { objects: 3, snapshots: 1, logical_bytes: 5 }, pages: 7, unused: 6 };
        for name in ["b", "a", "müller"] {
            assert_eq!(leaf.put(named(name)).unwrap().0, None);
        }
        let child = |name: &str, page| Child { name: name.to_owned(), page };
        let entries = Entries::Pages { level: 2, children: vec![child("", 4), child("m", 9), child("n", 2)] };
        let inner = Page { number: 8, head: Head::default(), entries };
        let unused = Page { number: 5, head: Head { unused: 3, ..Head::default() }, entries: Entries::Unused };
        for page in [leaf, inner, unused] {
            let mut bytes = Vec::new();
            page.encode(&mut bytes);
            assert_eq!(bytes.len(), page.encoded_bytes());
            assert_eq!(Page::decode(&bytes).unwrap(), page);
            for len in 0..bytes.len() {
                assert!(Page::decode(&bytes[..len]).is_err());
            }
        }
    }

    #[test]
    fn unsorted_pages_are_refused() {
        let entries = Entries::Objects(vec![named("b"), named("a")]);
        let mut bytes = Vec::new();
        Page { number: 0, head: Head::default(), entries }.encode(&mut bytes);
        assert!(Page::decode(&bytes).is_err());
    }

    #[test]
    fn a_split_page_has_all_names_in_order() {
        for only_last in [false, true] {
            let mut page = Page::root();
            (0..9).for_each(|i| drop(page.put(named(&format!("{i}")))));
            let (name, upper) = page.split(7, only_last);
            let (Entries::Objects(below), Entries::Objects(above)) = (&page.entries, &upper.entries) else { panic!() };
            assert_eq!(below.len() + above.len(), 9);
            assert_eq!(name, above[0].name);
            assert!(below.last().unwrap().name < name);
            assert_eq!(above.len(), if only_last { 1 } else { 5 });
        }
    }
}

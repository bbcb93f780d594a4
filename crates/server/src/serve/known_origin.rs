//! What a cache knows of a volume's origin, and whether the origin that is found now is the one that its contents came from.
//!
//! Two things are compared: what the origin is recognised by ([`StorageId`]), and the [mark](VolumeMark) on it, which tells the
//! cache that served it last, and a number that rises when serving for writing begins and when it ends in order. The cache has the
//! same number. The origin's is higher after another cache, or a newer copy of this one, has served it; it is less if the origin
//! itself is an older copy.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | form: 1 |
//! | 1 | 1 | flags: 1 the origin has a mark, 2 the mark may not have the number yet, but the one before, 4 units are named after the volume |
//! | 2 | 8 | the number of the last begin or end of serving for writing |
//! | 10 | 8 | the cache in the mark: the start of its UUID |
//! | 18 | 16 | UUID of the volume |
//! | 34 | | what the origin is recognised by |

use crate::origins::{Uuid, VolumeMark};
use nitro_port::codec::FingerprintHash;
use nitro_port::{Sameness, StorageId};

const FORM: u8 = 1;
const HEAD_BYTES: usize = 34;
/// The cache in the mark of an origin that was served without one.
const WITHOUT_CACHE: [u8; 8] = [0; 8];
const HAS_MARK: u8 = 1;
const IS_NEW: u8 = 2;
const IS_NAMED: u8 = 4;

/// What a cache knows of a volume's origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownOrigin {
    /// What it is recognised by.
    pub(super) id: StorageId,
    /// The UUID of the volume, which it keeps when its name, its cache or its path changes.
    pub(super) unit: Uuid,
    /// The start of the UUID of the cache in the origin's mark.
    cache: [u8; 8],
    /// The number of the last begin or end of serving for writing, by the mark.
    count: u64,
    /// The origin has a mark.
    has_mark: bool,
    /// The mark may not have `count` yet, because the server may have been killed before it was made.
    is_new: bool,
    /// Its units have the identifiers that earlier programs made of the volume's name.
    pub(super) is_named: bool,
}

/// How the origin that is found compares with the one that the cache knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// It is the same, and nothing has served it since.
    AsLeft,
    /// Nothing speaks against it, and it is not recognised by anything that lasts: contents have to be compared.
    Unproven,
    /// It is another one, or was changed.
    Changed(String),
    /// It was served since with a newer copy of this cache.
    OlderCache(String),
}

fn start_of(uuid: Uuid) -> [u8; 8] {
    uuid.0.first_chunk().copied().unwrap_or_default()
}

impl KnownOrigin {
    /// Of an origin that the cache begins to serve, for writing unless `read_only`. `before` is what it knew of the volume: its
    /// UUID stays, unless the origin is another one, such as a copy of it beside a copy of the cache.
    pub(super) fn next(
        before: Option<&Self>,
        id: &StorageId,
        mark: Option<&VolumeMark>,
        cache: Uuid,
        read_only: bool,
    ) -> Self {
        let seen = mark.map_or(0, |mark| mark.count);
        let marked = mark.and_then(|mark| mark.cache.parse::<Uuid>().ok()).map_or([0; 8], start_of);
        let alike = before.filter(|before| before.id.compare(id) != Sameness::Other);
        let unit = alike.map(|before| before.unit).or_else(|| mark.and_then(|mark| mark.unit.parse().ok()));
        let count = seen.max(before.map_or(0, |before| before.count));
        let (cache, count) = if read_only { (marked, seen) } else { (start_of(cache), count.saturating_add(1)) };
        Self {
            id: id.clone(),
            unit: unit.unwrap_or_else(|| unit_of(id)),
            cache,
            count,
            has_mark: if read_only { mark.is_some() } else { true },
            is_new: !read_only,
            is_named: alike.is_some_and(|before| before.is_named),
        }
    }

    /// The mark that the origin is to have.
    pub(super) fn mark(&self, cache: Uuid) -> VolumeMark {
        VolumeMark::new(cache, self.unit, self.count, &self.id)
    }

    /// Notes whether the origin has the mark.
    pub(super) fn marked(self, has_mark: bool) -> Self {
        Self { has_mark, is_new: false, ..self }
    }

    /// Whether the mark still has the number before, because the server was killed: it is to be made before another number is
    /// taken, so that the two never differ by more than one.
    pub(super) fn is_ahead_of(&self, id: &StorageId, mark: Option<&VolumeMark>, cache: Uuid) -> bool {
        self.is_new
            && mark.is_some_and(|mark| mark.count + 1 == self.count)
            && matches!(self.examine(id, mark, cache), Finding::AsLeft | Finding::Unproven)
    }

    /// At the orderly end of serving for writing; `None`: the origin has no mark, which would tell copies of the cache apart.
    pub(super) fn ended(&self) -> Option<Self> {
        self.has_mark.then(|| Self { count: self.count.saturating_add(1), is_new: true, ..self.clone() })
    }

    /// Compares it with an origin that is found now, of which `mark` was read, for the cache `cache`.
    pub(super) fn examine(&self, id: &StorageId, mark: Option<&VolumeMark>, cache: Uuid) -> Finding {
        let same = self.id.compare(id);
        if same == Sameness::Other {
            return Finding::Changed("it is another file or device than the one that the cache knows".to_owned());
        }
        match (self.has_mark, mark) {
            (false, None) => {}
            (true, None) if self.is_new => {}
            (true, None) => {
                return Finding::Changed("it does not bear the mark of the cache that served it last".to_owned());
            }
            (_, Some(mark)) => {
                let by = mark.cache.parse::<Uuid>().ok().map_or([0; 8], start_of);
                let is_known = mark.count == self.count || self.is_new && mark.count + 1 == self.count;
                if !self.has_mark || by != self.cache && !(self.is_new && mark.count + 1 == self.count) {
                    return Finding::Changed(match by {
                        WITHOUT_CACHE => "it was served without a cache since".to_owned(),
                        _ => format!("another cache ({}) has served it since", mark.cache),
                    });
                }
                if mark.count > self.count && by == start_of(cache) {
                    return Finding::OlderCache(
                        "it was served since with a newer copy of this cache: this copy is outdated".to_owned(),
                    );
                }
                if !is_known {
                    return Finding::Changed(
                        "its mark has another number than the cache: an older or newer state of it was put in place"
                            .to_owned(),
                    );
                }
            }
        }
        if same == Sameness::Same { Finding::AsLeft } else { Finding::Unproven }
    }

    /// The stored form, at most 124 bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.has_mark, HAS_MARK) | flag(self.is_new, IS_NEW) | flag(self.is_named, IS_NAMED);
        let mut bytes = vec![FORM, flags];
        bytes.extend(self.count.to_le_bytes());
        bytes.extend(self.cache);
        bytes.extend(self.unit.0);
        bytes.extend(self.id.encode());
        bytes
    }

    /// Reads the stored form; `None`: there is none, or of a later program.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, id) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        if head[0] != FORM {
            return None;
        }
        let count = u64::from_le_bytes(*head[2..].first_chunk()?);
        let (cache, unit) = (*head[10..].first_chunk()?, Uuid(*head[18..].first_chunk()?));
        let is = |flag| head[1] & flag != 0;
        Some(Self {
            id: StorageId::decode(id),
            unit,
            cache,
            count,
            has_mark: is(HAS_MARK),
            is_new: is(IS_NEW),
            is_named: is(IS_NAMED),
        })
    }
}

/// The UUID of a new volume. It follows from what its origin is recognised by, so that a copy gets another one, and a server without
/// a cache the same one at each start.
pub(super) fn unit_of(id: &StorageId) -> Uuid {
    let digest = FingerprintHash::Blake3.of(&[b"nitro volume".as_slice(), &id.encode()].concat());
    Uuid(digest.0.first_chunk().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_port::Means;

    const OURS: Uuid = Uuid([1; 16]);
    const THEIRS: Uuid = Uuid([2; 16]);

    fn disk(serial: &str) -> StorageId {
        let mut id = StorageId::default();
        id.add(Means::Serial, &[serial.as_bytes()]);
        id
    }

    fn mark(cache: Uuid, count: u64) -> VolumeMark {
        VolumeMark::new(cache, Uuid([7; 16]), count, &disk("a"))
    }

    /// A volume that was served for the seventh time.
    fn known() -> KnownOrigin {
        let known = KnownOrigin::next(None, &disk("a"), Some(&mark(THEIRS, 6)), OURS, false);
        assert_eq!((known.count, known.unit, known.is_new), (7, Uuid([7; 16]), true));
        known
    }

    #[test]
    fn it_comes_back() {
        let known = known().marked(true);
        assert_eq!(KnownOrigin::decode(&known.encode()), Some(known));
        assert_eq!((KnownOrigin::decode(&[]), KnownOrigin::decode(&[9; 50])), (None, None));
    }

    #[test]
    fn only_what_was_left_is_believed() {
        let known = known().marked(true);
        let finding = |id: &str, mark: Option<VolumeMark>| known.examine(&disk(id), mark.as_ref(), OURS);
        assert_eq!(finding("a", Some(mark(OURS, 7))), Finding::AsLeft);
        for (id, mark) in [
            ("b", Some(mark(OURS, 7))),
            ("a", None),
            ("a", Some(mark(THEIRS, 7))),
            ("a", Some(mark(THEIRS, 8))),
            ("a", Some(mark(OURS, 6))),
        ] {
            assert!(matches!(finding(id, mark), Finding::Changed(_)), "{id}");
        }
        assert!(matches!(finding("a", Some(mark(OURS, 8))), Finding::OlderCache(_)));
        assert_eq!(known.examine(&StorageId::default(), Some(&mark(OURS, 7)), OURS), Finding::Unproven);
    }

    #[test]
    fn a_kill_before_the_mark_is_made_is_no_change() {
        let known = known();
        for mark in [Some(mark(THEIRS, 6)), Some(mark(OURS, 6)), Some(mark(OURS, 7)), None] {
            assert_eq!(known.examine(&disk("a"), mark.as_ref(), OURS), Finding::AsLeft, "{mark:?}");
        }
        assert!(matches!(known.examine(&disk("a"), Some(&mark(OURS, 5)), OURS), Finding::Changed(_)));
        assert!(matches!(known.examine(&disk("a"), Some(&mark(THEIRS, 8)), OURS), Finding::Changed(_)));
    }

    #[test]
    fn a_copy_that_was_made_while_it_was_served_is_older_than_what_ended() {
        let copied = known().marked(true);
        let ended = copied.ended().unwrap();
        // Killed before the mark has the new number, and after.
        for mark in [mark(OURS, 7), mark(OURS, 8)] {
            assert_eq!(ended.examine(&disk("a"), Some(&mark), OURS), Finding::AsLeft);
        }
        let ended = ended.marked(true);
        assert_eq!(ended.examine(&disk("a"), Some(&mark(OURS, 8)), OURS), Finding::AsLeft);
        assert!(matches!(ended.examine(&disk("a"), Some(&mark(OURS, 7)), OURS), Finding::Changed(_)));
        assert!(matches!(copied.examine(&disk("a"), Some(&mark(OURS, 8)), OURS), Finding::OlderCache(_)));
        assert_eq!(copied.marked(false).ended(), None);
    }

    #[test]
    fn an_origin_without_marks_is_known_by_itself() {
        let known = known().marked(false);
        assert_eq!(known.examine(&disk("a"), None, OURS), Finding::AsLeft);
        assert!(matches!(known.examine(&disk("a"), Some(&mark(THEIRS, 8)), OURS), Finding::Changed(_)));
    }

    #[test]
    fn a_volume_that_is_only_read_sees_that_another_cache_writes() {
        let known = KnownOrigin::next(None, &disk("a"), Some(&mark(THEIRS, 6)), OURS, true);
        assert_eq!(known.examine(&disk("a"), Some(&mark(THEIRS, 6)), OURS), Finding::AsLeft);
        assert!(matches!(known.examine(&disk("a"), Some(&mark(THEIRS, 7)), OURS), Finding::Changed(_)));
    }

    #[test]
    fn a_volume_keeps_its_uuid_and_a_copy_gets_another() {
        let known = known();
        let again = KnownOrigin::next(Some(&known), &disk("a"), None, THEIRS, false);
        assert_eq!(again.unit, known.unit);
        let copy = KnownOrigin::next(None, &disk("b"), None, OURS, false);
        assert_ne!(copy.unit, known.unit);
        assert_eq!(copy.unit, unit_of(&disk("b")));
        // Also beside a copy of its cache, which knows the first one.
        let named = KnownOrigin { is_named: true, ..known };
        let copy = KnownOrigin { count: 8, ..copy };
        assert_eq!(KnownOrigin::next(Some(&named), &disk("b"), None, OURS, false), copy);
    }

    #[test]
    fn kills_in_a_row_before_the_mark_is_made_are_no_change() {
        let (id, mark) = (disk("a"), mark(OURS, 7));
        let first = KnownOrigin::next(Some(&known().marked(true)), &id, Some(&mark), OURS, false);
        assert!(first.is_ahead_of(&id, Some(&mark), OURS));
        // The mark is made before another number is taken.
        let made = first.mark(OURS);
        assert!(!first.is_ahead_of(&id, Some(&made), OURS));
        let second = KnownOrigin::next(Some(&first), &id, Some(&mark), OURS, false);
        assert_eq!(second.examine(&id, Some(&made), OURS), Finding::AsLeft);
        assert!(matches!(second.examine(&id, Some(&mark), OURS), Finding::Changed(_)));
    }
}

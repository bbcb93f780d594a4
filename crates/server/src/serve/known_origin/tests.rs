mod copies;

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
    VolumeMark::new(cache, Uuid([7; 16]), (count, token(cache, count)), &disk("a"))
}

fn token(cache: Uuid, count: u64) -> u64 {
    u64::from(cache.0[0]) << 32 | count
}

/// A volume that was served for the seventh time.
fn known() -> KnownOrigin {
    let known = KnownOrigin::next(None, &disk("a"), Some(&mark(THEIRS, 6)), OURS, Some(token(OURS, 7)));
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
    for (id, mark) in
        [("b", Some(mark(OURS, 7))), ("a", None), ("a", Some(mark(THEIRS, 6))), ("a", Some(mark(OURS, 6)))]
    {
        assert!(matches!(finding(id, mark), Finding::Changed(_)), "{id}");
    }
    for count in [7, 8] {
        assert!(matches!(finding("a", Some(mark(THEIRS, count))), Finding::Succeeded(_)), "{count}");
    }
    assert!(matches!(finding("a", Some(mark(OURS, 8))), Finding::OlderCache(_)));
    assert_eq!(known.examine(&StorageId::default(), Some(&mark(OURS, 7)), OURS), Finding::Unproven);
}

#[test]
fn a_kill_before_the_mark_is_made_is_no_change() {
    let known = known();
    for mark in [mark(THEIRS, 6), mark(OURS, 7)] {
        assert_eq!(known.examine(&disk("a"), Some(&mark), OURS), Finding::AsLeft, "{mark:?}");
    }
    // The mark before was that of the other cache.
    assert!(matches!(known.examine(&disk("a"), None, OURS), Finding::Changed(_)));
    let first = KnownOrigin::next(None, &disk("a"), None, OURS, Some(1));
    assert_eq!(first.examine(&disk("a"), None, OURS), Finding::AsLeft);
    assert!(matches!(known.examine(&disk("a"), Some(&mark(OURS, 5)), OURS), Finding::Changed(_)));
    assert!(matches!(known.examine(&disk("a"), Some(&mark(THEIRS, 8)), OURS), Finding::Succeeded(_)));
}

#[test]
fn a_copy_that_was_made_while_it_was_served_is_older_than_what_ended() {
    let copied = known().marked(true);
    let ended = copied.ended(token(OURS, 8)).unwrap();
    // Killed before the mark has the new number, and after.
    for mark in [mark(OURS, 7), mark(OURS, 8)] {
        assert_eq!(ended.examine(&disk("a"), Some(&mark), OURS), Finding::AsLeft);
    }
    let ended = ended.marked(true);
    assert_eq!(ended.examine(&disk("a"), Some(&mark(OURS, 8)), OURS), Finding::AsLeft);
    assert!(matches!(ended.examine(&disk("a"), Some(&mark(OURS, 7)), OURS), Finding::Changed(_)));
    assert!(matches!(copied.examine(&disk("a"), Some(&mark(OURS, 8)), OURS), Finding::OlderCache(_)));
    assert_eq!(copied.marked(false).ended(1), None);
}

#[test]
fn an_origin_without_marks_is_known_by_itself() {
    let known = known().marked(false);
    assert_eq!(known.examine(&disk("a"), None, OURS), Finding::AsLeft);
    assert!(matches!(known.examine(&disk("a"), Some(&mark(THEIRS, 8)), OURS), Finding::Succeeded(_)));
}

#[test]
fn a_volume_that_is_only_read_sees_that_another_cache_writes() {
    let known = KnownOrigin::next(None, &disk("a"), Some(&mark(THEIRS, 6)), OURS, None);
    assert_eq!(known.examine(&disk("a"), Some(&mark(THEIRS, 6)), OURS), Finding::AsLeft);
    assert!(matches!(known.examine(&disk("a"), Some(&mark(THEIRS, 7)), OURS), Finding::Changed(_)));
}

#[test]
fn a_volume_keeps_its_uuid_and_a_copy_gets_another() {
    let known = known();
    let again = KnownOrigin::next(Some(&known), &disk("a"), None, THEIRS, Some(9));
    assert_eq!(again.unit, known.unit);
    let copy = KnownOrigin::next(None, &disk("b"), None, OURS, Some(9));
    assert_ne!(copy.unit, known.unit);
    assert_eq!(copy.unit, unit_of(&disk("b")));
    // Also beside a copy of its cache, which knows the first one.
    let named = KnownOrigin { is_named: true, ..known };
    let copy = KnownOrigin { count: 8, ..copy };
    assert_eq!(KnownOrigin::next(Some(&named), &disk("b"), None, OURS, Some(9)), copy);
}

#[test]
fn kills_in_a_row_before_the_mark_is_made_are_no_change() {
    let (id, mark) = (disk("a"), mark(OURS, 7));
    let first = KnownOrigin::next(Some(&known().marked(true)), &id, Some(&mark), OURS, Some(8));
    let second = KnownOrigin::next(Some(&first), &id, Some(&mark), OURS, Some(9));
    assert_eq!(second.examine(&id, Some(&mark), OURS), Finding::AsLeft);
    assert_eq!(second.examine(&id, Some(&second.mark(OURS)), OURS), Finding::AsLeft);
    assert!(matches!(second.examine(&id, Some(&first.mark(OURS)), OURS), Finding::Changed(_)));
}

#[test]
fn copies_that_came_to_the_same_number_are_told_apart() {
    let (id, mark) = (disk("a"), mark(OURS, 7));
    let before = known().marked(true);
    let [one, other] =
        [8, 9].map(|token| KnownOrigin::next(Some(&before), &id, Some(&mark), OURS, Some(token)).marked(true));
    assert_eq!(one.count, other.count);
    assert!(matches!(one.examine(&id, Some(&other.mark(OURS)), OURS), Finding::Changed(_)));
}

#[test]
fn a_record_of_an_earlier_program_goes_by_its_number() {
    let known = known().marked(true);
    let bytes = [&[FORM_WITHOUT_TOKENS], &known.encode()[1..HEAD_BYTES], &known.id.encode()].concat();
    let earlier = KnownOrigin::decode(&bytes).unwrap();
    assert_eq!(earlier, KnownOrigin { token: 0, before: 0, ..known });
    let mark = |count| VolumeMark::new(OURS, Uuid([7; 16]), (count, 0), &disk("a"));
    assert_eq!(earlier.examine(&disk("a"), Some(&mark(7)), OURS), Finding::AsLeft);
    assert!(matches!(earlier.examine(&disk("a"), Some(&mark(6)), OURS), Finding::Changed(_)));
    let killed = KnownOrigin { is_new: true, ..earlier };
    assert_eq!(killed.examine(&disk("a"), Some(&mark(6)), OURS), Finding::AsLeft);
    assert!(matches!(killed.examine(&disk("a"), Some(&mark(5)), OURS), Finding::Changed(_)));
}

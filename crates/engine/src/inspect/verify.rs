//! One slot of a device, checked.

use super::report::{Counts, Problem, Severity, VolumeRange};
use super::slots::{Damage, Filling, Found};
use super::view::View;
use crate::format::duplicate::Duplicate;
use crate::format::weu::{Entry, Head};
use crate::recovery::sealed;
use bytes::Bytes;
use nitro_cache::weu::layout::{HEAD_BYTES, UNIT_BYTES, entries_max};
use nitro_port::Device;
use nitro_units::{ExtentKey, Generation, WeuId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Of the WEUs that had been filled before the journal's last but one batch, how many may have been on their way to the
/// device then: those that a worker writes at once, and those that wait.
const UNDER_WAY: usize = 6;

const KNOWN_LOST: &str = "is lost, as the journal knows since an earlier start";
const NO_SLOT: &str = "is in a write-evict unit that the device has no room for";
const NO_ENTRY: &str = "is in a write-evict unit whose header is lost, and the journal has no copy of what it said";

/// A slot to be checked.
pub(super) struct Slot {
    pub(super) weu: WeuId,
    pub(super) found: Found,
}

/// What a slot holds.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) counts: Counts,
    pub(super) problems: Vec<Problem>,
    pub(super) notes: Vec<String>,
    /// Damaged extents that a power failure explains.
    pub(super) torn: u64,
}

/// Dirty keys by the entry that holds their content.
type Keys = BTreeMap<u16, Vec<ExtentKey>>;

/// Checks slots against what the journal says.
pub(super) struct Verifier<'a, F> {
    view: &'a View<'a, F>,
    dirty: HashMap<WeuId, BTreeMap<Generation, Keys>>,
    unsealed: HashMap<WeuId, BTreeSet<Generation>>,
    /// WEUs of the last start, of this version or a later one, may not have been flushed.
    flushed_below: u64,
    /// Dirty keys of no slot, and why.
    lost: RefCell<Vec<(ExtentKey, &'static str)>>,
}

/// What is known of an entry before its content is read.
struct Expected<'a> {
    /// A start does not use it.
    void: bool,
    /// A crash explains that it may be damaged.
    torn: bool,
    /// The keys of dirty extents with this content.
    dirty: &'a [ExtentKey],
}

/// The bytes of a WEU that its entries lie in.
struct Parts {
    front: Bytes,
    back: Bytes,
    back_at: u32,
}

impl<'a, F: Device> Verifier<'a, F> {
    pub(super) fn new(view: &'a View<'a, F>, heads: &[(WeuId, Found)]) -> Self {
        let mut dirty: HashMap<WeuId, BTreeMap<Generation, Keys>> = HashMap::new();
        let mut lost = Vec::new();
        for (key, _, target) in view.state.dirty() {
            match target {
                Some((weu, generation, entry)) if weu.0 < view.slots.count => {
                    dirty.entry(weu).or_default().entry(generation).or_default().entry(entry).or_default().push(key);
                }
                Some(_) => lost.push((key, NO_SLOT)),
                None => lost.push((key, KNOWN_LOST)),
            }
        }
        let mut unsealed: HashMap<WeuId, BTreeSet<Generation>> = HashMap::new();
        for (weu, generation) in view.state.unsealed.keys() {
            unsealed.entry(*weu).or_default().insert(*generation);
        }
        let last_start = view.slots.superblock.start;
        let mut versions: Vec<u64> = heads
            .iter()
            .filter_map(|(_, found)| match found {
                Found::Head(head) if head.start == last_start && head.version < view.horizon => Some(head.version),
                _ => None,
            })
            .collect();
        versions.sort_unstable_by_key(|version| std::cmp::Reverse(*version));
        let flushed_below = versions.get(UNDER_WAY - 1).or(versions.last()).copied().unwrap_or(view.horizon);
        Self { view, dirty, unsealed, flushed_below, lost: RefCell::new(lost) }
    }

    /// Checks a slot.
    pub(super) async fn slot(&self, Slot { weu, found }: Slot) -> Findings {
        let mut findings = Findings::default();
        findings.counts.slots = 1;
        let state = &self.view.state;
        let mut sealed_generation = None;
        match found {
            Found::Nothing => {}
            Found::Damaged(damage) if self.is_known_unsealed(weu) => {
                findings.notes.push(format!("write-evict unit {}: {damage}; the journal has what it said", weu.0));
            }
            Found::Damaged(damage) => {
                findings.problems.push(self.structure(weu, 0, HEAD_BYTES, &damage));
            }
            Found::Head(head) => {
                let is_wanted = self.dirty.get(&weu).is_some_and(|dirty| dirty.contains_key(&head.generation));
                if head.generation > state.evicted(weu) || is_wanted {
                    sealed_generation = self.sealed(&head, &mut findings).await.then_some(head.generation);
                } else {
                    findings.counts.evicted_weus = 1;
                }
            }
        }
        self.unsealed(weu, sealed_generation, &mut findings).await;
        findings
    }

    /// Dirty content that no slot has.
    pub(super) fn lost(&self) -> Vec<Problem> {
        let mut lost = std::mem::take(&mut *self.lost.borrow_mut());
        lost.sort_unstable();
        let problem = |(key, what): (ExtentKey, &str)| Problem {
            severity: Severity::DataLost,
            what: format!("dirty content {what}"),
            offset: 0,
            len: 0,
            weu: None,
            content: Some(self.range(key)),
        };
        lost.into_iter().map(problem).collect()
    }

    fn is_known_unsealed(&self, weu: WeuId) -> bool {
        let evicted = self.view.state.evicted(weu);
        self.unsealed.get(&weu).and_then(|g| g.last()).is_some_and(|generation| *generation > evicted)
    }

    /// Checks a WEU with a head; `false` where its table is damaged.
    async fn sealed(&self, head: &Head, findings: &mut Findings) -> bool {
        let view = self.view;
        let entries = match view.slots.table(head).await {
            Ok(entries) => entries,
            Err(damage) => {
                let known = view.state.unsealed.contains_key(&(head.weu, head.generation));
                if known || self.may_be_torn(head) {
                    findings.notes.push(format!("write-evict unit {}: {damage}, as a crash may leave it", head.weu.0));
                } else {
                    findings.problems.push(self.structure(
                        head.weu,
                        head.table_offset,
                        head.table_bytes() as u32,
                        &damage,
                    ));
                }
                return false;
            }
        };
        findings.counts.weus = 1;
        self.check_layout(head, &entries, findings);
        let filling = Filling { weu: head.weu, generation: head.generation, start: head.start };
        let parts = self.read_parts(head, &entries).await;
        let none = Keys::new();
        let dirty = self.dirty.get(&head.weu).and_then(|all| all.get(&head.generation)).unwrap_or(&none);
        for (number, entry) in (0u16..).zip(&entries) {
            let content = match &parts {
                Some(parts) => view.slots.unpack(&filling, entry, parts.of(entry)),
                // Something of it cannot be read: each for itself.
                None => view.slots.content(&filling, entry).await,
            };
            let void = (head.dirty && entry.version >= view.state.limit(head.start))
                || view.state.is_void(head.weu, head.generation, number.into(), entry.key, entry.version);
            let keys = dirty.get(&number).map_or(&[][..], Vec::as_slice);
            findings.counts.void_extents += u64::from(void);
            let torn = self.may_be_torn(head);
            self.judge(&filling, entry, Expected { void, torn, dirty: keys }, content, findings);
        }
        self.duplicates(head, findings).await;
        let beyond = dirty.range(entries.len() as u16..).flat_map(|(_, keys)| keys);
        self.lost.borrow_mut().extend(beyond.map(|key| (*key, NO_ENTRY)));
        true
    }

    /// Checks the records of duplicates of a WEU: where they are damaged, a restart does without them.
    async fn duplicates(&self, head: &Head, findings: &mut Findings) {
        let (view, weu) = (self.view, head.weu);
        if head.duplicates == 0 {
            return;
        }
        let duplicates = match view.slots.duplicates(head).await {
            Ok(duplicates) => duplicates,
            Err(damage) if self.may_be_torn(head) => {
                return findings.notes.push(format!("write-evict unit {}: {damage}, as a crash may leave it", weu.0));
            }
            Err(damage) => {
                let (offset, len) = (head.duplicates_offset(), head.duplicates_bytes() as u32);
                let problem = self.structure(weu, offset, len, &damage);
                return findings.problems.push(Problem { severity: Severity::CostsAMiss, ..problem });
            }
        };
        let first = entries_max(view.slots.superblock.weu_bytes, view.slots.superblock.extent_bytes);
        for (bit, Duplicate { record, .. }) in (first..).zip(&duplicates) {
            let void = view.state.is_void(weu, head.generation, bit, record.key, record.version);
            findings.counts.duplicates += 1;
            findings.counts.void_duplicates += u64::from(void);
            if record.version > head.version {
                let (offset, len) = (head.duplicates_offset(), head.duplicates_bytes() as u32);
                findings.problems.push(Problem {
                    severity: Severity::Metadata,
                    what: String::from("records of duplicates: one is newer than its head says"),
                    offset: view.slots.offset(weu, offset),
                    len: len.into(),
                    weu: Some(weu.0),
                    content: Some(self.range(record.key)),
                });
            }
        }
    }

    /// Checks what the journal calls dirty of fillings without a header.
    async fn unsealed(&self, weu: WeuId, sealed_generation: Option<Generation>, findings: &mut Findings) {
        let view = self.view;
        let known = self.unsealed.get(&weu).and_then(|all| all.last()).copied();
        let alive =
            known.filter(|g| *g > view.state.evicted(weu) && sealed_generation.is_none_or(|sealed| sealed < *g));
        findings.counts.unsealed_weus += u64::from(alive.is_some());
        let Some(dirty) = self.dirty.get(&weu) else { return };
        for (generation, keys) in dirty.iter().filter(|(generation, _)| Some(**generation) != sealed_generation) {
            let entries = view.state.unsealed.get(&(weu, *generation));
            for (number, keys) in keys {
                match entries.and_then(|entries| entries.get(number)) {
                    Some(known) => {
                        let filling = Filling { weu, generation: *generation, start: known.start };
                        let entry = sealed(known);
                        let content = view.slots.content(&filling, &entry).await;
                        let expected = Expected { void: false, torn: false, dirty: keys };
                        self.judge(&filling, &entry, expected, content, findings);
                    }
                    None => self.lost.borrow_mut().extend(keys.iter().map(|key| (*key, NO_ENTRY))),
                }
            }
        }
    }

    /// Takes note of one stored extent.
    fn judge(
        &self,
        filling: &Filling,
        entry: &Entry,
        expected: Expected<'_>,
        content: Result<Bytes, Damage>,
        findings: &mut Findings,
    ) {
        let Expected { void, torn, dirty } = expected;
        let counts = &mut findings.counts;
        counts.extents += 1;
        counts.stored_bytes += u64::from(entry.stored_bytes);
        counts.dirty_extents += dirty.len() as u64;
        let problem = |severity, what: String, key| Problem {
            severity,
            what,
            offset: self.view.slots.offset(filling.weu, entry.offset),
            len: entry.stored_bytes.into(),
            weu: Some(filling.weu.0),
            content: Some(self.range(key)),
        };
        match content {
            Err(damage) => {
                counts.damaged_extents += 1;
                counts.lost_extents += dirty.len() as u64;
                let lost = |key: &ExtentKey| problem(Severity::DataLost, damage.to_string(), *key);
                findings.problems.extend(dirty.iter().map(lost));
                let is_dirty = !dirty.is_empty();
                match (is_dirty || void, torn) {
                    (true, _) => {}
                    (false, true) => findings.torn += 1,
                    (false, false) => {
                        findings.problems.push(problem(Severity::CostsAMiss, damage.to_string(), entry.key));
                    }
                }
            }
            Ok(extent) => {
                let hash = self.view.slots.superblock.fingerprints;
                let wrong = entry.fingerprint.zip(hash).is_some_and(|(known, hash)| hash.of(&extent) != known);
                if wrong {
                    let what = String::from("stored extent: other content than its fingerprint names");
                    findings.problems.push(problem(Severity::Metadata, what, entry.key));
                }
            }
        }
    }

    /// Whether a crash explains that a WEU is not whole: it had only just been written, or the batch that a restart does
    /// without gave its slot away, which was being filled again.
    fn may_be_torn(&self, head: &Head) -> bool {
        let fresh = head.start == self.view.slots.superblock.start && head.version >= self.flushed_below;
        let refilled = self.view.unfinished.as_ref().is_some_and(|dropped| {
            let later = |(weu, generation): &(WeuId, Generation)| *weu == head.weu && *generation > head.generation;
            dropped.evicted(head.weu) >= head.generation || dropped.unsealed.keys().any(later)
        });
        fresh || refilled
    }

    /// Stored extents lie behind one another, where they may.
    fn check_layout(&self, head: &Head, entries: &[Entry], findings: &mut Findings) {
        let mut refuse = |entry: &Entry, what: &str| {
            findings.problems.push(Problem {
                severity: Severity::Metadata,
                what: format!("WEU entry table: {what}"),
                offset: self.view.slots.offset(head.weu, entry.offset),
                len: entry.stored_bytes.into(),
                weu: Some(head.weu.0),
                content: Some(self.range(entry.key)),
            });
        };
        let mut stored: Vec<&Entry> = entries.iter().filter(|entry| entry.stored_bytes > 0).collect();
        stored.sort_unstable_by_key(|entry| entry.offset);
        for pair in stored.windows(2) {
            if pair[0].offset + pair[0].stored_bytes > pair[1].offset {
                refuse(pair[1], "stored extents overlap");
            }
        }
        for entry in entries {
            if entry.version > head.version {
                refuse(entry, "an entry is newer than its head says");
            }
            if !entry.offset.is_multiple_of(UNIT_BYTES) {
                refuse(entry, "a stored extent does not begin at a multiple of 16");
            }
        }
    }

    async fn read_parts(&self, head: &Head, entries: &[Entry]) -> Option<Parts> {
        let weu_bytes = self.view.slots.superblock.weu_bytes;
        let raw = entries.iter().filter(|entry| entry.raw).map(|entry| entry.offset);
        let back_at = raw.min().unwrap_or(weu_bytes);
        let front = self.view.slots.read(head.weu, 0, head.table_offset).await.ok()?;
        let back = match weu_bytes - back_at {
            0 => Bytes::new(),
            len => self.view.slots.read(head.weu, back_at, len).await.ok()?,
        };
        Some(Parts { front, back, back_at })
    }

    fn structure(&self, weu: WeuId, within: u32, len: u32, damage: &Damage) -> Problem {
        Problem {
            severity: Severity::Metadata,
            what: format!("{damage}; nothing that it names is found"),
            offset: self.view.slots.offset(weu, within),
            len: len.into(),
            weu: Some(weu.0),
            content: None,
        }
    }

    fn range(&self, key: ExtentKey) -> VolumeRange {
        let object = key.object();
        let extent_bytes = u64::from(self.view.slots.superblock.extent_bytes);
        let volume = self.view.state.volumes.get(&object).map(|volume| volume.name.clone());
        VolumeRange { object: object.0, volume, offset: key.index().0.saturating_mul(extent_bytes), len: extent_bytes }
    }
}

impl Parts {
    /// The stored bytes of an entry, which a decoded table has within its part.
    fn of(&self, entry: &Entry) -> Bytes {
        let (part, at) =
            if entry.raw { (&self.back, entry.offset - self.back_at) } else { (&self.front, entry.offset) };
        part.slice(at as usize..(at + entry.stored_bytes) as usize)
    }
}

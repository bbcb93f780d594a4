//! Checks of a store: whether all referenced content exists (fsck), and whether the stored bytes are as they were
//! written (scrub).

use crate::access::{Access, OF_THE_STORE};
use crate::chunks::{Region, fingerprint_of};
use crate::directory::DIRECTORY;
use crate::format::node::Node;
use crate::format::page::Page;
use crate::format::record::{Kind, ObjectRecord, SlotState};
use crate::format::region::ChunkKind;
use crate::object::Change;
use crate::place::Reference;
use crate::{Error, Hex, Progress, Store};
use hashbrown::{HashMap, HashSet};
use nitro_port::yielding::yield_now;
use nitro_port::{Device, Work, WorkKind};
use nitro_units::Fingerprint;
use serde::Serialize;
use std::pin::pin;

/// Damage of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The name of the object.
    pub object: String,
    /// The offset of the first byte that cannot be read.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
    /// The reason.
    pub why: String,
}

/// The results of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// The number of objects, snapshots included.
    pub objects: u64,
    /// The number of containers.
    pub containers: u64,
    /// The number of chunks: those that recipes refer to (fsck), or those that were read (scrub).
    pub chunks: u64,
    /// Bytes that were read and verified.
    pub bytes: u64,
    /// Containers whose metadata cannot be read. Their chunks can still be read at the places in recipes.
    pub damaged_containers: Vec<u32>,
    /// The number of damaged contents that no recipe refers to.
    pub damaged_unreferenced: u64,
    /// The parts of objects that cannot be read.
    pub damage: Vec<Damage>,
}

impl Findings {
    /// Whether no damage was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty() && self.damaged_containers.is_empty() && self.damaged_unreferenced == 0
    }
}

/// A part of a recipe.
struct Part {
    reference: Reference,
    /// The level of the recipe block; 0 for a chunk.
    level: u8,
    offset: u64,
    bytes: u64,
}

/// A visitor of recipes: it gets the object's name, the offset, the number of bytes, and the reference.
type Visit<'a> = dyn FnMut(&str, u64, u64, Result<&Reference, &Error>) + 'a;

impl<D: Device> Store<D> {
    /// Checks that the metadata of containers lists all content that recipes refer to. No data are read.
    ///
    /// # Errors
    /// An error of the device, or another error that is not damage, while recipes are read.
    pub async fn check(&self, progress: &Progress<'_>) -> Result<Findings, Error> {
        let mut findings = Findings::default();
        let there = self.all_contents(&mut findings, progress).await?;
        let mut damage = Vec::new();
        let mut chunks = 0;
        findings.objects = self
            .walk(progress, &mut |object, offset, len, found| {
                let why = match found {
                    Ok(reference) if there.contains(&reference.fingerprint) => None,
                    Ok(reference) => Some(format!("content {} is missing", Hex(&reference.fingerprint))),
                    Err(error) => Some(error.to_string()),
                };
                chunks += 1;
                if let Some(why) = why {
                    damage.push(Damage { object: object.to_owned(), offset, len, why });
                }
            })
            .await?;
        findings.chunks = chunks;
        findings.damage = joined(damage);
        Ok(findings)
    }

    /// The fingerprints of all content, from the metadata of containers.
    async fn all_contents(
        &self,
        findings: &mut Findings,
        progress: &Progress<'_>,
    ) -> Result<HashSet<Fingerprint>, Error> {
        let mut there = HashSet::new();
        let slots: Vec<_> = self.state.lock().slots.iter().filter(|(_, s)| s.state != SlotState::Free).collect();
        for ((slot, held), done) in slots.iter().zip(0..) {
            progress("containers", done, slots.len() as u64);
            findings.containers += 1;
            let open = self.opened.lock().get(slot).cloned();
            let chunks = match (open, held.state) {
                (Some(open), _) => open.chunks(),
                (None, _) => match self.read_container(*slot).await {
                    Ok(chunks) => chunks,
                    Err(_) => {
                        findings.damaged_containers.push(*slot);
                        continue;
                    }
                },
            };
            there.extend(chunks.iter().map(|chunk| chunk.fingerprint));
        }
        Ok(there)
    }

    /// Reads all containers, of which open ones are sealed first, and verifies them against checksums and fingerprints. The store may be in use
    /// meanwhile: containers that are freed, and recipes that are replaced, are not taken for damage.
    ///
    /// # Errors
    /// An error of the device, or another error that is not damage, while recipes are read.
    pub async fn scrub(&self, progress: &Progress<'_>) -> Result<Findings, Error> {
        // Open containers could not be examined.
        self.seal_lanes().await?;
        let mut findings = Findings::default();
        let mut bad: HashMap<Fingerprint, String> = HashMap::new();
        let slots: Vec<_> = self.state.lock().slots.iter().filter(|(_, s)| s.state == SlotState::Sealed).collect();
        for ((slot, _), done) in slots.iter().zip(0..) {
            progress("reading containers", done, slots.len() as u64);
            let scrubbing = pin!(self.scrub_container(*slot, &mut findings, &mut bad));
            Work::new(WorkKind::Scrub, OF_THE_STORE).scope(scrubbing).await?;
            yield_now().await;
        }
        let mut hit = HashSet::new();
        let mut damage = Vec::new();
        findings.objects = self
            .walk(progress, &mut |object, offset, len, found| {
                let why = match found {
                    Ok(reference) => bad.get(&reference.fingerprint).cloned(),
                    Err(error) => Some(error.to_string()),
                };
                if let (Ok(reference), Some(_)) = (found, &why) {
                    hit.insert(reference.fingerprint);
                }
                if let Some(why) = why {
                    damage.push(Damage { object: object.to_owned(), offset, len, why });
                }
            })
            .await?;
        findings.damaged_unreferenced = bad.keys().filter(|f| !hit.contains(*f)).count() as u64;
        findings.damage = joined(damage);
        Ok(findings)
    }

    async fn scrub_container(
        &self,
        slot: u32,
        findings: &mut Findings,
        bad: &mut HashMap<Fingerprint, String>,
    ) -> Result<(), Error> {
        let held = self.state.lock().slots.get(slot);
        let is_there = || {
            let now = self.state.lock().slots.get(slot);
            now.state == SlotState::Sealed && now.sequence == held.sequence
        };
        if !is_there() {
            return Ok(());
        }
        findings.containers += 1;
        let Ok(chunks) = self.read_container(slot).await else {
            findings.damaged_containers.extend(is_there().then_some(slot));
            return Ok(());
        };
        let mut bad_here = Vec::new();
        for region in chunks.chunk_by(|a, b| a.sector == b.sector) {
            let Some(place) = region.first().map(|chunk| chunk.place(slot, 0)) else { continue };
            let read = self.read_blocks(place, place).await;
            let bytes = read.as_ref().ok().and_then(|blocks| blocks.region(place));
            let at = self.container_at(slot) + place.offset();
            let decoded = bytes.and_then(|bytes| Region::new(&bytes, self.superblock.seed, at));
            findings.bytes += place.region_bytes() as u64;
            findings.chunks += region.len() as u64;
            let Some(decoded) = decoded else {
                let why = match read {
                    Ok(_) => format!("container {slot} fails its checksum at byte {}", place.offset()),
                    Err(error) => error.to_string(),
                };
                bad_here.extend(region.iter().map(|chunk| (chunk.fingerprint, why.clone())));
                continue;
            };
            for (number, fingerprint, bytes) in decoded.chunks() {
                let found = match decoded.head.kind {
                    ChunkKind::Data => Some(fingerprint_of(&bytes)),
                    ChunkKind::Recipe if Page::is_one(&bytes) => Some(fingerprint_of(&bytes)),
                    ChunkKind::Recipe => Node::decode(&bytes).ok().map(|node| node.fingerprint()),
                };
                if found != Some(fingerprint) {
                    let why = format!("chunk {number} of container {slot} does not match its fingerprint");
                    bad_here.push((fingerprint, why));
                }
            }
        }
        // Unless its place was used again meanwhile.
        if is_there() {
            bad.extend(bad_here);
        }
        Ok(())
    }

    /// Visits all references of all recipes. Returns the number of objects.
    async fn walk(&self, progress: &Progress<'_>, visit: &mut Visit<'_>) -> Result<u64, Error> {
        let (objects, view, mut all) = {
            let objects = self.objects.lock();
            (objects.all(), Self::directory_view(&objects), objects.all_totals().objects)
        };
        let mut done = 0;
        for object in &objects {
            progress("recipes", done, all);
            let (record, overlay): (ObjectRecord, Vec<(u64, Change)>) = {
                let state = object.state.lock();
                (state.record.clone(), state.overlay.iter().map(|(index, change)| (*index, *change)).collect())
            };
            self.walk_current(record, overlay, visit).await?;
            done += u64::from(object.name() != DIRECTORY);
        }
        let Some(view) = view else { return Ok(done) };
        all = all.max(done);
        let walked = self.walk_directory(&view, async |records| {
            progress("recipes", done, all);
            for record in records {
                self.walk_current(record.clone(), Vec::new(), visit).await?;
                done += 1;
            }
            Ok(())
        });
        match walked.await {
            Err(error @ (Error::Missing { .. } | Error::Damaged { .. } | Error::Device(_))) => {
                visit(DIRECTORY, 0, 0, Err(&error));
            }
            result => result?,
        }
        Ok(done)
    }

    /// Visits the references of an object. If some cannot be read, and the object was changed meanwhile, visits those that
    /// it has now; if it was removed, nothing is wrong with it.
    async fn walk_current(
        &self,
        mut record: ObjectRecord,
        mut overlay: Vec<(u64, Change)>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        loop {
            let mut failed = Vec::new();
            self.walk_object(&record, std::mem::take(&mut overlay), visit, &mut failed).await?;
            if failed.is_empty() {
                return Ok(());
            }
            let now = match record.name.as_str() {
                DIRECTORY => self.objects.lock().directory().cloned(),
                name => match self.object(name).await {
                    Ok(now) => Some(now),
                    Err(Error::NoObject(_)) => return Ok(()),
                    Err(_) => None,
                },
            };
            let changed = now.and_then(|now| {
                let state = now.state.lock();
                let overlay = state.overlay.iter().map(|(index, change)| (*index, *change)).collect();
                (state.record.root != record.root).then(|| (state.record.clone(), overlay))
            });
            let Some(changed) = changed else {
                failed.iter().for_each(|(offset, len, error)| visit(&record.name, *offset, *len, Err(error)));
                return Ok(());
            };
            (record, overlay) = changed;
        }
    }

    /// Visits the references of an object in one state. Adds the parts of its recipe that cannot be read to `failed`:
    /// offset, length and reason.
    async fn walk_object(
        &self,
        record: &ObjectRecord,
        overlay: Vec<(u64, Change)>,
        visit: &mut Visit<'_>,
        failed: &mut Vec<(u64, u64, Error)>,
    ) -> Result<(), Error> {
        let (name, root, size) = (&record.name, record.root, record.size_bytes);
        let chunk_bytes = u64::from(record.chunk_bytes);
        let changed: HashSet<u64> = overlay.iter().map(|(index, _)| index * chunk_bytes).collect();
        for (index, change) in overlay {
            if let Some(reference) = &change.reference {
                visit(name, index * chunk_bytes, chunk_bytes, Ok(reference));
            }
        }
        let Some(root) = root else { return Ok(()) };
        let mut rest = vec![Part { reference: root.reference, level: root.levels, offset: 0, bytes: size }];
        while let Some(part) = rest.pop() {
            if part.level == 0 {
                if !changed.contains(&part.offset) {
                    visit(name, part.offset, part.bytes.min(size - part.offset.min(size)), Ok(&part.reference));
                }
                continue;
            }
            let node = match self.node(&part.reference, Access::Disk).await {
                Ok(node) => node,
                Err(error @ (Error::Missing { .. } | Error::Damaged { .. } | Error::Device(_))) => {
                    failed.push((part.offset, part.bytes.min(size - part.offset.min(size)), error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            visit(name, part.offset, 0, Ok(&part.reference));
            let width = chunk_bytes * (crate::format::node::FANOUT as u64).saturating_pow(u32::from(part.level) - 1);
            let mut at = part.offset;
            for (i, entry) in (0..).zip(&node.entries) {
                let (offset, bytes) = match record.kind {
                    Kind::Volume => (part.offset + i * width, width),
                    Kind::Stream => (at, entry.map_or(0, |e| e.bytes)),
                };
                at += entry.map_or(0, |e| e.bytes);
                rest.extend(entry.map(|e| Part { reference: e.reference, level: part.level - 1, offset, bytes }));
            }
        }
        Ok(())
    }
}

/// Merges damage of adjacent or overlapping parts of an object that has the same reason.
fn joined(mut damage: Vec<Damage>) -> Vec<Damage> {
    damage.sort_by(|a, b| (&a.object, a.offset, a.len).cmp(&(&b.object, b.offset, b.len)));
    let mut out: Vec<Damage> = Vec::new();
    for part in damage {
        match out.last_mut() {
            Some(last)
                if last.object == part.object && last.offset + last.len >= part.offset && last.why == part.why =>
            {
                last.len = last.len.max(part.offset + part.len - last.offset);
            }
            _ => out.push(part),
        }
    }
    out
}

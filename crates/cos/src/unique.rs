//! How much of each object is in no other object.
//!
//! Each recipe block is visited for the first object that refers to it, and once more if another one does: then everything
//! below is in several objects. The contents are examined in passes, each for a part of all fingerprints, so that RAM has a
//! bound.

use crate::access::Access;
use crate::format::record::{ObjectRecord, Root};
use crate::{Error, Progress, Store};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry as Known;
use nitro_port::Device;
use nitro_port::yielding::yield_now;
use nitro_units::Fingerprint;

/// Contents that are examined in one pass, about: 32 bytes of RAM for each.
const CONTENTS_A_PASS: u64 = 1 << 20;
/// The owner of what several objects refer to.
const SEVERAL: u32 = u32::MAX;

/// What refers to a content or a recipe block: the number of the only object, or [`SEVERAL`].
struct Owners<V> {
    by_key: HashMap<u64, (u32, V)>,
}

impl<V> Owners<V> {
    /// Notes that an object refers to it. Returns whether that changes anything: it is the first reference, or the first
    /// one of another object.
    fn note(&mut self, key: u64, object: u32, value: V) -> bool {
        match self.by_key.entry(key) {
            Known::Vacant(place) => {
                place.insert((object, value));
                true
            }
            Known::Occupied(mut known) if known.get().0 != object && known.get().0 != SEVERAL => {
                known.get_mut().0 = SEVERAL;
                true
            }
            Known::Occupied(_) => false,
        }
    }
}

/// 64 bits of a fingerprint: among a million contents, two are confused with a probability of less than one in ten
/// millions, and a count is off by a chunk then.
fn key(fingerprint: &Fingerprint) -> u64 {
    fingerprint.0.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// The pass that examines a content.
fn pass_of(fingerprint: &Fingerprint, passes: u64) -> u64 {
    let [.., high, low] = fingerprint.0;
    (u64::from(u16::from_be_bytes([high, low])) * passes) >> 16
}

impl<D: Device> Store<D> {
    /// For each object, in the order of their names: bytes of its content, before compression, that are in no other
    /// object, and at several places of it only once. If it is deleted, a collection frees what these take on the disk.
    /// Changes that are made meanwhile may or may not count.
    ///
    /// # Errors
    /// A recipe cannot be read, or an error of the device.
    pub async fn unique_bytes(&self, progress: &Progress<'_>) -> Result<Vec<(String, u64)>, Error> {
        self.flush_trees().await?;
        let objects = self.roots().await?;
        let passes = self.stats().chunks.div_ceil(CONTENTS_A_PASS).max(1);
        let mut unique = vec![0; objects.len()];
        for pass in 0..passes {
            let mut contents = Owners { by_key: HashMap::new() };
            let mut blocks = Owners { by_key: HashMap::new() };
            for (number, (name, root)) in (0..).zip(&objects) {
                progress(
                    "comparing recipes",
                    pass * objects.len() as u64 + u64::from(number),
                    passes * objects.len() as u64,
                );
                let Some(root) = root else { continue };
                let visit = |fingerprint: &Fingerprint, bytes| {
                    if pass_of(fingerprint, passes) == pass {
                        contents.note(key(fingerprint), number, bytes);
                    }
                };
                match self.visit_unless_known(*root, number, &mut blocks, visit).await {
                    // It was deleted, and collected.
                    Err(Error::Missing { .. }) if self.info(name).await.is_err() => {}
                    visited => visited?,
                }
            }
            for (owner, bytes) in contents.by_key.into_values().filter(|(owner, _)| *owner != SEVERAL) {
                unique[owner as usize] += bytes;
            }
        }
        Ok(objects.into_iter().map(|(name, _)| name).zip(unique).collect())
    }

    /// The names and recipes of all objects, in the order of names.
    pub(crate) async fn roots(&self) -> Result<Vec<(String, Option<Root>)>, Error> {
        let of = |record: &ObjectRecord| (record.name.clone(), record.root);
        let (mut all, view) = {
            let objects = self.objects.lock();
            let in_ram: Vec<_> = objects.named().map(|object| of(&object.state.lock().record)).collect();
            (in_ram, Self::directory_view(&objects))
        };
        if let Some(view) = view {
            let add = async |records: Vec<&ObjectRecord>| {
                all.extend(records.into_iter().map(of));
                Ok(())
            };
            self.walk_directory(&view, add).await?;
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    /// Visits the contents of an object, without those below blocks whose owner stays the same.
    async fn visit_unless_known(
        &self,
        root: Root,
        object: u32,
        blocks: &mut Owners<()>,
        mut visit: impl FnMut(&Fingerprint, u64),
    ) -> Result<(), Error> {
        let mut rest = vec![(root.reference, root.levels)];
        while let Some((reference, levels)) = rest.pop() {
            if !blocks.note(key(&reference.fingerprint), object, ()) {
                continue;
            }
            let node = self.node(&reference, Access::Disk).await?;
            for entry in node.entries.iter().flatten() {
                match levels {
                    0 | 1 => visit(&entry.reference.fingerprint, entry.bytes),
                    _ => rest.push((entry.reference, levels - 1)),
                }
            }
            yield_now().await;
        }
        Ok(())
    }
}

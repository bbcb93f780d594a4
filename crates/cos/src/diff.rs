//! The differences between two volumes, from their recipes: equal recipe blocks are not examined further.

use crate::access::Access;
use crate::format::node::{Entry, FANOUT};
use crate::format::record::Kind;
use crate::object::Object;
use crate::place::Reference;
use crate::{Error, Store};
use nitro_port::Device;
use serde::Serialize;

/// A range in which two volumes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The offset of the first byte.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
}

/// A chunk, or a recipe block with its level.
#[derive(Clone, Copy)]
struct Side {
    reference: Reference,
    /// The number of levels below; 0 for a chunk.
    levels: u8,
}

/// A pair to compare; either side may be missing.
struct Pair {
    levels: u8,
    /// The number of the chunk or block within its level.
    number: u64,
    one: Option<Side>,
    other: Option<Side>,
}

impl<D: Device> Store<D> {
    /// The differences of two volumes with the same chunk size, in whole chunks, by offset. Holes in both are equal.
    ///
    /// # Errors
    /// [`Error::NoObject`]; [`Error::WrongKind`] for streams and for volumes with different chunk sizes; or a recipe
    /// cannot be read.
    pub async fn diff(&self, one: &str, other: &str) -> Result<Vec<Difference>, Error> {
        let mut differences = Vec::new();
        self.visit_differences(one, other, async |difference| {
            differences.push(difference);
            Ok::<_, Error>(())
        })
        .await?;
        Ok(differences)
    }

    /// As [`diff`](Self::diff), but calls `visit` with each difference when it is found, until that fails.
    ///
    /// # Errors
    /// As [`diff`](Self::diff), or the error of `visit`.
    pub async fn visit_differences<E: From<Error>>(
        &self,
        one: &str,
        other: &str,
        mut visit: impl AsyncFnMut(Difference) -> Result<(), E>,
    ) -> Result<(), E> {
        let (one, other) = (self.object(one).await?, self.object(other).await?);
        for object in [&one, &other] {
            if object.kind == Kind::Stream || object.chunk_bytes != one.chunk_bytes {
                let why = "only volumes with the same chunk size can be compared";
                return Err(Error::WrongKind { name: object.name(), kind: object.kind, why }.into());
            }
            self.flush_tree(object).await?;
        }
        let chunk_bytes = u64::from(one.chunk_bytes);
        let root = |object: &Object| {
            let root = object.state.lock().record.root;
            root.map(|root| Side { reference: root.reference, levels: root.levels })
        };
        let (one_root, other_root) = (root(&one), root(&other));
        let levels = one_root.map_or(1, |r| r.levels).max(other_root.map_or(1, |r| r.levels));
        let size = |object: &Object| object.state.lock().record.size_bytes;
        let (shorter, longer) = (size(&one).min(size(&other)), size(&one).max(size(&other)));
        // A chunk that extends beyond the end is cut; the part that only one volume has is added at the end.
        let cut = |d: Difference| Difference { len: d.len.min(shorter.saturating_sub(d.offset)), ..d };
        let mut last: Option<Difference> = None;
        let mut rest = vec![Pair { levels, number: 0, one: one_root, other: other_root }];
        while let Some(pair) = rest.pop() {
            if pair.levels == 0 {
                let found = cut(Difference { offset: pair.number * chunk_bytes, len: chunk_bytes });
                if let Some(before) = note(&mut last, found) {
                    visit(before).await?;
                }
                continue;
            }
            let one = self.beneath(pair.one, pair.levels).await?;
            let other = self.beneath(pair.other, pair.levels).await?;
            // The last pair first, because `rest` is a stack.
            for i in (0..one.len().max(other.len())).rev() {
                let (one, other) = (one.get(i).copied().flatten(), other.get(i).copied().flatten());
                let number = pair.number * FANOUT as u64 + i as u64;
                if !are_same(one, other) {
                    rest.push(Pair { levels: pair.levels - 1, number, one, other });
                }
            }
        }
        let tail = Difference { offset: shorter, len: longer - shorter };
        if let Some(before) = note(&mut last, tail) {
            visit(before).await?;
        }
        if let Some(last) = last {
            visit(last).await?;
        }
        Ok(())
    }

    /// The references in the level below, in a tree of `levels`. A tree with fewer levels is the first child of such a
    /// tree.
    async fn beneath(&self, side: Option<Side>, levels: u8) -> Result<Vec<Option<Side>>, Error> {
        let Some(side) = side else { return Ok(Vec::new()) };
        if side.levels < levels {
            return Ok(vec![Some(side)]);
        }
        let node = self.node(&side.reference, Access::Disk).await?;
        let below = |entry: &Option<Entry>| entry.map(|e| Side { reference: e.reference, levels: levels - 1 });
        Ok(node.entries.iter().map(below).collect())
    }
}

fn are_same(one: Option<Side>, other: Option<Side>) -> bool {
    let key = |side: Option<Side>| side.map(|s| (s.reference.fingerprint, s.levels));
    key(one) == key(other)
}

/// Adds a difference to the last one, if they adjoin; otherwise returns that, and the new one becomes the last one.
fn note(last: &mut Option<Difference>, found: Difference) -> Option<Difference> {
    match last {
        _ if found.len == 0 => None,
        Some(last) if last.offset + last.len == found.offset => {
            last.len += found.len;
            None
        }
        last => last.replace(found),
    }
}

//! Recipes: trees of blocks with up to 448 references each. Changed blocks are written again (copy on write), so that
//! snapshots and clones share the others.

use crate::access::Access;
use crate::chunks::Cuts;
use crate::format::node::{Entry, FANOUT, Node};
use crate::format::record::{Kind, Root};
use crate::format::region::ChunkKind;
use crate::lane::RECIPE_LANE;
use crate::object::{Change, Object};
use crate::place::Reference;
use crate::{Error, Store};
use bytes::Bytes;
use nitro_port::range_lock::ALL;
use nitro_port::{Device, Work};
use nitro_units::Fingerprint;
use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

/// The number of blocks that are written together.
const WRITTEN_AT_ONCE: usize = 128;

/// The key of a block in RAM: its fingerprint, its place, and the sequence number of its container.
pub(crate) type NodeKey = (Fingerprint, u64, u64);

/// The entries of written blocks for the level above, by number, with the sequence number since which their places are
/// correct.
type Written = BTreeMap<u64, (Option<Entry>, u64)>;

/// The number of levels of a tree over `chunks` chunks.
pub(crate) fn levels_for(chunks: u64) -> u8 {
    let mut levels = 1;
    let mut reach = FANOUT as u64;
    while reach < chunks {
        levels += 1;
        reach = reach.saturating_mul(FANOUT as u64);
    }
    levels
}

/// The number of blocks of level `below` under one block of level `above`.
fn blocks_beneath(above: u8, below: u8) -> u64 {
    (below..above).fold(1, |reach: u64, _| reach.saturating_mul(FANOUT as u64))
}

impl<D: Device> Store<D> {
    /// Reads a recipe block.
    ///
    /// There may be copies of a block that differ only in places. The cache in RAM is keyed by the place of the block,
    /// so that it returns the copy at that place.
    pub(crate) async fn node(&self, reference: &Reference, access: Access) -> Result<Arc<Node>, Error> {
        let key = self.node_key(reference);
        if let Some(node) = self.nodes.lock().get(&key) {
            return Ok(Arc::clone(node));
        }
        if access != Access::Disk
            && let Some(node) = self.node_on_ssd(reference).await
        {
            let node = Arc::new(node);
            if self.node_key(reference) == key {
                self.nodes.lock().put(key, Arc::clone(&node));
            }
            return Ok(node);
        }
        self.counters.recipe_reads.add(1);
        let (place, bytes) = self.locate(reference, access).await?;
        let node = Arc::new(Node::decode(&bytes)?);
        // Unless it was found elsewhere, or the container was freed meanwhile.
        let is_here = place == reference.place || !self.settings.places;
        if is_here && self.node_key(reference) == key {
            self.nodes.lock().put(key, Arc::clone(&node));
            if access.keeps_recipes() {
                self.keep_node(reference, &bytes).await;
            }
        }
        Ok(node)
    }

    pub(crate) fn node_key(&self, reference: &Reference) -> NodeKey {
        let sequence = self.state.lock().slots.get(reference.place.slot).sequence;
        (reference.fingerprint, reference.place.pack(), sequence)
    }

    /// The block with this level and number, if there is one.
    async fn find_node(
        &self,
        root: Option<Root>,
        (level, number): (u8, u64),
        access: Access,
    ) -> Result<Option<Arc<Node>>, Error> {
        let Some(root) = root.filter(|r| level < r.levels) else { return Ok(None) };
        let top = root.levels - 1;
        if number / blocks_beneath(top, level) != 0 {
            return Ok(None);
        }
        let mut node = self.node(&root.reference, access).await?;
        for below in (level..top).rev() {
            let index = number / blocks_beneath(below, level) % FANOUT as u64;
            match node.get(index as usize) {
                Some(entry) => node = self.node(&entry.reference, access).await?,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    /// Reads the block of a volume's recipe after that of a chunk into RAM, unless it is there. Errors are left to whoever
    /// needs the block.
    pub(crate) async fn read_next_leaf(&self, object: &Object, index: u64, access: Access) {
        let root = object.state.lock().record.root;
        if let Err(error) = self.find_node(root, (0, index / FANOUT as u64 + 1), access).await {
            tracing::debug!("a recipe block could not be read in advance: {error}");
        }
    }

    /// The reference of a chunk of a volume in a recipe.
    pub(crate) async fn resolve_root(&self, root: Option<Root>, index: u64) -> Result<Option<Reference>, Error> {
        let fanout = FANOUT as u64;
        let node = self.find_node(root, (0, index / fanout), Access::Disk).await?;
        Ok(node.and_then(|node| node.get((index % fanout) as usize)).map(|entry| entry.reference))
    }

    /// The references of chunks of a volume, from its recipe and overlay.
    pub(crate) async fn resolve(
        &self,
        object: &Object,
        chunks: Range<u64>,
        access: Access,
    ) -> Result<Vec<Option<Reference>>, Error> {
        let (root, overlay) = {
            let state = object.state.lock();
            let overlay: Vec<_> = state.overlay.range(chunks.clone()).map(|(i, c)| (*i, c.reference)).collect();
            (state.record.root, overlay)
        };
        let mut resolved = vec![None; (chunks.end - chunks.start) as usize];
        if overlay.len() < resolved.len() {
            let fanout = FANOUT as u64;
            for leaf in chunks.start / fanout..chunks.end.div_ceil(fanout) {
                let Some(node) = self.find_node(root, (0, leaf), access).await? else { continue };
                let from = chunks.start.max(leaf * fanout);
                for index in from..chunks.end.min((leaf + 1) * fanout) {
                    resolved[(index - chunks.start) as usize] =
                        node.get((index - leaf * fanout) as usize).map(|e| e.reference);
                }
            }
        }
        for (index, reference) in overlay {
            resolved[(index - chunks.start) as usize] = reference;
        }
        Ok(resolved)
    }

    /// The references of a range of an object, each with the offset of its chunk; without holes.
    pub(crate) async fn references(
        &self,
        object: &Object,
        range: Range<u64>,
        access: Access,
    ) -> Result<Vec<(u64, Reference)>, Error> {
        match object.kind {
            Kind::Stream => {
                let root = object.state.lock().record.root;
                let resolved = self.resolve_stream(root, range, access).await?;
                Ok(resolved.into_iter().map(|(start, entry)| (start, entry.reference)).collect())
            }
            Kind::Volume => {
                let chunk_bytes = u64::from(object.chunk_bytes);
                let chunks = range.start / chunk_bytes..range.end.div_ceil(chunk_bytes);
                let resolved = self.resolve(object, chunks.clone(), access).await?;
                Ok(chunks.zip(resolved).filter_map(|(index, r)| Some((index * chunk_bytes, r?))).collect())
            }
        }
    }

    /// Writes the changes of the overlay into the recipe.
    pub(crate) async fn flush_tree(&self, object: &Object) -> Result<(), Error> {
        self.flush_tree_by(object, Access::Disk).await
    }

    /// As [`flush_tree`](Self::flush_tree); `access` decides whether old blocks are looked up on the SSD.
    pub(crate) async fn flush_tree_by(&self, object: &Object, access: Access) -> Result<(), Error> {
        // Others wait for the recipe, or for the room that its changes take in the journal.
        Work::pressing(pin!(self.flush_tree_now(object, access))).await
    }

    async fn flush_tree_now(&self, object: &Object, access: Access) -> Result<(), Error> {
        let _flushing = object.flushing.lock().await;
        let _mutating = self.mutating.shared(ALL).await;
        let (root, changes, size) = {
            let state = object.state.lock();
            (state.record.root, state.overlay.clone(), state.record.size_bytes)
        };
        if changes.is_empty() {
            return Ok(());
        }
        let chunk_bytes = u64::from(object.chunk_bytes);
        let levels = levels_for(size.div_ceil(chunk_bytes)).max(root.map_or(0, |r| r.levels));
        let entry = |change: &Change| {
            let entry = change.reference.map(|reference| Entry { reference, bytes: chunk_bytes });
            (entry, change.since)
        };
        let mut written: Written = changes.iter().map(|(index, change)| (*index, entry(change))).collect();
        for level in 0..levels {
            // When the tree gets another level, the old root becomes the first block of its level.
            if let Some(root) = root.filter(|r| r.levels == level) {
                written.entry(0).or_insert((Some(self.root_entry(&root, access).await?), 0));
            }
            written = self.write_level((root, access), level, written).await?;
        }
        let root = written.into_values().next().and_then(|(entry, _)| entry);
        let root = root.map(|entry| Root { reference: entry.reference, levels });
        object.state.lock().flushed(root, &changes);
        Ok(())
    }

    /// As [`flush_tree`](Self::flush_tree), if there is room; otherwise the overlay is kept, and its changes are in the
    /// journal.
    pub(crate) async fn flush_tree_if_room(&self, object: &Object) -> Result<(), Error> {
        match self.flush_tree(object).await {
            Err(error) if error.is_full() => {
                tracing::warn!("the recipe of {:?} is not updated: {error}", object.name());
                Ok(())
            }
            result => result,
        }
    }

    /// Writes the overlays of all objects into their recipes, as far as there is room.
    pub(crate) async fn flush_trees(&self) -> Result<(), Error> {
        let objects = self.objects.lock().all();
        for object in objects {
            self.flush_tree_if_room(&object).await?;
        }
        Ok(())
    }

    async fn root_entry(&self, root: &Root, access: Access) -> Result<Entry, Error> {
        let node = self.node(&root.reference, access).await?;
        Ok(Entry { reference: root.reference, bytes: node.entries.iter().flatten().map(|e| e.bytes).sum() })
    }

    /// Writes the changed blocks of a level. Returns their entries for the level above.
    async fn write_level(
        &self,
        (root, access): (Option<Root>, Access),
        level: u8,
        changes: Written,
    ) -> Result<Written, Error> {
        let mut above = Written::new();
        let mut nodes: Vec<(u64, Node)> = Vec::new();
        let mut rest = changes.into_iter().peekable();
        while let Some((index, change)) = rest.next() {
            let number = index / FANOUT as u64;
            let old = self.find_node(root, (level, number), access).await?;
            let mut node = old.map_or_else(|| Node::empty(level), |node| (*node).clone());
            let mut next = Some((index, change));
            while let Some((index, (entry, since))) = next {
                node.set((index % FANOUT as u64) as usize, entry);
                node.since = node.since.min(since);
                next = rest.next_if(|(i, _)| i / FANOUT as u64 == number);
            }
            if node.entries.is_empty() {
                above.insert(number, (None, u64::MAX));
            } else {
                nodes.push((number, node));
            }
            if nodes.len() >= WRITTEN_AT_ONCE {
                self.write_nodes(std::mem::take(&mut nodes), &mut above).await?;
            }
        }
        self.write_nodes(nodes, &mut above).await?;
        Ok(above)
    }

    async fn write_nodes(&self, nodes: Vec<(u64, Node)>, above: &mut Written) -> Result<(), Error> {
        let since = self.state.lock().slots.sequence();
        let mut source = Vec::new();
        let mut pieces: Vec<_> = Vec::with_capacity(nodes.len());
        for (_, node) in &nodes {
            let start = source.len();
            node.encode(&mut source);
            pieces.push((node.fingerprint(), start..source.len()));
        }
        let source = Bytes::from(source);
        let references = self.store_nodes(source.clone(), &pieces).await?;
        for (reference, (_, range)) in references.iter().zip(&pieces) {
            self.keep_node(reference, &source[range.clone()]).await;
        }
        for ((number, node), reference) in nodes.into_iter().zip(references) {
            let bytes = node.entries.iter().flatten().map(|e| e.bytes).sum();
            above.insert(number, (Some(Entry { reference, bytes }), since));
            let key = self.node_key(&reference);
            self.nodes.lock().put(key, Arc::new(node));
        }
        Ok(())
    }

    async fn store_nodes(&self, source: Bytes, pieces: &Cuts) -> Result<Vec<Reference>, Error> {
        if pieces.is_empty() {
            return Ok(Vec::new());
        }
        self.store_chunks((ChunkKind::Recipe, RECIPE_LANE), &source, pieces, Access::Disk).await
    }

    /// Writes one block.
    pub(crate) async fn write_node(&self, node: Node) -> Result<(Entry, u64), Error> {
        let mut above = Written::new();
        self.write_nodes(vec![(0, node)], &mut above).await?;
        match above.into_values().next() {
            Some((Some(entry), since)) => Ok((entry, since)),
            _ => Err(Error::Busy("a block of a recipe was not written")),
        }
    }

    /// The chunks of a stream in a range, each with its offset in the stream.
    pub(crate) async fn resolve_stream(
        &self,
        root: Option<Root>,
        range: Range<u64>,
        access: Access,
    ) -> Result<Vec<(u64, Entry)>, Error> {
        let Some(root) = root else { return Ok(Vec::new()) };
        let mut resolved = Vec::new();
        // A stack of blocks and chunks, each with its offset.
        let mut rest = vec![(0, root.levels, self.root_entry(&root, access).await?)];
        while let Some((start, level, entry)) = rest.pop() {
            if start >= range.end || start + entry.bytes <= range.start {
                continue;
            }
            if level == 0 {
                resolved.push((start, entry));
                continue;
            }
            let node = self.node(&entry.reference, access).await?;
            let mut at = start;
            let from = rest.len();
            for entry in node.entries.iter().flatten() {
                rest.push((at, level - 1, *entry));
                at = at.saturating_add(entry.bytes);
            }
            rest[from..].reverse();
        }
        Ok(resolved)
    }
}

/// Builds the recipe of a stream, from its first chunk to its last.
#[derive(Default)]
pub(crate) struct StreamBuilder {
    /// The blocks that are being filled, by level.
    open: Vec<Node>,
    pub(crate) bytes: u64,
}

impl StreamBuilder {
    /// Adds the chunks, and the recipes of parts, that the blocks being filled refer to.
    pub(crate) fn references(&self, chunks: &mut Vec<Change>, roots: &mut Vec<Root>) {
        for node in &self.open {
            for Entry { reference, .. } in node.entries.iter().flatten().copied() {
                match node.level {
                    0 => chunks.push(Change { reference: Some(reference), since: node.since }),
                    levels => roots.push(Root { reference, levels }),
                }
            }
        }
    }

    pub(crate) async fn push<D: Device>(&mut self, store: &Store<D>, entry: Entry, since: u64) -> Result<(), Error> {
        self.bytes += entry.bytes;
        let (mut entry, mut since) = (entry, since);
        for level in 0.. {
            if self.open.len() <= level {
                self.open.push(Node::empty(level as u8));
            }
            let node = &mut self.open[level];
            node.since = node.since.min(since);
            node.entries.push(Some(entry));
            if node.entries.len() < FANOUT {
                return Ok(());
            }
            let full = std::mem::replace(node, Node::empty(level as u8));
            (entry, since) = store.write_node(full).await?;
        }
        Ok(())
    }

    /// Writes the remaining blocks, and returns the root; `None` if the stream is empty.
    pub(crate) async fn finish<D: Device>(self, store: &Store<D>) -> Result<Option<Root>, Error> {
        let top = self.open.len();
        let mut below: Option<(Entry, u64)> = None;
        for (level, mut node) in self.open.into_iter().enumerate() {
            if let Some((entry, since)) = below.take() {
                node.entries.push(Some(entry));
                node.since = node.since.min(since);
            }
            if node.entries.is_empty() {
                continue;
            }
            // A root with a single block below it is omitted.
            if level + 1 == top && level > 0 && node.entries.len() == 1 {
                let only = node.get(0).map(|entry| Root { reference: entry.reference, levels: level as u8 });
                return Ok(only);
            }
            let written = store.write_node(node).await?;
            if level + 1 == top {
                return Ok(Some(Root { reference: written.0.reference, levels: top as u8 }));
            }
            below = Some(written);
        }
        Ok(None)
    }
}

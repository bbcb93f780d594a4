//! btrfs (Btrfs on-disk format, btrfs.readthedocs.io): each node contains the identity of the file system and its own
//! address. Chunks map these addresses to ranges of the device.

use crate::bytes::{u16_le, u32_le, u64_le};
use crate::ranges::{Known, Stamp};
use crate::{Found, View};
use std::collections::VecDeque;
use std::ops::Range;

/// The offset of the superblock in the file system, and its length, in bytes.
pub(crate) const SUPERBLOCK_AT: u64 = 64 << 10;
const SUPERBLOCK_BYTES: usize = 4096;
const MAGIC: &[u8] = b"_BHRfS_M";
const MAGIC_AT: usize = 64;
const HAS_METADATA_UUID: u64 = 1 << 10;
/// The superblock's list of the chunks that hold the chunk tree.
const SYSTEM_CHUNKS: Range<usize> = 811..811 + 2048;
const KEY_BYTES: usize = 17;
const HEADER_BYTES: usize = 101;
const ITEM_BYTES: usize = 25;
const INODE: u8 = 1;
const FILE_EXTENT: u8 = 108;
const CHUNK: u8 = 228;
const CHUNK_TREE: u64 = 3;
const FILE_TREE: u64 = 5;
/// The numbers of the trees of subvolumes.
const SUBVOLUMES: Range<u64> = 256..u64::MAX - 255;
const INLINE: u8 = 0;
/// Flags of chunks: data; and the RAID profiles 0, 10, 5 and 6, which stripe.
const IS_DATA: u64 = 1;
const IS_STRIPED: u64 = 1 << 3 | 1 << 6 | 1 << 7 | 1 << 8;
const STRIPE_BYTES: usize = 32;
const COPIES_MAX: usize = 2;

/// A chunk: a range of addresses, and its copies on this device.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    first: u64,
    bytes: u64,
    /// The offsets of the copies, from the first byte of the file system.
    at: [Option<u64>; COPIES_MAX],
}

/// RAM of a chunk in bytes.
const CHUNK_BYTES: u64 = size_of::<Chunk>() as u64;

/// RAM for all btrfs file systems of a volume: half of it for chunks, half for parts of nodes.
#[derive(Debug)]
pub(crate) struct Room {
    chunks: u64,
    bytes_max: u64,
    /// Nodes that were read in part: the offset of the first byte, and the bytes so far.
    parts: VecDeque<(u64, Vec<u8>)>,
}

impl Room {
    pub(crate) const fn new(bytes_max: u64) -> Self {
        Self { chunks: 0, bytes_max, parts: VecDeque::new() }
    }

    /// RAM in use, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks * CHUNK_BYTES + self.parts.iter().map(|(_, part)| part.capacity() as u64).sum::<u64>()
    }

    /// Reserves RAM for another chunk; returns whether there was enough.
    fn takes_chunk(&mut self) -> bool {
        let fits = (self.chunks + 1) * CHUNK_BYTES <= self.bytes_max / 2;
        self.chunks += u64::from(fits);
        fits
    }

    /// Releases the RAM of a file system's chunks.
    pub(crate) fn release(&mut self, gone: &Btrfs) {
        self.chunks -= gone.chunks.len() as u64;
    }

    /// Takes the part of a node that ends at byte `at`.
    fn part_before(&mut self, at: u64) -> Option<(u64, Vec<u8>)> {
        let place = self.parts.iter().position(|(first, part)| first + part.len() as u64 == at)?;
        self.parts.remove(place)
    }

    /// Keeps a part of a node of `node_bytes`; the oldest parts are dropped for lack of RAM.
    fn keep(&mut self, first: u64, mut part: Vec<u8>, node_bytes: u64) {
        part.reserve_exact((node_bytes as usize).saturating_sub(part.len()));
        self.parts.retain(|(other, _)| *other != first);
        self.parts.push_front((first, part));
        while self.parts.iter().map(|(_, part)| part.capacity() as u64).sum::<u64>() > self.bytes_max / 2 {
            self.parts.pop_back();
        }
    }
}

/// A btrfs file system.
#[derive(Debug)]
pub(crate) struct Btrfs {
    /// The offset of its first byte in the volume.
    start: u64,
    bytes: u64,
    node_bytes: u64,
    device: u64,
    identity: [u8; 16],
    /// The identity that its nodes contain.
    nodes: [u8; 16],
    chunk_root: u64,
    generation: u64,
    /// The chunks listed in the superblock, with their flags.
    system: Vec<(Chunk, u64)>,
    /// The chunks, by their first address.
    chunks: Vec<Chunk>,
}

impl Btrfs {
    /// Reads the superblock of a file system that begins at byte `start`; `None` if it is not valid.
    pub(crate) fn read(start: u64, superblock: &[u8]) -> Option<Self> {
        let superblock = superblock.get(..SUPERBLOCK_BYTES)?;
        if superblock.get(MAGIC_AT..)?.get(..MAGIC.len())? != MAGIC {
            return None;
        }
        let uuid = |at: usize| -> Option<[u8; 16]> { superblock.get(at..at + 16)?.try_into().ok() };
        let identity = uuid(32)?;
        let nodes = if u64_le(superblock, 188)? & HAS_METADATA_UUID == 0 { identity } else { uuid(571)? };
        let mut btrfs = Self {
            start,
            // The size on this device.
            bytes: u64_le(superblock, 201 + 8)?,
            node_bytes: u32_le(superblock, 148)?.into(),
            device: u64_le(superblock, 201)?,
            identity,
            nodes,
            chunk_root: u64_le(superblock, 88)?,
            generation: u64_le(superblock, 72)?,
            system: Vec::new(),
            chunks: Vec::new(),
        };
        let is_sound = (4096..=65536).contains(&btrfs.node_bytes)
            && btrfs.node_bytes.is_power_of_two()
            && btrfs.bytes.checked_add(start).is_some();
        let len = u32_le(superblock, 160)? as usize;
        let mut chunks = superblock.get(SYSTEM_CHUNKS)?.get(..len)?;
        while let (Some(first), Some(item)) = (u64_le(chunks, 9), chunks.get(KEY_BYTES..)) {
            let Some((chunk, kind, taken)) = btrfs.read_chunk(first, item) else { break };
            btrfs.system.push((chunk, kind));
            chunks = item.get(taken..)?;
        }
        is_sound.then_some(btrfs)
    }

    /// Whether both are the same file system with the same size.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.identity, self.bytes, self.nodes) == (other.identity, other.bytes, other.nodes)
    }

    /// Records the ranges that follow from the superblock.
    pub(crate) fn begin(&mut self, view: &mut View<'_>) {
        let superblock = self.start + SUPERBLOCK_AT;
        view.learn(superblock..superblock + SUPERBLOCK_BYTES as u64, Known::Is(Found::Metadata));
        view.stamp = Stamp(self.generation);
        for (chunk, kind) in std::mem::take(&mut self.system) {
            self.note_chunk(chunk, kind, view);
        }
    }

    /// The file system's range of the volume, in bytes.
    pub(crate) const fn bounds(&self) -> Range<u64> {
        self.start..self.start + self.bytes
    }

    pub(crate) const fn block_bytes(&self) -> u64 {
        self.node_bytes
    }

    /// The location of the root of the chunk tree (its first copy), in bytes of the volume.
    pub(crate) fn chunk_root(&self) -> Vec<Range<u64>> {
        let places = self.places(self.chunk_root, self.node_bytes);
        places.into_iter().flatten().take(1).collect()
    }

    /// Reads a block, or a part of one; returns its classification.
    pub(crate) fn look(&mut self, at: u64, block: &[u8], view: &mut View<'_>) -> Option<Found> {
        let known = view.ranges.find(at).map(|(_, known)| known.found());
        let (first, part) = if block.get(32..48) == Some(&self.nodes) && self.bears(block, at) {
            if block.len() as u64 >= self.node_bytes {
                self.read_node(block, view);
                return Some(Found::Metadata);
            }
            (at, block.to_vec())
        } else if let Some((first, mut part)) = view.room.part_before(at) {
            part.extend_from_slice(block);
            (first, part)
        } else {
            return known;
        };
        if (part.len() as u64) < self.node_bytes {
            view.room.keep(first, part, self.node_bytes);
        } else {
            self.read_node(&part, view);
        }
        Some(Found::Metadata)
    }

    /// Whether a node's header has the address of byte `at`.
    fn bears(&self, node: &[u8], at: u64) -> bool {
        let places = u64_le(node, 48).map(|address| self.places(address, self.node_bytes));
        places.is_some_and(|places| places.into_iter().flatten().any(|place| place.start == at))
    }

    /// The locations of the copies of a range of addresses, in bytes of the volume; `None` for copies that are not
    /// known.
    fn places(&self, address: u64, bytes: u64) -> [Option<Range<u64>>; COPIES_MAX] {
        let chunk = self.chunks.partition_point(|chunk| chunk.first <= address).checked_sub(1);
        let Some(chunk) = chunk.map(|chunk| &self.chunks[chunk]) else { return [const { None }; COPIES_MAX] };
        let within = address - chunk.first;
        let is_inside = bytes > 0 && within.checked_add(bytes).is_some_and(|end| end <= chunk.bytes);
        chunk.at.map(|at| at.filter(|_| is_inside).map(|at| self.start + at + within..self.start + at + within + bytes))
    }

    /// Reads a chunk item: the chunk, its flags, and the length of the item in bytes.
    fn read_chunk(&self, first: u64, item: &[u8]) -> Option<(Chunk, u64, usize)> {
        let (bytes, kind, stripes) = (u64_le(item, 0)?, u64_le(item, 24)?, usize::from(u16_le(item, 44)?));
        let taken = 48 + stripes * STRIPE_BYTES;
        let mut copies = item.get(48..taken)?.chunks_exact(STRIPE_BYTES).filter_map(|stripe| {
            let (device, at) = (u64_le(stripe, 0)?, u64_le(stripe, 8)?);
            // Copies on other devices are skipped, and so are striped chunks, whose addresses are spread over stripes.
            (device == self.device && kind & IS_STRIPED == 0 && at.checked_add(bytes)? <= self.bytes).then_some(at)
        });
        let at = [copies.next(), copies.next()];
        first.checked_add(bytes)?;
        Some((Chunk { first, bytes, at }, kind, taken))
    }

    fn note_chunk(&mut self, chunk: Chunk, kind: u64, view: &mut View<'_>) {
        let Chunk { first, bytes, at } = chunk;
        match self.chunks.binary_search_by_key(&first, |chunk| chunk.first) {
            Ok(place) => self.chunks[place] = chunk,
            Err(place) if view.room.takes_chunk() => self.chunks.insert(place, chunk),
            Err(_) => return,
        }
        if kind & IS_DATA == 0 {
            for at in at.into_iter().flatten() {
                view.learn(self.start + at..self.start + at + bytes, Known::Is(Found::Metadata));
            }
        }
    }

    fn read_node(&mut self, node: &[u8], view: &mut View<'_>) -> Option<()> {
        let (tree, count, level) = (u64_le(node, 88)?, u32_le(node, 96)? as usize, *node.get(100)?);
        if level > 0 {
            return None;
        }
        // A node is not overwritten in place, and old nodes remain: the generation tells which one is newer.
        view.stamp = Stamp(u64_le(node, 80)?);
        let body = node.get(HEADER_BYTES..)?;
        let items = body.chunks_exact(ITEM_BYTES).take(count).filter_map(|item| {
            let (at, len) = (u32_le(item, 17)? as usize, u32_le(item, 21)? as usize);
            Some(Item {
                object: u64_le(item, 0)?,
                kind: item[8],
                offset: u64_le(item, 9)?,
                data: body.get(at..at.checked_add(len)?)?,
            })
        });
        if tree == CHUNK_TREE {
            let chunks: Vec<_> = items.filter(|item| item.kind == CHUNK).collect();
            for item in chunks {
                if let Some((chunk, kind, _)) = self.read_chunk(item.offset, item.data) {
                    self.note_chunk(chunk, kind, view);
                }
            }
        } else if tree == FILE_TREE || SUBVOLUMES.contains(&tree) {
            self.read_files(items, view);
        }
        None
    }

    /// Reads the items of a leaf of a file tree, which are ordered by the number of the file.
    fn read_files<'a>(&self, items: impl Iterator<Item = Item<'a>>, view: &mut View<'_>) {
        let (mut file, mut bytes, mut extents) = (0, 0, Vec::new());
        let mut end = |extents: &mut Vec<Range<u64>>, bytes: u64| {
            for extent in extents.drain(..) {
                view.learn(extent, Known::Is(Found::File(bytes)));
            }
        };
        let mut inodes = 0;
        for item in items {
            if item.object != file {
                end(&mut extents, bytes);
                (file, bytes) = (item.object, 0);
            }
            match item.kind {
                INODE => {
                    inodes += 1;
                    bytes = bytes.max(u64_le(item.data, 16).unwrap_or(0));
                }
                FILE_EXTENT => {
                    if let Some((address, len, covers)) = file_extent(item.data) {
                        // If the inode is in another leaf, the end of the last extent is the best known size.
                        bytes = bytes.max(item.offset.saturating_add(covers));
                        extents.extend(self.places(address, len).into_iter().flatten());
                    }
                }
                _ => {}
            }
        }
        end(&mut extents, bytes);
        *view.inodes += inodes;
    }
}

/// An item of a leaf.
struct Item<'a> {
    object: u64,
    kind: u8,
    offset: u64,
    data: &'a [u8],
}

/// The extent of a file: its address, its length on the device, and the number of the file's bytes in it. `None` for
/// inline data and holes.
fn file_extent(data: &[u8]) -> Option<(u64, u64, u64)> {
    let (kind, address, len, covers) = (*data.get(20)?, u64_le(data, 21)?, u64_le(data, 29)?, u64_le(data, 45)?);
    (kind != INLINE && address > 0).then_some((address, len, covers))
}

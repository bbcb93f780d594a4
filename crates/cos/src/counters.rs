//! Counters of a store since it was opened.

use crate::format::region::{ChunkKind, Prepared};

nitro_units::counters! {
    /// Counters of a store since it was opened.
    pub(crate) struct Counting / Counters {
        /// Chunks of data whose content was in the store already.
        duplicate_chunks,
        /// Chunks of data that were stored.
        stored_chunks,
        /// Bytes of chunks that were stored, recipes among them, before compression.
        stored_raw_bytes,
        /// Bytes of the regions that were stored, in whole sectors.
        stored_bytes,
        /// Blocks of recipes that were stored.
        recipe_blocks,
        /// Bytes written to containers.
        written_bytes,
        /// Chunks found by the fingerprints in RAM.
        locality_hits,
        /// Look-ups in the fingerprint index.
        index_lookups,
        /// Reads of containers' metadata.
        metadata_reads,
        /// Reads of regions.
        region_reads,
        /// Bytes of reads of regions.
        region_read_bytes,
        /// Reads of recipe blocks that were not in RAM.
        recipe_reads,
        /// Look-ups of names in the directory, of objects that were not in RAM.
        directory_lookups,
        /// Reads of pages of the directory from the disk.
        directory_reads,
        /// Chunks that were not at the place in their recipe and were looked up.
        moved,
        /// Different contents with the same fingerprint.
        false_duplicates,
        /// Commits of the journal.
        commits,
        /// Collections that were begun.
        collections,
        /// Containers that the collector freed.
        freed_containers,
        /// Chunks that the collector copied elsewhere.
        copied_chunks,
    }
}

impl Counting {
    pub(crate) fn chunks(&self, kind: ChunkKind, duplicates: usize, stored: usize) {
        match kind {
            ChunkKind::Data => {
                self.duplicate_chunks.add(duplicates as u64);
                self.stored_chunks.add(stored as u64);
            }
            ChunkKind::Recipe => self.recipe_blocks.add(stored as u64),
        }
    }

    pub(crate) fn stored(&self, region: &Prepared) {
        self.stored_raw_bytes.add(region.raw_bytes.into());
        self.stored_bytes.add(u64::from(region.sectors()) * crate::format::SECTOR_BYTES as u64);
    }
}

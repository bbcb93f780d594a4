//! Caching of parts of the store on the SSD, and reading them from it.

use super::{Piece, PieceKind, Ssd};
use crate::Store;
use crate::chunks::Cuts;
use crate::format::node::Node;
use crate::place::{Place, Reference};
use bytes::Bytes;
use futures_util::future::join_all;
use nitro_port::Device;

impl<D: Device> Store<D> {
    /// The sequence number of the container in a reference.
    fn sequence_of(&self, reference: &Reference) -> u64 {
        self.state.lock().slots.get(reference.place.slot).sequence
    }

    /// Reads a recipe block from the SSD; `None` if it is not cached.
    pub(crate) async fn node_on_ssd(&self, reference: &Reference) -> Option<Node> {
        let node = Node::decode(&self.block_on_ssd(reference).await?).ok()?;
        (node.fingerprint() == reference.fingerprint).then_some(node)
    }

    /// Reads the bytes of a recipe block or a page of the directory from the SSD; `None` if they are not cached.
    pub(crate) async fn block_on_ssd(&self, reference: &Reference) -> Option<Bytes> {
        let ssd = self.ssd.keeping(PieceKind::Fmd)?;
        ssd.get(&ssd.chunk(PieceKind::Fmd, reference, self.sequence_of(reference))).await
    }

    /// Caches a block of a recipe, or a page of the directory, on the SSD.
    pub(crate) async fn keep_node(&self, reference: &Reference, bytes: &[u8]) {
        if let Some(ssd) = self.ssd.keeping(PieceKind::Fmd) {
            let piece = ssd.chunk(PieceKind::Fmd, reference, self.sequence_of(reference));
            ssd.put(&piece, bytes).await;
        }
    }

    /// The piece of a chunk on the SSD. It must be taken before the chunk is read: if another container takes the place
    /// meanwhile, its chunks have other keys.
    pub(crate) fn piece(&self, ssd: &Ssd, reference: &Reference) -> Piece {
        ssd.chunk(PieceKind::Data, reference, self.sequence_of(reference))
    }

    /// Reads the chunks that are on the SSD or in RAM.
    pub(crate) async fn read_from_ssd(
        &self,
        ssd: &Ssd,
        references: &[Reference],
        pieces: &[Piece],
    ) -> Vec<Option<Bytes>> {
        let reads = references.iter().zip(pieces).map(|(reference, piece)| async move {
            match self.cached_region(reference.place).filter(|_| self.settings.places) {
                Some(region) => {
                    let chunk = region.chunk(reference.place.number, &reference.fingerprint)?;
                    // The chunk will not stay in RAM for long.
                    ssd.put(piece, &chunk).await;
                    Some(chunk)
                }
                None => ssd.get(piece).await,
            }
        });
        join_all(reads).await
    }

    /// Caches a chunk on the SSD that was read from the disk. While the SSD is cold, also caches the other chunks of
    /// its region.
    pub(crate) async fn keep_chunk(&self, ssd: &Ssd, piece: &Piece, reference: &Reference, chunk: &Bytes) {
        ssd.put(piece, chunk).await;
        if !ssd.is_cold() {
            return;
        }
        let Some(region) = self.cached_region(reference.place) else { return };
        for (number, fingerprint, chunk) in region.chunks() {
            let beside = Reference { fingerprint, place: Place { number, ..reference.place } };
            ssd.put(&ssd.chunk(PieceKind::Data, &beside, region.head.sequence), &chunk).await;
        }
    }

    /// Caches chunks on the SSD that were written at random.
    pub(crate) async fn keep_written(&self, references: &[Reference], source: &Bytes, pieces: &Cuts) {
        let Some(ssd) = self.ssd.keeping(PieceKind::Data) else { return };
        for (reference, (_, range)) in references.iter().zip(pieces) {
            let piece = ssd.chunk(PieceKind::Data, reference, self.sequence_of(reference));
            ssd.put(&piece, &source[range.clone()]).await;
        }
    }
}

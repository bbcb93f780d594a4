//! Objects of chunks: what was written, over what the chunk had before.

use super::{Sealed, State, Volume};
use crate::error::S3Error;
use crate::format::{Id, data_name};
use crate::overlay::{all_of, fill_from};
use crate::store::Store;
use bytes::{Bytes, BytesMut};
use nitro_port::Clock;
use nitro_port::buf::is_zero;
use std::ops::Range;
use std::time::Duration;

/// Pause after an object that could not be made.
const AGAIN: Duration = Duration::from_secs(1);

/// What an object is to be made of, at the moment when it was sealed.
pub(super) struct Making {
    id: Id,
    /// The chunk as it was written at once; or it is assembled in `content`.
    whole: Option<Bytes>,
    content: BytesMut,
    missing: Vec<Range<u32>>,
    /// The object that has what is missing, up to a length.
    base: Id,
    base_len: u32,
}

impl<S: Store, C: Clock> Volume<S, C> {
    /// Takes what was written to a chunk, to make an object of it.
    pub(super) fn seal(&self, state: &mut State, index: u64) -> Making {
        let id = Id { generation: state.generation + 1, nonce: self.store.random() };
        let base = state.object(index);
        let len = self.chunk_len(state, index);
        let base_len = state.short.filter(|(short, _)| *short == index).map_or(len, |(_, len)| len);
        let whole = state.chunks.get(&index).and_then(|chunk| chunk.active.as_written());
        let whole = whole.filter(|whole| whole.len() == len as usize);
        let (content, missing) = match &whole {
            Some(_) => (BytesMut::new(), Vec::new()),
            None => (BytesMut::zeroed(len as usize), all_of(0..len)),
        };
        let mut making = Making { id, whole, content, missing, base, base_len };
        state.unqueue(index);
        if let Some(chunk) = state.chunks.get_mut(&index) {
            let overlay = std::mem::take(&mut chunk.active);
            if making.whole.is_none() {
                overlay.copy_to(0, &mut making.content, &mut making.missing);
            }
            state.sealed.insert((chunk.oldest, index));
            // Its memory is in use until the object is put.
            state.cost += overlay.cost();
            chunk.sealed = Some(Sealed { overlay, oldest: chunk.oldest, id, is_void: false });
        }
        making
    }

    /// Makes the object.
    pub(super) async fn put(&self, index: u64, making: Making) {
        let id = making.id;
        let put = self.put_object(index, making).await;
        if put.is_err() {
            // It is tried again at once, if a FLUSH waits for it.
            self.store.pause(AGAIN).await;
        }
        self.end_put(index, id, put);
        self.changed();
    }

    async fn put_object(&self, index: u64, mut making: Making) -> Result<Id, S3Error> {
        // What the base does not have is zero.
        making.missing.retain(|range| range.start < making.base_len);
        making.missing.iter_mut().for_each(|range| range.end = range.end.min(making.base_len));
        if let (Some(first), Some(last)) = (making.missing.first(), making.missing.last())
            && !making.base.is_hole()
        {
            let range = first.start..last.end;
            let base = self.fetch(index, making.base, range.clone()).await?;
            let base = base.ok_or_else(|| S3Error::Missing(data_name(index, making.base)))?;
            fill_from(&base, range.start, 0, &mut making.content, &making.missing);
        }
        let content = making.whole.unwrap_or_else(|| making.content.freeze());
        if is_zero(&content) {
            return Ok(Id::HOLE);
        }
        self.store.put(&data_name(index, making.id), content).await?;
        Ok(making.id)
    }

    fn end_put(&self, index: u64, id: Id, put: Result<Id, S3Error>) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.unqueue(index);
        let Some(sealed) = state.chunks.get_mut(&index).and_then(|chunk| chunk.sealed.take()) else { return };
        state.sealed.remove(&(sealed.oldest, index));
        state.cost -= sealed.overlay.cost();
        match put {
            _ if sealed.is_void => state.garbage.add_data(index, id),
            Ok(object) => {
                if let Some(replaced) = state.pending.get(index) {
                    state.garbage.add_data(index, replaced);
                }
                state.pending.set(index, 1, object);
            }
            Err(error) => {
                state.failures += 1;
                state.failure = Some(error);
                if let Some(chunk) = state.chunks.get_mut(&index) {
                    chunk.active.add_older(sealed.overlay);
                    chunk.oldest = sealed.oldest;
                }
            }
        }
        state.requeue(index);
    }
}

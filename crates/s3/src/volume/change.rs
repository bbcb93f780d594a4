//! Changes: data and zeroes go to RAM, whole chunks of zeroes into the map.

use super::{State, Volume};
use crate::error::S3Error;
use crate::format::Id;
use crate::overlay::Overlay;
use crate::store::Store;
use bytes::Bytes;
use nitro_port::Clock;

/// The parts of a range, by chunk: the chunk, where the part begins in it, its length, and where it begins in the range.
pub(super) fn parts(chunk_bytes: u32, offset: u64, len: u64) -> impl Iterator<Item = (u64, u32, u32, usize)> {
    let (size, end) = (u64::from(chunk_bytes), offset + len);
    (offset / size..end.div_ceil(size)).map(move |chunk| {
        let (from, to) = (offset.max(chunk * size), end.min((chunk + 1) * size));
        (chunk, (from - chunk * size) as u32, (to - from) as u32, (from - offset) as usize)
    })
}

impl<S: Store, C: Clock> Volume<S, C> {
    /// Writes data. They are in RAM until a [`flush`](Self::flush).
    ///
    /// # Errors
    /// Another server has taken the volume over; or there is no room in RAM, as the store refuses what is there.
    pub async fn write(&self, offset: u64, data: Bytes) -> Result<(), S3Error> {
        for (chunk, at, len, from) in parts(self.header().chunk_bytes, offset, data.len() as u64) {
            let part = data.slice(from..from + len as usize);
            let is_whole = len == self.header().chunk_len(chunk) && self.state.borrow().short.is_none();
            let change = |overlay: &mut Overlay| match is_whole {
                // A part of a larger buffer would keep all of it.
                true if part.len() < data.len() => overlay.write_whole(Bytes::copy_from_slice(&part)),
                true => overlay.write_whole(part),
                false => overlay.write(at, &part),
            };
            self.change(chunk, at, len, change).await?;
        }
        Ok(())
    }

    /// Makes a range read as zeroes. What is a whole chunk of it needs no requests.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn zero(&self, offset: u64, len: u64) -> Result<(), S3Error> {
        let (size, end) = (u64::from(self.header().chunk_bytes), offset + len);
        let first = offset.div_ceil(size);
        // The last chunk may be shorter.
        let behind = if end == self.header().size_bytes { self.header().chunks() } else { end / size };
        if first >= behind {
            return self.zero_parts(offset, len).await;
        }
        self.zero_parts(offset, first * size - offset).await?;
        self.unmap(first, behind - first)?;
        let rest = (behind * size).min(end);
        self.zero_parts(rest, end - rest).await
    }

    /// Tells that the content of a range is not needed: whole chunks of it become holes.
    ///
    /// # Errors
    /// Another server has taken the volume over.
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), S3Error> {
        let (size, end) = (u64::from(self.header().chunk_bytes), offset + len);
        let first = offset.div_ceil(size);
        let behind = if end == self.header().size_bytes { self.header().chunks() } else { end / size };
        if first < behind { self.unmap(first, behind - first) } else { Ok(()) }
    }

    async fn zero_parts(&self, offset: u64, len: u64) -> Result<(), S3Error> {
        if len == 0 {
            return Ok(());
        }
        for (chunk, at, len, _) in parts(self.header().chunk_bytes, offset, len) {
            let is_hole = {
                let state = self.state.borrow();
                !state.chunks.contains_key(&chunk) && state.object(chunk).is_hole()
            };
            if !is_hole {
                self.change(chunk, at, len, |overlay| overlay.zero(at, len)).await?;
            }
        }
        Ok(())
    }

    /// Changes a chunk in RAM, when there is room.
    pub(super) async fn change(
        &self,
        chunk: u64,
        at: u32,
        len: u32,
        change: impl FnOnce(&mut Overlay),
    ) -> Result<(), S3Error> {
        let (need, failures) = (Overlay::cost_max(at, len), self.state.borrow().failures);
        let room = |state: &mut State| {
            let has_room = state.cost == 0 || state.cost + need <= self.options.buffer_bytes;
            match (&state.fenced, &state.failure) {
                (Some(fenced), _) => Some(Err(fenced.clone())),
                (None, _) if has_room => Some(Ok(())),
                (None, Some(failure)) if state.failures != failures => Some(Err(failure.clone())),
                _ => {
                    // Once: the runner may be a part of the task that waits.
                    if !std::mem::replace(&mut state.is_full, true) {
                        self.wake_runner();
                    }
                    None
                }
            }
        };
        self.until(room).await?;
        let mut state = self.state.borrow_mut();
        let number = self.number(&mut state);
        state.unqueue(chunk);
        let changed = state.chunks.entry(chunk).or_default();
        if changed.active.is_empty() {
            changed.oldest = number;
        }
        change(&mut changed.active);
        state.requeue(chunk);
        drop(state);
        self.wake_runner();
        Ok(())
    }

    /// Numbers a change.
    fn number(&self, state: &mut State) -> u64 {
        state.newest_ns = (self.options.now_ns)().max(state.changed_ns + 1);
        state.last += 1;
        state.last
    }

    /// Makes whole chunks holes.
    fn unmap(&self, first: u64, count: u64) -> Result<(), S3Error> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if let Some(fenced) = &state.fenced {
            return Err(fenced.clone());
        }
        self.number(state);
        let changed: Vec<u64> = state.chunks.range(first..first + count).map(|(chunk, _)| *chunk).collect();
        for index in changed {
            state.unqueue(index);
            if let Some(chunk) = state.chunks.get_mut(&index) {
                chunk.active = Overlay::default();
                if let Some(sealed) = &mut chunk.sealed {
                    sealed.is_void = true;
                }
            }
            state.requeue(index);
        }
        let replaced: Vec<_> = state.pending.within(first, count).collect();
        replaced.into_iter().for_each(|(chunk, id)| state.garbage.add_data(chunk, id));
        state.pending.set(first, count, Id::HOLE);
        self.changed();
        Ok(())
    }

    /// Makes all changes durable that have returned.
    ///
    /// # Errors
    /// Another server has taken the volume over, or the store refuses: then the changes stay in RAM, and the next one tries again.
    pub async fn flush(&self) -> Result<(), S3Error> {
        let (wanted, failures) = {
            let mut state = self.state.borrow_mut();
            state.wanted = state.wanted.max(state.last);
            (state.last, state.failures)
        };
        self.wake_runner();
        self.until(|state| match (&state.fenced, &state.failure) {
            (Some(fenced), _) => Some(Err(fenced.clone())),
            (None, _) if state.durable >= wanted => Some(Ok(())),
            (None, Some(failure)) if state.failures != failures => Some(Err(failure.clone())),
            _ => None,
        })
        .await
    }
}

//! Reads: what is in RAM, over the object of the chunk.

use super::Volume;
use super::change::parts;
use crate::error::S3Error;
use crate::format::{Id, data_name};
use crate::overlay::{all_of, fill_from};
use crate::store::Store;
use bytes::Bytes;
use futures_util::future::{FutureExt as _, LocalBoxFuture, Shared, WeakShared, try_join_all};
use nitro_log::FormatError;
use nitro_port::buf::BufMut;
use nitro_port::{Allocation, Clock};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// The most runs of an allocation map: what is beyond them counts as allocated.
const RUNS_MAX: usize = 1 << 20;
/// With so many fetches noted, those that have ended are forgotten.
const FETCHES_MAX: usize = 256;

type Fetched = Result<Option<Bytes>, S3Error>;
/// Fetches under way, by chunk, object and range.
pub(super) type Fetches = RefCell<HashMap<(u64, Id, u32, u32), WeakShared<LocalBoxFuture<'static, Fetched>>>>;

impl<S: Store, C: Clock> Volume<S, C> {
    /// Reads.
    ///
    /// # Errors
    /// The store refuses, or an object is missing.
    pub async fn read(&self, offset: u64, len: usize) -> Result<Bytes, S3Error> {
        let mut all = parts(self.header().chunk_bytes, offset, len as u64);
        if let (Some((chunk, at, part_len, _)), true) = (all.next(), len as u64 <= u64::from(self.header().chunk_bytes))
            && part_len as usize == len
        {
            return self.read_part(chunk, at, part_len).await;
        }
        let parts: Vec<_> = parts(self.header().chunk_bytes, offset, len as u64).collect();
        let read = parts.iter().map(|(chunk, at, len, _)| self.read_part(*chunk, *at, *len));
        let mut whole = BufMut::with_len(len);
        for (data, (.., from)) in try_join_all(read).await?.into_iter().zip(&parts) {
            whole[*from..from + data.len()].copy_from_slice(&data);
        }
        Ok(whole.freeze())
    }

    /// Reads a part of a chunk.
    async fn read_part(&self, chunk: u64, at: u32, len: u32) -> Result<Bytes, S3Error> {
        loop {
            let (mut out, mut missing) = (None, all_of(at..at + len));
            let base = {
                let state = self.state.borrow();
                if let Some(fenced) = &state.fenced {
                    return Err(fenced.clone());
                }
                if let Some(changed) = state.chunks.get(&chunk) {
                    let out = out.insert(BufMut::zeroed(len as usize));
                    changed.active.copy_to(at, out, &mut missing);
                    if let Some(sealed) = changed.sealed.as_ref().filter(|sealed| !sealed.is_void) {
                        sealed.overlay.copy_to(at, out, &mut missing);
                    }
                }
                state.object(chunk)
            };
            let range = match (missing.first(), missing.last()) {
                (Some(first), Some(last)) if !base.is_hole() => first.start..last.end,
                _ => return Ok(out.unwrap_or_else(|| BufMut::zeroed(len as usize)).freeze()),
            };
            let Some(data) = self.fetch(chunk, base, range.clone()).await? else {
                // It may have been replaced, and deleted, in the meantime.
                if self.state.borrow().object(chunk) == base {
                    return Err(S3Error::Missing(data_name(chunk, base)));
                }
                continue;
            };
            let Some(mut out) = out else { return Ok(data) };
            fill_from(&data, range.start, at, &mut out, &missing);
            return Ok(out.freeze());
        }
    }

    /// A part of an object; `None`: it is not there. Fetches of the same part at the same time are one.
    pub(super) async fn fetch(&self, chunk: u64, id: Id, range: Range<u32>) -> Fetched {
        let key = (chunk, id, range.start, range.end);
        let under_way = self.fetches.borrow().get(&key).and_then(WeakShared::upgrade);
        let fetch = under_way.unwrap_or_else(|| {
            let store = Rc::clone(&self.store);
            let fetch: LocalBoxFuture<'static, Fetched> = Box::pin(async move {
                let name = data_name(chunk, id);
                let Some(data) = store.get(&name, range.start.into()..range.end.into()).await? else { return Ok(None) };
                let (have, need) = (data.len(), (range.end - range.start) as usize);
                if have != need {
                    let why = FormatError::Short { structure: "data", have, need };
                    return Err(S3Error::Format { name, why });
                }
                Ok(Some(data))
            });
            let fetch: Shared<_> = fetch.shared();
            let mut fetches = self.fetches.borrow_mut();
            if fetches.len() >= FETCHES_MAX {
                fetches.retain(|_, fetch| fetch.upgrade().is_some());
            }
            if let Some(weak) = fetch.downgrade() {
                fetches.insert(key, weak);
            }
            fetch
        });
        let fetched = fetch.await;
        self.fetches.borrow_mut().remove(&key);
        fetched
    }

    /// The allocation map of a range.
    pub fn allocation(&self, offset: u64, len: u64) -> Vec<Allocation> {
        let state = self.state.borrow();
        let mut map: Vec<Allocation> = Vec::new();
        let mut left = len;
        for (chunk, _, part_len, _) in parts(self.header().chunk_bytes, offset, len) {
            let hole = !state.chunks.contains_key(&chunk) && state.object(chunk).is_hole();
            left -= u64::from(part_len);
            let is_full = map.len() == RUNS_MAX;
            match map.last_mut() {
                Some(last) if last.hole == hole => last.len += u64::from(part_len),
                _ if is_full => {
                    map.push(Allocation { len: u64::from(part_len) + left, hole: false });
                    break;
                }
                _ => map.push(Allocation { len: part_len.into(), hole }),
            }
        }
        map
    }
}

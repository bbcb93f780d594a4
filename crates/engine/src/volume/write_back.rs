//! Writes in write-back: acknowledged when the cache has them in RAM (paper §3).

use super::Volume;
use super::context::RequestContext;
use super::flights::{Touches, Writing};
use super::read::Entrance;
use super::room::Admitted;
use crate::error::Error;
use crate::format::write_log::Entry;
use crate::insert::Content;
use crate::kept::{Kept, settle};
use crate::write_log::Logged;
use bytes::Bytes;
use nitro_cache::Location;
use nitro_port::buf::BufMut;
use nitro_port::{Clock, Device, Origin, Urgency};
use nitro_units::{ExtentIndex, ExtentRange};
use std::sync::atomic::Ordering;

/// The data of a write, and its first byte in the volume.
pub(super) struct Written {
    pub(super) offset: u64,
    pub(super) data: Bytes,
}

/// Why a volume refuses writes at the end of a server.
const CLOSED: &str = "the cache is being closed";

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Returns `false` if other volumes whose destage fails use all the room for dirty data; a part of the write may be
    /// buffered.
    pub(super) async fn write_back(
        &self,
        offset: u64,
        mut data: Bytes,
        fua: bool,
        context: &RequestContext,
    ) -> Result<bool, Error> {
        let mut extents = self.extents(offset, data.len() as u64);
        self.may_be_dirty.store(true, Ordering::SeqCst);
        let writing = self.flights.begin_write(extents, Touches::Buffer, context, |_, _| {}).await;
        let mut logged = true;
        while !extents.is_empty() {
            let Some(admitted) = self.admit_dirty(extents.count(), context).await? else {
                return Ok(false);
            };
            let part = ExtentRange::from(extents.start, admitted.extents);
            extents.start = part.end;
            let data = if extents.is_empty() { std::mem::take(&mut data) } else { data.clone() };
            logged &= self.buffer(&writing, part, Written { offset, data }, admitted, context).await?;
        }
        drop(writing);
        if fua && !logged {
            Box::pin(self.flush_buffered()).await?;
        }
        Ok(true)
    }

    /// Buffers a part of a write. Returns whether the write log has it.
    async fn buffer(
        &self,
        writing: &Writing,
        extents: ExtentRange,
        Written { offset, data }: Written,
        mut admitted: Admitted<'_, F, C>,
        context: &RequestContext,
    ) -> Result<bool, Error> {
        let mut contents = Vec::new();
        for index in extents.iter() {
            contents.push((index, self.new_content(index, offset, &data).await?));
        }
        let len = data.len() as u64;
        drop(data);
        let held = settle(contents.iter_mut().map(|(_, kept)| kept));
        let Some(room) = self.cache.dirty_queue.admit_wait(held).await else { return Err(self.poison(&CLOSED)) };
        // After the last wait: a write that was given up must not appear later.
        context.check(offset, len)?;
        let tokens = writing.replace(contents.iter().cloned());
        if let Some(on) = self.points() {
            on.written(extents, self.cache.clock.now());
        }
        self.forget_ram(extents);
        for ((index, kept), token) in contents.iter().cloned().zip(tokens.iter().cloned()) {
            let from = context.provenance();
            let job = self.job(index, Content::Whole(kept, None), token, Entrance { from, room: &room });
            if let Err(job) = self.cache.dirty_queue.push(job) {
                self.flights.settle(index, &job.token);
                return Err(self.poison(&CLOSED));
            }
            admitted.take();
        }
        let entries = contents.into_iter().zip(tokens).map(|((index, kept), token)| {
            let entry = Entry::Content { key: self.key(index), bytes: kept.bytes().clone() };
            Logged { entry, token: Some(token) }
        });
        // Under the same guard: the log has the writes of an extent in their order.
        self.cache.append_to_log(entries).await
    }

    /// An extent's whole content once `data` is written.
    async fn new_content(&self, index: ExtentIndex, offset: u64, data: &Bytes) -> Result<Kept, Error> {
        let extent_bytes = self.extent_bytes();
        let start = index.offset(extent_bytes);
        let (from, to) = (offset.max(start), (offset + data.len() as u64).min(start + extent_bytes));
        let part = data.slice((from - offset) as usize..(to - offset) as usize);
        if part.len() as u64 == extent_bytes {
            return Ok(Kept::part(part, data.len() as u64, &self.cache.zero_extent));
        }
        if from == start && to == self.size_bytes() {
            return Ok(Kept::own(self.padded(&part)));
        }
        let mut merged = BufMut::copy_of(&Box::pin(self.present_content(index)).await?);
        let at = (from - start) as usize;
        merged[at..at + part.len()].copy_from_slice(&part);
        Ok(Kept::own(merged.freeze()))
    }

    /// An extent's content now, while no client writes to it.
    pub(super) async fn present_content(&self, index: ExtentIndex) -> Result<Bytes, Error> {
        let key = self.key(index);
        let mut tried: Option<Location> = None;
        loop {
            if let Some(kept) = self.flights.pending(index) {
                return Ok(kept.bytes().clone());
            }
            let ram = self.cache.ram.lock().peek(&key).cloned();
            if let Some(bytes) = ram {
                return Ok(bytes);
            }
            let (location, dirty) = {
                let manager = self.cache.manager.lock();
                (manager.peek(key), manager.is_dirty(key))
            };
            match location {
                Some(location) if tried != Some(location) => {
                    tried = Some(location);
                    if let Some(bytes) = self.cache.fetch(&[(key, location)], Urgency::Normal).await.pop().flatten() {
                        return Ok(bytes);
                    }
                }
                _ if dirty => return Err(self.lost(index)),
                _ => {
                    let extents = self.read_origin_extents(ExtentRange::one(index), Urgency::Normal).await?;
                    return Ok(extents.into_iter().next().unwrap_or_default());
                }
            }
        }
    }

    pub(super) fn lost(&self, index: ExtentIndex) -> Error {
        let extent_bytes = self.extent_bytes();
        Error::Lost { offset: index.offset(extent_bytes), len: extent_bytes }
    }

    /// Makes durable what has been acknowledged in write-back.
    pub(super) async fn flush_buffered(&self) -> Result<(), Error> {
        let losses = self.cache.losses(self.object());
        self.flights.visible_ended().await;
        if self.cache.is_logged() {
            if let Some(reason) = self.cache.ledger.failed() {
                return Err(self.poison(&Error::Poisoned { reason }));
            }
        } else {
            self.cache.dirty_queue.caught_up().await;
            self.cache.commit().await.map_err(|error| self.poison(&error))?;
        }
        self.cache.report_losses(self.object(), losses)
    }
}

//! Generations of the manifest.

use super::Volume;
use crate::error::S3Error;
use crate::format::{Header, Id, Manifest, RUNS_MAX, Snapshot, manifest_name, segment_name};
use crate::map::parts;
use crate::patient::Claim;
use crate::runs::Runs;
use crate::store::Store;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use nitro_port::Clock;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Segments that are put at once.
const SEGMENTS_AT_ONCE: usize = 4;
/// Pause after a generation that the store refused.
const AGAIN: Duration = Duration::from_secs(1);

/// The next generation, as it is put.
struct Next {
    generation: u64,
    segments: Vec<Id>,
    since: Runs,
    header: Header,
    snapshots: Vec<Snapshot>,
}

impl<S: Store, C: Clock> Volume<S, C> {
    /// Writes the next generation, with these changes: all up to number `covered`, the last one at this time. Once it may have been
    /// written, nothing else is written instead: it is tried until it is known who wrote that generation.
    pub(super) async fn commit(&self, changes: Runs, covered: u64, changed_ns: u64) {
        let (asked, opened, notes, noted) = {
            let mut state = self.state.borrow_mut();
            (std::mem::take(&mut state.asked), state.opened, state.notes.clone(), state.noted)
        };
        let (header, snapshots) = loop {
            match self.carry_out(&asked).await {
                Ok(done) => break done,
                Err(error) => self.refused(error).await,
            }
        };
        let mut next = loop {
            match self.next_generation(&changes).await {
                Ok(next) => break next,
                Err(error) => self.refused(error).await,
            }
        };
        next.segments.resize(header.segments() as usize, Id::HOLE);
        (next.header, next.snapshots) = (header, snapshots);
        let manifest = Manifest {
            uuid: self.original.uuid,
            generation: next.generation,
            nonce: self.store.random(),
            opened,
            changed_ns,
            segments: next.segments.clone(),
            runs: next.since.iter().collect(),
            notes,
            grown_bytes: self.grown_bytes(&next.header),
            snapshots: next.snapshots.clone(),
        };
        let (name, bytes) = (manifest_name(next.generation), Bytes::from(manifest.encode()));
        let claim = loop {
            match self.store.claim(&name, bytes.clone()).await {
                Ok(claim) => break claim,
                Err(error) => self.refused(error.into()).await,
            }
        };
        match claim {
            Claim::Ours => {
                self.committed(next, &changes, covered, changed_ns);
                self.state.borrow_mut().durably_noted = noted;
            }
            Claim::Others => {
                let error = S3Error::Fenced { generation: next.generation };
                tracing::error!("{}: {error}: this server writes nothing to it any more", self.store.label());
                self.state.borrow_mut().fenced = Some(error);
            }
        }
        self.is_committing.set(false);
        self.changed();
    }

    /// Tells those who wait that the store refuses a generation, and pauses.
    async fn refused(&self, error: S3Error) {
        {
            let mut state = self.state.borrow_mut();
            state.failures += 1;
            state.failure = Some(error);
        }
        self.changed();
        self.store.pause(AGAIN).await;
    }

    /// Enters a generation that was written.
    fn committed(&self, next: Next, changes: &Runs, covered: u64, changed_ns: u64) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.committing = None;
        if next.header.size_bytes > self.header.get().size_bytes {
            state.map.grow(next.header);
            self.header.set(next.header);
            state.short = None;
        }
        // First: what has been replaced is kept for the new ones, too.
        let dropped = std::mem::replace(&mut state.snapshots, next.snapshots);
        let (snapshots, garbage) = (&state.snapshots, &mut state.garbage);
        for old in dropped.iter().filter(|old| snapshots.iter().all(|new| new.id != old.id)) {
            garbage.add_snapshot(old.id);
        }
        let is_kept = |id: Id| snapshots.iter().any(|snapshot| snapshot.generation >= id.generation);
        state.map.apply(changes, |chunk, id| {
            if !is_kept(id) {
                garbage.add_data(chunk, id);
            }
        });
        for (index, (new, old)) in next.segments.iter().zip(&state.segments).enumerate() {
            if new != old && !is_kept(*old) {
                garbage.add_segment(index as u64, *old);
            }
        }
        if state.generation != state.opened {
            garbage.add_manifest(state.generation);
        }
        (state.segments, state.since) = (next.segments, next.since);
        (state.generation, state.changed_ns) = (next.generation, changed_ns);
        state.durable = state.durable.max(covered);
        self.changed_ns.store(changed_ns, Ordering::SeqCst);
        self.store.metrics.generations.add(1);
    }

    async fn next_generation(&self, changes: &Runs) -> Result<Next, S3Error> {
        let mut next = {
            let state = self.state.borrow();
            let mut since = state.since.clone();
            since.add(changes);
            let (header, snapshots) = (self.header.get(), state.snapshots.clone());
            Next { generation: state.generation + 1, segments: state.segments.clone(), since, header, snapshots }
        };
        if next.since.len() > self.options.runs_max.min(RUNS_MAX) {
            self.write_segments(&mut next, changes).await?;
        }
        Ok(next)
    }

    /// Writes the segments anew in which something has changed since they were written.
    async fn write_segments(&self, next: &mut Next, changes: &Runs) -> Result<(), S3Error> {
        let touched: BTreeSet<u64> = next.since.iter().flat_map(parts).map(|(segment, _)| segment).collect();
        let generation = next.generation;
        let written: Vec<(u64, Id)> = stream::iter(touched)
            .map(|index| async move {
                let segment = self.state.borrow().map.segment(index, changes);
                let Some(segment) = segment else { return Ok((index, Id::HOLE)) };
                let id = Id { generation, nonce: self.store.random() };
                self.store.put(&segment_name(index, id), segment.encode().into()).await?;
                Ok::<_, S3Error>((index, id))
            })
            .buffer_unordered(SEGMENTS_AT_ONCE)
            .try_collect()
            .await?;
        for (index, id) in written {
            if let Some(slot) = next.segments.get_mut(index as usize) {
                *slot = id;
            }
        }
        next.since = Runs::default();
        Ok(())
    }
}

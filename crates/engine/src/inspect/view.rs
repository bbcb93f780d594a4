//! The state of a device from superblock and journal, with which a restart would begin.

use super::log::{self, Log, Told};
use super::report::JournalReport;
use super::slots::Damage;
use super::slots::{Filling, Headers, Slots};
use crate::error::{Error, uuid_text};
use crate::flash::superblock_of;
use crate::format::weu::Entry;
use crate::recovery::{READS_AT_ONCE, State, sealed};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use nitro_port::Device;
use nitro_units::{Generation, WeuId};

/// An entry of a filling of a WEU.
pub(super) type Target = (WeuId, Generation, u16);

/// A device and the state in its journal.
pub(super) struct View<'a, F> {
    pub(super) slots: Slots<'a, F>,
    pub(super) journal: JournalReport,
    /// The state that was certainly durable, and the last batch if its data are there.
    pub(super) state: State,
    /// The last batch, if its data are incomplete: a restart ignores it.
    pub(super) unfinished: Option<State>,
    /// Versions below had been given before the journal's last but one batch.
    pub(super) horizon: u64,
}

fn replay(state: &mut State, told: Told) {
    state.written_in(told.start);
    told.records.into_iter().for_each(|record| state.apply(record));
}

impl<'a, F: Device> View<'a, F> {
    /// Reads superblock and journal. With `rescue`, batches behind a damaged one are also used, and so are the remains
    /// of a journal without a whole snapshot.
    pub(super) async fn open(flash: &'a F, rescue: bool) -> Result<Self, Error> {
        let superblock = superblock_of(flash).await?.0;
        let Log { report, mut batches, mut last, beyond, remains } = log::read(flash, &superblock).await;
        if rescue {
            batches.extend(remains);
            if let Some((durable, witness)) = beyond {
                batches.extend(last);
                batches.extend(durable);
                last = Some(witness);
            }
        }
        let mut state = State::default();
        batches.into_iter().for_each(|told| replay(&mut state, told));
        let (slots, horizon) = (Slots::new(flash, superblock), state.version);
        let mut view = Self { slots, journal: report, state, unfinished: None, horizon };
        if let Some(last) = last {
            let records = last.records.clone();
            let mut unfinished = State::default();
            replay(&mut unfinished, Told { start: last.start, records });
            view.unfinished = Some(unfinished);
            if view.is_whole().await {
                view.unfinished = None;
                replay(&mut view.state, last);
            }
        }
        view.journal.write_log = view.state.log.map(|position| uuid_text(&position.uuid));
        Ok(view)
    }

    /// Whether a start would accept the journal, and nothing of it is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.journal.unusable.is_none() && self.journal.lost_batches == 0
    }

    /// The position of an entry of a WEU: from its header, otherwise from the journal.
    pub(super) fn locate(&self, headers: &Headers, (weu, generation, number): Target) -> Option<(Filling, Entry)> {
        if weu.0 >= self.slots.count {
            return None;
        }
        if let Some((head, entries)) = headers.get(&weu).filter(|(head, _)| head.generation == generation) {
            let entry = entries.get(usize::from(number))?;
            return Some((Filling { weu, generation, start: head.start }, *entry));
        }
        let states = [Some(&self.state), self.unfinished.as_ref()];
        let found = states.into_iter().flatten().find_map(|s| s.unsealed.get(&(weu, generation))?.get(&number));
        found.map(|entry| (Filling { weu, generation, start: entry.start }, sealed(entry)))
    }

    /// An extent's bytes.
    pub(super) async fn fetch(&self, headers: &Headers, target: Target) -> Result<Bytes, Damage> {
        let (filling, entry) = self.locate(headers, target).ok_or(Damage::Nowhere)?;
        self.slots.content(&filling, &entry).await
    }

    /// Whether all dirty data of the last batch are on the device.
    async fn is_whole(&self) -> bool {
        let named: Vec<Target> =
            self.unfinished.iter().flat_map(State::dirty).filter_map(|(.., target)| target).collect();
        let headers = self.slots.headers(named.iter().map(|(weu, ..)| *weu).collect()).await;
        let fetches = named.into_iter().map(async |target| self.fetch(&headers, target).await.is_ok());
        stream::iter(fetches).buffer_unordered(READS_AT_ONCE).all(async |ok| ok).await
    }
}

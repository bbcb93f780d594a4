//! The part of a restart before requests are served.

use super::READS_AT_ONCE;
use super::load::Header;
use super::replay::{Newest, State, Unsealed};
use crate::cache::Cache;
use crate::doubts::{Before, Doubts};
use crate::error::Error;
use crate::flash::{Flash, superblock_of};
use crate::format::journal::Record;
use crate::format::stored::{Place, payload_range};
use crate::format::superblock::Superblock;
use crate::format::weu::{Entry, Head};
use crate::format::{FormatError, crc32c};
use crate::insert::{OpenWeu, stored_at};
use crate::journal::{Identity, Journal, Replay, VERSION_MAX};
use crate::settings::EngineSettings;
use crate::write_log::{LogDevice, MissingLog};
use futures_util::stream::{self, StreamExt};
use nitro_cache::RestoredEntry;
use nitro_port::{Clock, Device};
use nitro_units::{ExtentKey, Generation, WeuId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Versions skipped at a restart, for each start without records in the journal and for the last one with records: more
/// than a cache assigns between two commits to clean extents, which are not in the journal.
const VERSIONS_PER_START: u64 = 1 << 32;

/// What a restart found before serving began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// Dirty extents.
    pub dirty_extents: u64,
    /// Those of them whose content is lost.
    pub lost_extents: u64,
    /// Write-intent regions whose clean extents are not all trusted, because writes were in progress.
    pub open_regions: u64,
    /// All writes of the last start are there, flushed or not: in open regions, only the extents that were being
    /// written to are not trusted.
    pub outlived: bool,
    /// The last batch was written, but its data were not: it was never acknowledged as durable.
    pub unfinished_batch: bool,
    /// Dirty extents restored from the write log: they are not counted above.
    pub replayed_extents: u64,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Reads the superblock of a device.
    ///
    /// # Errors
    /// [`Error::Flash`]; [`Error::Format`]: there is no cache.
    pub async fn probe(flash: &F) -> Result<Superblock, Error> {
        Ok(superblock_of(flash).await?.0)
    }

    /// Starts an existing cache: dirty extents are restored when this returns; clean ones are restored while
    /// [`journal_worker`](Self::journal_worker) is polled. Extent size, WEU size and cache size of `settings` must be
    /// those that it was formatted with.
    ///
    /// # Errors
    /// [`Error::Flash`]; [`Error::Format`]: this is not a cache; [`Error::Damaged`]: its journal is damaged;
    /// [`Error::Setting`]: the settings are not those of the cache.
    pub async fn open(flash: F, clock: C, settings: EngineSettings) -> Result<(Arc<Self>, Recovered), Error> {
        Self::open_logged(flash, None, MissingLog::Refuse, clock, settings).await
    }

    /// As [`open`](Self::open), with a write log: a new one, or the one that the cache was used with. The contents of
    /// the latter are dirty data of the cache when this returns.
    ///
    /// # Errors
    /// As [`open`](Self::open). Unless `missing` says otherwise, [`Error::LogMissing`] where the cache was used with a
    /// log that is not given and may hold writes that are nowhere else, [`Error::LogForeign`] where the device has the
    /// log of another cache, [`Error::LogOutdated`] or [`Error::OlderThanLog`] where one of them is an older copy,
    /// [`Error::LogDamaged`]. [`Error::Log`] where it fails.
    pub async fn open_logged(
        flash: F,
        log: Option<LogDevice<F>>,
        missing: MissingLog,
        clock: C,
        settings: EngineSettings,
    ) -> Result<(Arc<Self>, Recovered), Error> {
        Box::pin(Self::open_devices(Flash::assemble(vec![flash]).await?, log, missing, clock, settings)).await
    }

    /// As [`open_logged`](Self::open_logged), on the devices of a cache; see [`Flash::assemble`]. What missing devices
    /// held is dropped. If it was dirty, the cache is opened only if `missing` allows its loss.
    ///
    /// # Errors
    /// As [`open_logged`](Self::open_logged); [`Error::DevicesMissing`].
    pub async fn open_devices(
        flash: Flash<F>,
        log: Option<LogDevice<F>>,
        missing: MissingLog,
        clock: C,
        settings: EngineSettings,
    ) -> Result<(Arc<Self>, Recovered), Error> {
        let mut superblock = flash.superblock().await?;
        let outlived = Doubts::outlived(settings.crash_memory, &superblock);
        let witnessed = Doubts::witnessed(settings.crash_memory.filter(|_| outlived));
        let replay = flash.read_journal(&superblock, witnessed.journal).await?;
        superblock.identity = settings.crash_memory.map_or_else(Default::default, |memory| memory.identity);
        let start = superblock.start.saturating_add(1).max(replay.next_start());
        superblock.start = start;
        superblock.fingerprints = superblock.fingerprints.or(settings.fingerprints());
        superblock.logged |= log.is_some();
        let mut cache = Self::new(flash, clock, settings, superblock)?;
        let mut recovered = Recovered { outlived, ..Recovered::default() };
        let (state, accepted) = cache.read_state(&replay, &mut recovered).await?;
        let verdict = cache.judge_log(state.log, log.as_ref(), missing, witnessed.log_end).await?;
        cache.judge_missing(&state, missing)?;
        cache.stamp_log(&verdict, log.as_ref()).await?;
        cache.write_superblock(&superblock).await?;
        let before = match outlived {
            true => Before::Outlived,
            false if state.regions.is_empty() => Before::Nothing,
            false => Before::Lost,
        };
        cache.doubts.begin(&superblock, before);
        let journal = replay.resume(accepted, Identity { epoch: superblock.epoch, start });
        cache.recover(state, journal, &mut recovered).await?;
        recovered.replayed_extents = cache.install_log(verdict, log).await?;
        Ok((Arc::new(cache), recovered))
    }

    /// The first version that this start assigns. Starts without records in the journal may have written headers, too:
    /// their versions are not used again.
    fn first_version(&self, state: &State) -> u64 {
        let starts = u64::from(self.start.saturating_sub(state.last_start()).max(1));
        state.version.saturating_add(starts.saturating_mul(VERSIONS_PER_START))
    }

    /// The state in the journal, and the number of its log batches that are used.
    async fn read_state(&self, replay: &Replay, recovered: &mut Recovered) -> Result<(State, usize), Error> {
        let mut state = State::default();
        let mut accepted = 0;
        for batch in replay.batches() {
            let is_log = !batch.is_snapshot();
            let records: Vec<Record> = batch.records().collect();
            let is_in_doubt = is_log && batch.is_last() && !replay.was_durable(batch);
            if is_in_doubt && !self.is_whole(&state, &records).await {
                recovered.unfinished_batch = true;
                break;
            }
            state.written_in(batch.start());
            records.into_iter().for_each(|record| state.apply(record));
            accepted += usize::from(is_log);
        }
        let first_version = self.first_version(&state);
        if first_version > VERSION_MAX - VERSIONS_PER_START {
            let (field, value) = ("version", state.version);
            return Err(Error::Format(FormatError::Field { structure: "journal record", field, value }));
        }
        Ok((state, accepted))
    }

    async fn recover(&self, mut state: State, journal: Journal, recovered: &mut Recovered) -> Result<(), Error> {
        let first_version = self.first_version(&state);
        {
            let mut manager = self.manager.lock();
            manager.begin_restore(first_version);
        }
        // Before all else that this start tells: what dirty WEUs hold of later versions was never committed.
        self.ledger.push(Record::NextVersion { version: state.version }).await;
        // And with it: what the next start has to leave behind, be there nothing else that this one commits.
        self.ledger.push(Record::NextVersion { version: first_version }).await;
        state.limits.insert(self.start, state.version);
        // First: contents are entered in the indexes by the domains of their volumes.
        self.volumes.restore(state.volumes.clone(), state.pins.clone());
        for (object, ranges) in &state.pins {
            self.manager.lock().restore_pins(*object, ranges.clone());
        }
        state.recorded = self.restore_dirty(&state, recovered).await?;
        // What was read may have been in the device's cache only, if but the process had crashed.
        self.flash.flush().await.map_err(Error::Flash)?;
        self.regions.restore(state.regions.iter().copied(), self.clock.now());
        recovered.open_regions = state.regions.len() as u64;
        self.last_beyond.get_or_init(|| state.last_beyond(self.superblock.weu_count));
        *self.recovery.lock() = Some(state);
        self.commits.begin(journal);
        Ok(())
    }

    /// Whether the data of a batch are on the SSD. Data that the batch itself makes outdated are ignored: their slot
    /// may have been reused.
    async fn is_whole(&self, before: &State, records: &[Record]) -> bool {
        let mut state = State::default();
        records.iter().cloned().for_each(|record| state.apply(record));
        // What was on a lost device says nothing: it is lost in any case, and the records of other extents may count.
        let targets = state.dirty().filter_map(|(_, _, target)| target).filter(|(weu, ..)| !self.flash.is_lost(*weu));
        let checks = targets.map(async |(weu, generation, entry)| {
            let journaled = |s: &State| s.unsealed.get(&(weu, generation)).and_then(|all| all.get(&entry)).copied();
            match journaled(&state).or_else(|| journaled(before)) {
                Some(entry) => self.is_intact(weu, generation, &entry).await,
                None => self.is_intact_by_header(weu, generation, entry).await,
            }
        });
        let mut checks = stream::iter(checks.collect::<Vec<_>>()).buffer_unordered(READS_AT_ONCE);
        while let Some(whole) = checks.next().await {
            if !whole {
                return false;
            }
        }
        true
    }

    async fn is_intact_by_header(&self, weu: WeuId, generation: Generation, entry: u16) -> bool {
        if weu.0 >= self.superblock.weu_count {
            return false;
        }
        let Some(header) = self.read_header(weu).await else { return false };
        let found = header.entries.get(usize::from(entry)).filter(|_| header.head.generation == generation);
        let Some(found) = found else { return false };
        self.is_intact(weu, generation, &unsealed(found, header.head.start)).await
    }

    /// Whether an extent's bytes match its checksum.
    async fn is_intact(&self, weu: WeuId, generation: Generation, entry: &Unsealed) -> bool {
        if entry.stored_bytes == 0 {
            return true;
        }
        let block = self.block_bytes();
        let from = entry.offset / block * block;
        let Some(end) = entry.offset.checked_add(entry.stored_bytes).filter(|e| *e <= self.superblock.weu_bytes) else {
            return false;
        };
        let len = (end.next_multiple_of(block) - from) as usize;
        if weu.0 >= self.superblock.weu_count {
            return false;
        }
        let Ok(bytes) = self.flash.read(self.slot_offset(weu) + u64::from(from), len).await else { return false };
        let bytes = &bytes[(entry.offset - from) as usize..(end - from) as usize];
        let Unsealed { start, offset, .. } = *entry;
        let place = Place { epoch: self.superblock.epoch, start, weu, generation, offset };
        if entry.raw { place.mix(crc32c(bytes)) == entry.checksum } else { payload_range(&place, bytes).is_some() }
    }

    /// Restores dirty extents, with the WEUs that they are in; returns the heads of those with records of duplicates.
    async fn restore_dirty(&self, state: &State, recovered: &mut Recovered) -> Result<Vec<Head>, Error> {
        let wanted: BTreeSet<(WeuId, Generation)> =
            state.dirty().filter_map(|(_, _, target)| target.map(|(weu, generation, _)| (weu, generation))).collect();
        let is_there = |weu: WeuId| weu.0 < self.superblock.weu_count && !self.flash.is_lost(weu);
        let known = wanted.into_iter().filter(|(weu, _)| is_there(*weu));
        let reads = known.map(async |(weu, generation)| (weu, generation, self.read_header(weu).await));
        let mut reads = stream::iter(reads.collect::<Vec<_>>()).buffer_unordered(READS_AT_ONCE);
        let mut restored: BTreeMap<WeuId, Generation> = BTreeMap::new();
        let mut recorded = Vec::new();
        while let Some((weu, generation, read)) = reads.next().await {
            let header = match read {
                Some(header) if header.head.generation == generation => header,
                _ => {
                    let Some(entries) = state.unsealed.get(&(weu, generation)) else { continue };
                    let Some(header) = self.seal_again(weu, generation, entries).await? else { continue };
                    header
                }
            };
            self.restore(state, &header);
            restored.insert(weu, generation);
            recorded.extend(Some(header.head).filter(|head| head.duplicates > 0));
        }
        drop(reads);
        let mut manager = self.manager.lock();
        for (key, version, target) in state.dirty() {
            let held = target.filter(|(weu, generation, _)| restored.get(weu) == Some(generation));
            manager.restore_dirty(key, version, held.map(|(weu, _, entry)| (weu, entry)), 0);
            recovered.dirty_extents += 1;
            recovered.lost_extents += u64::from(held.is_none());
        }
        Ok(recorded)
    }

    /// Enters a WEU with its entries.
    pub(super) fn restore(&self, state: &State, header: &Header) {
        let Head { weu, generation, start, .. } = header.head;
        self.set_start(weu, start);
        let limit = if header.head.dirty { state.limit(start) } else { u64::MAX };
        let numbered = header.entries.iter().enumerate();
        let entries: Vec<RestoredEntry> = numbered
            .map(|(number, entry)| {
                let newest = state.keys.get(&entry.key);
                let is_newest_dirty = newest
                    .is_some_and(|(version, newest)| *version == entry.version && matches!(newest, Newest::Dirty(..)));
                let (position, stored) = stored_at(entry, &self.place_at(weu, generation, entry.offset));
                RestoredEntry {
                    key: entry.key,
                    position,
                    stored,
                    fingerprint: entry.fingerprint.map(|plain| self.domain(entry.key.object()).within(&plain)),
                    class: entry.class,
                    version: entry.version,
                    void: entry.version >= limit
                        || state.is_void(weu, generation, number as u32, entry.key, entry.version)
                        || (state.is_dirty(entry.key) && !is_newest_dirty),
                    doubtful: !is_newest_dirty && (self.settings.distrust_clean || self.is_doubtful(state, entry.key)),
                }
            })
            .collect();
        self.manager.lock().restore_weu(weu, generation, &entries);
    }

    /// Whether the cached content of an extent may be older or newer than that in its origin.
    pub(super) fn is_doubtful(&self, state: &State, key: ExtentKey) -> bool {
        let region = key.index().0 * u64::from(self.settings.manager.extent_bytes) / crate::volume::REGION_BYTES;
        state.is_open(key.object(), region) && self.doubts.contain(key)
    }

    /// Completes a WEU that a crash had interrupted: writes its header from the records in the journal.
    async fn seal_again(
        &self,
        weu: WeuId,
        generation: Generation,
        known: &BTreeMap<u16, Unsealed>,
    ) -> Result<Option<Header>, Error> {
        let whole = known.iter().zip(0u16..).take_while(|((number, _), n)| *number == n);
        let entries: Vec<Entry> = whole.map(|((_, entry), _)| sealed(entry)).collect();
        let start = known.values().next().map_or(self.start, |entry| entry.start);
        let identity = Identity { start, ..self.identity() };
        let open = OpenWeu::new(weu, generation, self.superblock.weu_bytes, true);
        let Some((head, parts)) = open.header_again(entries.clone(), identity, self.block_bytes()) else {
            return Ok(None);
        };
        match self.write_parts(weu, parts).await {
            Err(error) if self.flash.give_up_device_of(weu, &error) => return Ok(None),
            written => written.map_err(Error::Flash)?,
        }
        Ok(Some(Header { head, entries }))
    }
}

fn unsealed(entry: &Entry, start: u32) -> Unsealed {
    let Entry { key, fingerprint, offset, stored_bytes, checksum, raw, class, version } = *entry;
    Unsealed { key, version, start, offset, stored_bytes, checksum, raw, class, fingerprint }
}

pub(crate) fn sealed(entry: &Unsealed) -> Entry {
    let Unsealed { key, version, offset, stored_bytes, checksum, raw, class, fingerprint, .. } = *entry;
    Entry { key, fingerprint, offset, stored_bytes, checksum, raw, class, version }
}

//! The receiver.

use super::refuse;
use crate::access::{Access, OF_THE_STORE};
use crate::chunks::fingerprint_of;
use crate::format::increment::content_of;
use crate::format::node::Entry;
use crate::format::record::Kind;
use crate::format::transfer::{List, Message, Offer};
use crate::object::Change;
use crate::place::Reference;
use crate::stream::{StreamImport, StreamPart};
use crate::{Error, Store, Volume};
use hashbrown::{HashMap, HashSet};
use nitro_port::range_lock::ALL;
use nitro_port::{Device, Work, WorkKind};
use nitro_units::Fingerprint;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

/// The maximum number of lists that wait for chunks.
const PENDING_MAX: usize = 16;

/// An object that is being received.
pub struct Receiving<D: Device> {
    store: Arc<Store<D>>,
    offer: Offer,
    target: Target<D>,
    /// The end of what was listed.
    listed: u64,
    /// The end of what the object has.
    applied: u64,
    pending: VecDeque<Pending>,
}

enum Target<D: Device> {
    Volume(Volume<D>),
    Stream(Box<StreamImport<D>>),
}

/// A list of which not all chunks are there yet.
struct Pending {
    list: List,
    /// Its chunks, each once.
    listed: HashSet<Fingerprint>,
    /// The chunks that the store has.
    found: HashMap<Fingerprint, Reference>,
    /// What keeps them.
    parts: Vec<StreamPart>,
    /// The numbers of the chunks that are to come.
    wanted: VecDeque<usize>,
}

impl<D: Device> Store<D> {
    /// Begins to receive an object, or continues to, if a transfer of the same content to this name was cut off. It is created by
    /// [`finish`](Receiving::finish); before that, a volume is there as one whose import was interrupted.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Exists`], [`Error::Objects`], [`Error::Setting`] for the size of the chunks, or an error of the
    /// device.
    pub async fn receive(self: &Arc<Self>, name: &str, offer: &Offer, created: u64) -> Result<Receiving<D>, Error> {
        let chunk_bytes = u64::from(offer.chunk_bytes);
        let (target, at) = match offer.kind {
            Kind::Volume => {
                let shape = (Some(offer.chunk_bytes), offer.token());
                let (volume, at) = self.begin_import(name, offer.size_bytes, shape, created).await?;
                (Target::Volume(volume), at / chunk_bytes * chunk_bytes)
            }
            Kind::Stream => (Target::Stream(Box::new(self.import_stream(name, created).await?)), 0),
        };
        let store = Arc::clone(self);
        Ok(Receiving { store, offer: offer.clone(), target, listed: at, applied: at, pending: VecDeque::new() })
    }
}

impl<D: Device> Receiving<D> {
    /// The end of what the object has, in bytes.
    pub fn position(&self) -> u64 {
        self.applied
    }

    fn check_list(&self, list: &List) -> Result<(), Error> {
        let chunk_bytes = u64::from(self.offer.chunk_bytes);
        let end = list.end();
        let is_right = match self.offer.kind {
            Kind::Volume => {
                list.offset >= self.listed
                    && list.offset.is_multiple_of(chunk_bytes)
                    && list.chunks.iter().all(|chunk| chunk.bytes == self.offer.chunk_bytes)
                    && end <= self.offer.size_bytes.next_multiple_of(chunk_bytes)
            }
            Kind::Stream => {
                let is_chunk = |bytes: u32| bytes > 0 && bytes <= self.store.chunk_bytes_max();
                list.offset == self.listed
                    && list.chunks.iter().all(|chunk| chunk.fingerprint.is_some() && is_chunk(chunk.bytes))
                    && end <= self.offer.size_bytes
            }
        };
        match is_right && self.pending.len() < PENDING_MAX {
            true => Ok(()),
            false => refuse("the sender's list has chunks that cannot be those of the object"),
        }
    }

    /// Takes a list, and says which chunks of it are to be sent.
    ///
    /// # Errors
    /// [`Error::Transfer`] if it cannot be the next one, or an error of the device.
    pub async fn list(&mut self, list: List) -> Result<Vec<bool>, Error> {
        self.check_list(&list)?;
        self.store.check_poison()?;
        self.listed = list.end();
        let mut first: HashMap<Fingerprint, usize> = HashMap::new();
        for (number, chunk) in list.chunks.iter().enumerate() {
            if let Some(fingerprint) = chunk.fingerprint {
                first.entry(fingerprint).or_insert(number);
            }
        }
        let mut numbers: Vec<usize> = first.into_values().collect();
        numbers.sort_unstable();
        let (found, part) = self.find(&list, &numbers).await?;
        // What is listed before will be there before.
        let is_coming = |f: &Fingerprint| self.pending.iter().any(|pending| pending.listed.contains(f));
        let is_wanted = |number: &usize| {
            list.chunks[*number].fingerprint.is_some_and(|f| !found.contains_key(&f) && !is_coming(&f))
        };
        let wanted: VecDeque<usize> = numbers.into_iter().filter(is_wanted).collect();
        let mut lacks = vec![false; list.chunks.len()];
        wanted.iter().for_each(|number| lacks[*number] = true);
        let listed = list.chunks.iter().filter_map(|chunk| chunk.fingerprint).collect();
        self.pending.push_back(Pending { list, listed, found, parts: vec![part], wanted });
        self.apply().await?;
        Ok(lacks)
    }

    /// Finds the chunks of these numbers that the store has, and keeps them.
    async fn find(
        &self,
        list: &List,
        numbers: &[usize],
    ) -> Result<(HashMap<Fingerprint, Reference>, StreamPart), Error> {
        let store = &self.store;
        let fingerprints: Vec<Fingerprint> =
            numbers.iter().filter_map(|number| list.chunks[*number].fingerprint).collect();
        let _mutating = store.mutating.shared(ALL).await;
        let since = store.state.lock().slots.sequence();
        let places = match store.settings.compare_duplicates {
            // Only bytes can be compared.
            true => vec![None; fingerprints.len()],
            false => {
                let finding = pin!(store.find(&fingerprints, Access::Disk));
                Work::new(WorkKind::Ingest, OF_THE_STORE).scope(finding).await?
            }
        };
        let mut found = HashMap::new();
        let mut entries = Vec::new();
        for ((fingerprint, place), number) in fingerprints.into_iter().zip(places).zip(numbers) {
            if let Some(place) = place {
                let reference = Reference { fingerprint, place };
                found.insert(fingerprint, reference);
                entries.push(Entry { reference, bytes: list.chunks[*number].bytes.into() });
            }
        }
        Ok((found, store.keep_part(entries, since)))
    }

    /// Takes chunks, which are the next ones that are to come.
    ///
    /// # Errors
    /// [`Error::Transfer`] if they are others or damaged, [`Error::Full`], or an error of the device.
    pub async fn chunks(&mut self, chunks: &Message) -> Result<(), Error> {
        let Some(raw) = chunks.raw() else { return refuse("chunks that were sent are damaged") };
        let Some(pending) = self.pending.iter_mut().find(|pending| !pending.wanted.is_empty()) else {
            return refuse("the sender sends chunks that are there");
        };
        let (mut at, mut pieces) = (0, Vec::new());
        while at < raw.len() {
            let listed = pending.wanted.pop_front().map(|number| pending.list.chunks[number]);
            let Some((fingerprint, bytes)) = listed.and_then(|chunk| Some((chunk.fingerprint?, chunk.bytes))) else {
                return refuse("the sender sends more chunks than were listed");
            };
            let end = at + bytes as usize;
            let is_right = raw.get(at..end).is_some_and(|chunk| fingerprint_of(chunk) == fingerprint);
            if !is_right {
                return refuse("a chunk that was sent is not the one that was listed");
            }
            pieces.push((fingerprint, at..end));
            at = end;
        }
        let lane = match &self.target {
            Target::Volume(volume) => volume.object().id as usize,
            Target::Stream(_) => 0,
        };
        let part = self.store.store_known(lane, &raw, &pieces).await?;
        pending.found.extend(part.references().map(|reference| (reference.fingerprint, reference)));
        pending.parts.push(part);
        self.apply().await
    }

    /// Enters the lists in the object, in order, whose chunks are all there.
    async fn apply(&mut self) -> Result<(), Error> {
        while let Some(pending) = self.pending.pop_front_if(|pending| pending.wanted.is_empty()) {
            let end = pending.list.end();
            let reference = |fingerprint: Option<Fingerprint>| fingerprint.and_then(|f| pending.found.get(&f).copied());
            let entries: Vec<Option<Entry>> = pending
                .list
                .chunks
                .iter()
                .map(|chunk| {
                    reference(chunk.fingerprint).map(|reference| Entry { reference, bytes: chunk.bytes.into() })
                })
                .collect();
            let since = pending.parts.iter().map(StreamPart::since).min().unwrap_or(0);
            for later in &mut self.pending {
                let is_new = |entry: &Entry| {
                    let fingerprint = entry.reference.fingerprint;
                    later.listed.contains(&fingerprint) && !later.found.contains_key(&fingerprint)
                };
                let shared: Vec<Entry> = entries.iter().flatten().filter(|entry| is_new(entry)).copied().collect();
                later.found.extend(shared.iter().map(|entry| (entry.reference.fingerprint, entry.reference)));
                later.parts.push(self.store.keep_part(shared, since));
            }
            match &mut self.target {
                Target::Volume(volume) => {
                    let first = pending.list.offset / u64::from(self.offer.chunk_bytes);
                    volume.refer(first, &entries, since).await?;
                }
                Target::Stream(import) => {
                    let part = self.store.keep_part(entries.into_iter().flatten().collect(), since);
                    import.push(part).await?;
                }
            }
            self.applied = end;
        }
        Ok(())
    }

    /// Makes durable what was received, so that a transfer that is cut off continues from here.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub async fn keep(&self) -> Result<(), Error> {
        match &self.target {
            Target::Volume(volume) => self.store.note_import(volume, self.applied).await,
            // The chunks are found again.
            Target::Stream(_) => self.store.commit().await,
        }
    }

    /// Completes the object. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::Transfer`] if it is not what was offered; nothing is kept of it then. Or as [`Store::commit`].
    pub async fn finish(self) -> Result<(), Error> {
        if !self.pending.is_empty() {
            return refuse("the sender ended before all chunks were sent");
        }
        let Self { store, offer, target, .. } = self;
        match target {
            Target::Volume(volume) => {
                store.flush_tree(volume.object()).await?;
                if content_of(volume.object().state.lock().record.root) != offer.content {
                    store.abandon_import(&volume).await?;
                    return refuse("what was received is not what was offered");
                }
                store.finish_import(&volume).await
            }
            Target::Stream(import) => import.finish_as(Some((offer.size_bytes, offer.content))).await,
        }
    }
}

impl<D: Device> Volume<D> {
    /// Lets chunks from `first` on refer to contents that the store has, and that are kept meanwhile. What is `None` stays.
    async fn refer(&self, first: u64, entries: &[Option<Entry>], since: u64) -> Result<(), Error> {
        let store = self.store();
        store.begin_change(self.object()).await?;
        let at_once = store.ledger.bounds().changes_at_once();
        let changes = (first..).zip(entries).filter_map(|(index, entry)| entry.map(|entry| (index, entry.reference)));
        let changes: Vec<(u64, Reference)> = changes.collect();
        for some in changes.chunks(at_once) {
            // Before `mutating` is locked, because the task that makes room locks it as well.
            let permit = store.permit(some.len()).await?;
            let _mutating = store.mutating.shared(ALL).await;
            let change =
                |(index, reference): &(u64, Reference)| (*index, Change { reference: Some(*reference), since });
            self.change(some.iter().map(change), permit);
        }
        store.relieve_if_high().await
    }
}

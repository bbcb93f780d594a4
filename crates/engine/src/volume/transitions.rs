//! Transitions: changes of how a volume or a cache is used, while requests are served. Whenever the program is killed or the
//! power fails, the next start must believe no cached content that the origin has outgrown, and miss nothing that was
//! acknowledged. Therefore a transition changes a flag that requests go by only when certain facts are durable, which
//! say to the next start what the flag says to requests:
//!
//! | transition | flag that changes | what is durable before | until then, and after a crash |
//! |---|---|---|---|
//! | to write-back | [`WritesBack`](Flag::WritesBack) | nothing: each dirty extent has its own records | writes go to the origin |
//! | to write-through | [`WritesThrough`](Flag::WritesThrough) | nothing: a write destages its own extents first | writes are buffered |
//! | | [`ModeReached`](Flag::ModeReached) | [`Destaged`](Fact::Destaged), once the writes that began in write-back have ended | the volume has dirty data, which the next start finds |
//! | detach | [`Bypassed`](Flag::Bypassed) | nothing: writes still open write-intent regions | contents are cached |
//! | | [`Detached`](Flag::Detached) | [`WholeOpen`](Fact::WholeOpen), [`ContentsVoid`](Fact::ContentsVoid) | writes open regions; the next start serves the volume attached, with what it has not forgotten |
//! | attach | [`Attached`](Flag::Attached) | nothing: the whole volume stays open until its origin was flushed | nothing is cached |
//! | growth of a volume | [`VolumeSize`](Flag::VolumeSize) | [`ContentsVoid`](Fact::ContentsVoid) of the extent at the end, then [`Registered`](Fact::Registered) | the volume has its former size; no write to that extent is under way |
//! | removal of a volume | [`Bypassed`](Flag::Bypassed) | nothing: no requests are in progress | contents are cached |
//! | | [`NumberFree`](Flag::NumberFree) | [`ContentsVoid`](Fact::ContentsVoid), [`Registered`](Fact::Registered) | no other volume gets its number |
//! | larger cache | [`SlotsUsed`](Flag::SlotsUsed) | [`SlotsEmpty`](Fact::SlotsEmpty), then [`Superblock`](Fact::Superblock) | the new slots are not used |
//! | smaller cache | [`SlotsGone`](Flag::SlotsGone) | [`SlotsEmpty`](Fact::SlotsEmpty), then [`Superblock`](Fact::Superblock) | the slots are part of the cache, and empty |
//!
//! Replacing the device of an origin is a part of the volume's growth; a reload of the configuration consists of these
//! transitions. Contents that are dropped because another program has changed an origin are dropped by the removal of
//! the volume. [`Passage`] checks in debug builds that every flag changes in the order of the table; the crash simulation
//! (`tests/crash`) kills the program in all of them.

use super::regions::WholeIntent;
use super::write::OriginWrite;
use super::{Volume, WriteMode};
use crate::cache::Cache;
use crate::error::Error;
use crate::volume::context::RequestContext;
use event_listener::Event;
use nitro_port::yielding::attempt_at;
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ExtentIndex, ExtentRange};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// What is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    /// All dirty data are in the origin, and the journal has records that they are clean.
    Destaged,
    /// The journal has a record that any extent of the volume may change at the origin.
    WholeOpen,
    /// The journal has records that the cached contents concerned are void.
    ContentsVoid,
    /// The registry in the journal has the new state of the volume.
    Registered,
    /// The slots concerned have nothing that could be taken for content.
    SlotsEmpty,
    /// The superblock has the new number of slots.
    Superblock,
}

/// What requests go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    /// Writes are buffered.
    WritesBack,
    /// Writes go to the origin.
    WritesThrough,
    /// The change to write-through has ended.
    ModeReached,
    /// Nothing more is cached, and nothing is read from the cache.
    Bypassed,
    /// Writes open no write-intent regions any more.
    Detached,
    /// The volume is cached.
    Attached,
    /// The size of the volume.
    VolumeSize,
    /// The number of a removed volume may be given to another one.
    NumberFree,
    /// New slots are filled.
    SlotsUsed,
    /// Slots are not part of the cache any more.
    SlotsGone,
}

impl Flag {
    /// The facts that are durable before it changes, in this order: the last column but one of the table.
    const fn needs(self) -> &'static [Fact] {
        match self {
            Self::WritesBack | Self::WritesThrough | Self::Bypassed | Self::Attached => &[],
            Self::ModeReached => &[Fact::Destaged],
            Self::Detached => &[Fact::WholeOpen, Fact::ContentsVoid],
            Self::VolumeSize | Self::NumberFree => &[Fact::ContentsVoid, Fact::Registered],
            Self::SlotsUsed | Self::SlotsGone => &[Fact::SlotsEmpty, Fact::Superblock],
        }
    }
}

/// A transition in progress.
#[derive(Debug, Default)]
pub(crate) struct Passage {
    durable: Vec<Fact>,
}

impl Passage {
    /// Notes that something is durable.
    pub(crate) fn is_durable(&mut self, fact: Fact) {
        self.durable.push(fact);
    }

    /// Changes a flag.
    pub(crate) fn change<T>(&mut self, flag: Flag, change: impl FnOnce() -> T) -> T {
        debug_assert_eq!(self.durable, flag.needs(), "{flag:?} changes too early");
        change()
    }
}

/// Whether a volume is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Attachment {
    /// It is cached.
    Attached,
    /// It is not read from the cache, and nothing of it is cached any more. What was cached may still count at a restart.
    Bypassed,
    /// Nothing of it is cached, which is durable.
    Detached,
}

/// The [`Attachment`] of a volume, which all its requests go by.
#[derive(Debug)]
pub(super) struct Attached(AtomicU8);

impl Default for Attached {
    fn default() -> Self {
        Self(AtomicU8::new(Attachment::Attached as u8))
    }
}

impl Attached {
    pub(super) fn get(&self) -> Attachment {
        match self.0.load(Ordering::SeqCst) {
            0 => Attachment::Attached,
            1 => Attachment::Bypassed,
            _ => Attachment::Detached,
        }
    }

    fn set(&self, to: Attachment) {
        self.0.store(to as u8, Ordering::SeqCst);
    }
}

/// The writes in progress that began in write-back.
#[derive(Debug, Default)]
pub(super) struct Buffering {
    count: AtomicUsize,
    ended: Event,
}

/// A write in progress that began in write-back; it is counted while this exists.
pub(super) struct Buffered<'a>(&'a Buffering);

impl Buffering {
    /// Begins a write, if the mode is still write-back once it is counted.
    pub(super) fn begin(&self, is_write_back: impl FnOnce() -> bool) -> Option<Buffered<'_>> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let begun = Buffered(self);
        is_write_back().then_some(begun)
    }

    /// Waits until there is none. To be called once the mode is write-through.
    async fn ended(&self) {
        attempt_at(&self.ended, || (self.count.load(Ordering::SeqCst) == 0).then_some(())).await;
    }
}

impl Drop for Buffered<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.ended.notify(usize::MAX);
        }
    }
}

/// The volume's write-intent region for all of it, which a detached volume keeps open.
pub(super) type Whole<F, C> = Mutex<Option<WholeIntent<F, C>>>;

/// A volume that is about to become larger. Writes to the extent at its end wait while this exists.
pub struct Growing<'a, F: Device, O, C: Clock> {
    volume: &'a Volume<F, O, C>,
    size_bytes: u64,
    /// `None`: it ends with an extent.
    tail: Option<OriginWrite<'a, F, C>>,
    passage: Passage,
}

impl<F: Device, O: Origin, C: Clock> Growing<'_, F, O, C> {
    /// Gives the volume its new size. The cache's registry must have that size, durably, if it has the volume.
    pub fn finish(mut self) {
        self.passage.is_durable(Fact::Registered);
        let size = &self.volume.size_bytes;
        self.passage.change(Flag::VolumeSize, || size.store(self.size_bytes, Ordering::SeqCst));
        drop(self.tail);
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Changes the mode while the volume is served. A change to write-through ends when the origin is up to date; new
    /// writes go to the origin from the beginning of the call on.
    ///
    /// # Errors
    /// [`Error::Origin`] or [`Error::Poisoned`]: the origin cannot be brought up to date; the mode has changed
    /// nevertheless, and dirty data stay dirty. [`Error::Lost`]: dirty content is lost.
    pub async fn set_mode(&self, mode: WriteMode) -> Result<(), Error> {
        let mut passage = Passage::default();
        let is_write_back = mode == WriteMode::WriteBack;
        if !is_write_back && self.points().is_some() {
            // Before a write may go around them.
            self.last_point().await?;
        }
        let flag = if is_write_back { Flag::WritesBack } else { Flag::WritesThrough };
        passage.change(flag, || self.writes_back.store(is_write_back, Ordering::SeqCst));
        self.cache.shares.set_writes_back(self.options.object, is_write_back);
        self.close_for_points(false);
        if is_write_back {
            return Ok(());
        }
        // What they leave in the cache is destaged with the rest.
        self.buffering.ended().await;
        self.destage_all().await?;
        passage.is_durable(Fact::Destaged);
        passage.change(Flag::ModeReached, || ());
        Ok(())
    }

    /// Destages everything by points, and has further writes wait.
    async fn last_point(&self) -> Result<(), Error> {
        // So that writes wait for the rest alone.
        self.destage_all().await?;
        self.close_for_points(true);
        self.buffering.ended().await;
        let destaged = self.destage_all().await;
        if destaged.is_err() {
            self.close_for_points(false);
        }
        destaged
    }

    /// Serves the volume without the cache: destages dirty data, then drops all cached data of the volume. Ends when
    /// this is durable. Only one task may detach, attach or [grow](Self::begin_growing) a volume at a time.
    ///
    /// # Errors
    /// As [`set_mode`](Self::set_mode). The volume stays attached, in write-through.
    pub async fn detach(&self) -> Result<(), Error> {
        self.set_mode(WriteMode::WriteThrough).await?;
        if self.attached.get() == Attachment::Detached {
            return Ok(());
        }
        let mut passage = Passage::default();
        passage.change(Flag::Bypassed, || self.attached.set(Attachment::Bypassed));
        match self.leave_cache(&mut passage).await {
            Ok(whole) => {
                *self.whole.lock() = whole;
                passage.change(Flag::Detached, || self.attached.set(Attachment::Detached));
                Ok(())
            }
            Err(error) => {
                self.attached.set(Attachment::Attached);
                Err(error)
            }
        }
    }

    /// Makes durable that nothing of the volume is cached, and that any extent of it may change at the origin from now on.
    async fn leave_cache(&self, passage: &mut Passage) -> Result<Option<WholeIntent<F, C>>, Error> {
        // What was on its way when the flag fell is void, or in the cache after that.
        self.flights.void_clean();
        self.cache.settled().await;
        let whole = self.open_whole().await;
        self.cache.forget_object(self.options.object, self.size_bytes()).await;
        self.forget_all_ram();
        self.cache.commit().await?;
        let whole = whole.map(|(whole, news)| {
            whole.noted(news);
            whole
        });
        passage.is_durable(Fact::WholeOpen);
        passage.is_durable(Fact::ContentsVoid);
        Ok(whole)
    }

    /// Removes the volume, which is not served any more and must have no dirty data, from its cache. No requests may be in
    /// progress.
    ///
    /// # Errors
    /// [`Error::Poisoned`] where the cache device fails; the volume stays attached.
    pub async fn remove(&self) -> Result<(), Error> {
        let mut passage = Passage::default();
        // Read-ahead may be under way still: another volume may get the number.
        passage.change(Flag::Bypassed, || self.attached.set(Attachment::Bypassed));
        self.flights.void_clean();
        let removed = self.cache.forget_volume(self.options.object).await;
        self.forget_all_ram();
        if removed.is_err() {
            self.attached.set(Attachment::Attached);
        }
        removed
    }

    /// Undoes [`detach`](Self::detach): the volume is cached again; its cache is empty at first.
    pub fn attach(&self) {
        let mut passage = Passage::default();
        passage.change(Flag::Attached, || self.attached.set(Attachment::Attached));
        // Only now: from here on the region may be closed, once its last write has ended and the origin was flushed.
        drop(self.whole.lock().take());
    }

    /// Whether the volume is cached.
    pub fn is_attached(&self) -> bool {
        self.attached.get() == Attachment::Attached
    }

    /// Prepares to make the volume as large as its origin, whose device has the new size already. If the volume ended
    /// within an extent, that extent's content changes: what is cached of it is void when this returns, durably, and
    /// writes to it wait until the result is [finished](Growing::finish) or dropped.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]: the origin has become shorter. [`Error::TooLarge`]: it is too large for this cache.
    /// [`Error::Origin`], [`Error::Poisoned`]: the extent cannot be destaged, or the journal has failed.
    pub async fn begin_growing(&self, size_bytes: u64) -> Result<Growing<'_, F, O, C>, Error> {
        let before = self.size_bytes();
        if size_bytes < before {
            return Err(Error::OutOfRange { offset: 0, len: before, size_bytes });
        }
        self.cache.check_origin_size(size_bytes)?;
        self.cache.provide_counters(self.options.object, size_bytes);
        let mut growing = Growing { volume: self, size_bytes, tail: None, passage: Passage::default() };
        if !before.is_multiple_of(self.extent_bytes()) {
            let end = ExtentRange::one(ExtentIndex(before / self.extent_bytes()));
            let context = RequestContext::patient(self.class());
            // As a write to the origin of that extent: it takes what is dirty, and leaves nothing that a restart would believe.
            growing.tail = Some(self.begin_origin_write(end, &context, |_, _| {}).await?);
            self.forget_cached(end, |_, _| {}).await;
            self.cache.commit_or_outlive().await?;
        }
        growing.passage.is_durable(Fact::ContentsVoid);
        Ok(growing)
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Commits, or finds that the journal has failed, and that the next start believes no clean content.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    async fn commit_or_outlive(&self) -> Result<(), Error> {
        match self.commit().await {
            Err(_) => self.check_outlived(),
            committed => committed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_need_what_the_table_says() {
        let table = include_str!("transitions.rs").lines().filter_map(|line| line.strip_prefix("//! | "));
        let mut rows = 0;
        for row in table.filter(|row| row.contains("Flag::")) {
            let columns: Vec<_> = row.split(" | ").collect();
            let named = |column: &str, kind: &str| {
                let parts = column.split(kind).skip(1);
                parts.filter_map(|part| part.split(')').next().map(str::to_owned)).collect::<Vec<_>>()
            };
            let flag = &named(columns[columns.len() - 3], "(Flag::")[0];
            let all = [
                Flag::WritesBack,
                Flag::WritesThrough,
                Flag::ModeReached,
                Flag::Bypassed,
                Flag::Detached,
                Flag::Attached,
                Flag::VolumeSize,
                Flag::NumberFree,
                Flag::SlotsUsed,
                Flag::SlotsGone,
            ];
            let flag = all.into_iter().find(|known| format!("{known:?}") == *flag).expect("a flag of the table");
            let needs: Vec<_> = flag.needs().iter().map(|fact| format!("{fact:?}")).collect();
            assert_eq!(named(columns[columns.len() - 2], "(Fact::"), needs, "{flag:?}");
            rows += 1;
        }
        assert_eq!(rows, 11, "a row for each flag, and one that two transitions change");
    }
}

//! An SSD: a translation layer with virtual time.

use crate::flash::timeline::Timeline;
use crate::{Counters, Error, Flash, Ftl, Geometry, Lpn, Nanos, PageRun, Timing, Wear};

/// A modelled SSD. Requests are passed in the order of their arrival and may overlap: each call takes the time of
/// arrival and returns the time of the end. A time of arrival before that of the previous request counts as the latter.
#[derive(Debug)]
pub struct Ssd<F> {
    ftl: F,
    timeline: Timeline,
}

impl<F: Ftl> Ssd<F> {
    /// An idle SSD with the content of `ftl`.
    #[must_use]
    pub fn new(ftl: F, timing: Timing) -> Self {
        let timeline = Timeline::new(*ftl.flash().geometry(), timing);
        Self { ftl, timeline }
    }

    /// The translation layer.
    #[must_use]
    pub const fn ftl(&self) -> &F {
        &self.ftl
    }

    /// The state of the flash.
    #[must_use]
    pub fn flash(&self) -> &Flash {
        self.ftl.flash()
    }

    /// The layout of the flash.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.flash().geometry()
    }

    /// The counters since the SSD was made.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        self.flash().counters()
    }

    /// The distribution of wear among the blocks.
    #[must_use]
    pub fn wear(&self) -> Wear {
        self.flash().wear()
    }

    /// The number of bytes that the host may use.
    #[must_use]
    pub fn logical_bytes(&self) -> u64 {
        u64::from(self.ftl.logical_pages()) * u64::from(self.geometry().page_bytes)
    }

    /// The WEU that the SSD would evict next: [`Ftl::victim`].
    #[must_use]
    pub fn victim(&self) -> Option<PageRun> {
        self.ftl.victim()
    }

    /// Writes pages; returns the time when the last page is programmed.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the run extends beyond the last logical page.
    pub fn write(&mut self, arrival: Nanos, run: PageRun) -> Result<Nanos, Error> {
        self.timeline.begin_write(arrival);
        self.write_on(run)
    }

    /// Writes further pages as a part of the last command; returns the time when the last page is programmed.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_on(&mut self, run: PageRun) -> Result<Nanos, Error> {
        self.check(run)?;
        self.ftl.write(run, &mut self.timeline);
        Ok(self.timeline.end())
    }

    /// Reads pages; returns the time when the host has the last page.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the run extends beyond the last logical page.
    pub fn read(&mut self, arrival: Nanos, run: PageRun) -> Result<Nanos, Error> {
        self.timeline.begin_read(arrival);
        self.read_on(run)
    }

    /// Reads further pages as a part of the last command; returns the time when the host has the last page.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_on(&mut self, run: PageRun) -> Result<Nanos, Error> {
        self.check(run)?;
        for lpn in run.range() {
            match self.ftl.lookup(Lpn(lpn)) {
                Some(ppn) => self.timeline.read(ppn),
                None => self.timeline.read_nothing(),
            }
        }
        self.ftl.read(run);
        Ok(self.timeline.end())
    }

    /// Trims pages; returns the time when the command ends. The erasures may end later.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the run extends beyond the last logical page.
    pub fn trim(&mut self, arrival: Nanos, run: PageRun) -> Result<Nanos, Error> {
        self.check(run)?;
        self.timeline.begin_write(arrival);
        self.ftl.trim(run, &mut self.timeline);
        Ok(self.timeline.end())
    }

    /// Writes bytes. The rest of a partly written page is read first. Returns the time when the last page is
    /// programmed.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the range extends beyond the last logical byte.
    pub fn write_bytes(&mut self, arrival: Nanos, offset: u64, len: u64) -> Result<Nanos, Error> {
        let run = self.covering(offset, len)?;
        self.timeline.begin_write(arrival);
        let page_bytes = u64::from(self.geometry().page_bytes);
        let end = offset + len;
        let head = (!offset.is_multiple_of(page_bytes) && len > 0).then_some(offset / page_bytes);
        let tail =
            (!end.is_multiple_of(page_bytes) && len > 0).then_some(end / page_bytes).filter(|t| Some(*t) != head);
        for page in [head, tail].into_iter().flatten() {
            self.ftl.note_partial(1);
            if let Some(ppn) = self.ftl.lookup(Lpn(page as u32)) {
                self.timeline.fetch(ppn);
            }
        }
        self.ftl.write(run, &mut self.timeline);
        Ok(self.timeline.end())
    }

    /// Reads bytes, in whole pages. Returns the time when the host has the last page.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the range extends beyond the last logical byte.
    pub fn read_bytes(&mut self, arrival: Nanos, offset: u64, len: u64) -> Result<Nanos, Error> {
        let run = self.covering(offset, len)?;
        self.read(arrival, run)
    }

    /// Trims the pages that lie entirely within a range of bytes. Returns the time when the command ends.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the range extends beyond the last logical byte.
    pub fn trim_bytes(&mut self, arrival: Nanos, offset: u64, len: u64) -> Result<Nanos, Error> {
        self.covering(offset, len)?;
        let page_bytes = u64::from(self.geometry().page_bytes);
        let first = offset.div_ceil(page_bytes);
        let pages = ((offset + len) / page_bytes).saturating_sub(first);
        self.trim(arrival, PageRun { first: Lpn(first as u32), pages: pages as u32 })
    }

    fn check(&self, run: PageRun) -> Result<(), Error> {
        let (first, len, end) = (run.first.0.into(), run.pages.into(), self.ftl.logical_pages().into());
        if first + len > end { Err(Error::OutOfRange { first, len, end }) } else { Ok(()) }
    }

    /// The pages that a range of bytes touches.
    fn covering(&self, offset: u64, len: u64) -> Result<PageRun, Error> {
        let end = self.logical_bytes();
        if offset.checked_add(len).is_none_or(|last| last > end) {
            return Err(Error::OutOfRange { first: offset, len, end });
        }
        let page_bytes = u64::from(self.geometry().page_bytes);
        let first = offset / page_bytes;
        let pages = if len == 0 { 0 } else { (offset + len).div_ceil(page_bytes) - first };
        Ok(PageRun { first: Lpn(first as u32), pages: pages as u32 })
    }
}

//! Virtual time: when planes, channels and the host's link are busy, and when a request is done.

mod calendar;
mod layout;

use crate::{BlockId, Geometry, Lpn, Medium, Nanos, Ppn, Timing};
use calendar::Calendar;
use layout::Layout;

/// The parts of the SSD and until when they are busy.
///
/// What the host asks for is done by each plane in the order in which it came; its transfers take the first gap of the channel,
/// and of the link, that is long enough. There is no write cache: a write is done when its last page is programmed.
///
/// Copies and erasures are work that planes have to do before what the host asks for next, but they are not put in order among
/// themselves: the controller is taken to read ahead and to leave no plane idle. (In order, each copy would wait for the
/// program of the one before it wherever it reads from that plane, which makes collection four times slower.)
///
/// Left out: that copies take the channel from the host (where they are many, the planes are what is waited for), reads that
/// overtake programs or interrupt erasures, programs of several planes or of the next page that share a command, errors.
#[derive(Debug)]
pub(crate) struct Timeline {
    layout: Layout,
    timing: Timing,
    channel_transfer: Nanos,
    link_transfer: Nanos,
    planes: Vec<Nanos>,
    channels: Vec<Calendar>,
    /// When each channel has moved the copies that it was given.
    copies: Vec<Nanos>,
    link: Calendar,
    /// When the controller has done what it does for one request at a time.
    controller: Nanos,
    /// When the request in progress arrived, the controller's time included.
    start: Nanos,
    /// When the request has all that it programs, but for what the host sends.
    ready: Nanos,
    /// When what has been ordered for the request so far is done.
    done: Nanos,
}

/// Time to transfer a page.
fn transfer(page_bytes: u32, bytes_per_second: u64) -> Nanos {
    Nanos((u64::from(page_bytes) * 1_000_000_000).div_ceil(bytes_per_second.max(1)))
}

impl Timeline {
    pub(crate) fn new(geometry: Geometry, timing: Timing) -> Self {
        Self {
            channel_transfer: transfer(geometry.page_bytes, timing.channel_bytes_per_second),
            link_transfer: transfer(geometry.page_bytes, timing.link_bytes_per_second),
            planes: vec![Nanos::ZERO; geometry.planes_all() as usize],
            channels: vec![Calendar::default(); geometry.channels as usize],
            copies: vec![Nanos::ZERO; geometry.channels as usize],
            link: Calendar::default(),
            controller: Nanos::ZERO,
            start: Nanos::ZERO,
            ready: Nanos::ZERO,
            done: Nanos::ZERO,
            layout: Layout::new(&geometry),
            timing,
        }
    }

    /// A read arrives; not before the request before it.
    pub(crate) fn begin_read(&mut self, arrival: Nanos) {
        self.begin(arrival, self.timing.each_read);
    }

    /// Another request arrives.
    pub(crate) fn begin_write(&mut self, arrival: Nanos) {
        self.begin(arrival, self.timing.each_write);
    }

    fn begin(&mut self, arrival: Nanos, each: Nanos) {
        self.controller = self.controller.max(arrival) + each;
        self.start = self.start.max(self.controller + self.timing.command);
        self.ready = self.start;
        self.done = self.start;
    }

    /// When the request is done.
    pub(crate) const fn end(&self) -> Nanos {
        self.done
    }

    /// Reads a page for the host.
    pub(crate) fn read(&mut self, ppn: Ppn) {
        let out = self.read_out(ppn);
        let end = self.link.reserve(self.start, out, self.link_transfer);
        self.finish(end);
    }

    /// Reads a page into the controller, for which the request's programs wait.
    pub(crate) fn fetch(&mut self, ppn: Ppn) {
        self.ready = self.ready.max(self.read_out(ppn));
    }

    /// Answers for a page that was never written.
    pub(crate) fn read_nothing(&mut self) {
        let end = self.link.reserve(self.start, self.start, self.link_transfer);
        self.finish(end);
    }

    fn read_out(&mut self, ppn: Ppn) -> Nanos {
        let plane = self.layout.plane(ppn);
        let read = self.occupy(plane, self.start, self.timing.read);
        self.channels[self.layout.channel(plane) as usize].reserve(self.start, read, self.channel_transfer)
    }

    /// Lets a plane work for `span` from `ready` on, or as soon as it is free.
    fn occupy(&mut self, plane: u32, ready: Nanos, span: Nanos) -> Nanos {
        let free = &mut self.planes[plane as usize];
        *free = (*free).max(ready) + span;
        *free
    }

    /// Gives a plane work that is not waited for.
    fn burden(&mut self, plane: u32, span: Nanos) {
        self.occupy(plane, self.start, span);
    }

    /// Moves a copied page over a plane's channel. The plane cannot be done before the channel has moved all copies that it
    /// was given.
    fn move_copy(&mut self, plane: u32) {
        let channel = &mut self.copies[self.layout.channel(plane) as usize];
        *channel = (*channel).max(self.start) + self.channel_transfer;
        let free = &mut self.planes[plane as usize];
        *free = (*free).max(*channel);
    }

    fn finish(&mut self, end: Nanos) {
        self.done = self.done.max(end);
    }
}

impl Medium for Timeline {
    fn program(&mut self, to: Ppn, _lpn: Lpn) {
        let received = self.link.reserve(self.start, self.start, self.link_transfer);
        let plane = self.layout.plane(to);
        let channel = &mut self.channels[self.layout.channel(plane) as usize];
        let there = channel.reserve(self.start, received.max(self.ready), self.channel_transfer);
        let end = self.occupy(plane, there, self.timing.program);
        self.finish(end);
    }

    /// Within a plane without a transfer ("copyback").
    fn copy(&mut self, from: Ppn, to: Ppn) {
        let (source, target) = (self.layout.plane(from), self.layout.plane(to));
        self.burden(source, self.timing.read);
        if source != target {
            self.move_copy(source);
            self.move_copy(target);
        }
        self.burden(target, self.timing.program);
    }

    fn erase(&mut self, block: BlockId) {
        for part in 0..self.layout.stripe() {
            self.burden(self.layout.plane_of(block, part), self.timing.erase);
        }
    }
}

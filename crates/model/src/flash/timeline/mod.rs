//! Virtual time: when planes, channels and the host's link are busy, and when a request ends.

mod calendar;
mod layout;

use crate::{BlockId, Geometry, Lpn, Medium, Nanos, Ppn, Timing};
use calendar::Calendar;
use layout::Layout;

/// The times until which the parts of the SSD are busy.
///
/// Each plane does the operations of the host's requests in the order of their arrival. Their transfers take the first
/// gap of the channel, and of the link, that is long enough. There is no write cache: a write ends when its last page
/// is programmed.
///
/// Copies and erasures delay the next operation of the host on their planes, but they are not ordered among themselves:
/// the controller is assumed to read ahead and to leave no plane idle. (In order, each copy from a plane would follow
/// the previous program on that plane, which makes collection four times slower.)
///
/// The model omits errors, and the time that copies take from the host's transfers on a channel: where there are many
/// copies, the planes are the bottleneck. It also omits reads that overtake programs or interrupt erasures, multi-plane
/// programs and cached programs.
#[derive(Debug)]
pub(crate) struct Timeline {
    layout: Layout,
    timing: Timing,
    channel_transfer: Nanos,
    link_transfer: Nanos,
    planes: Vec<Nanos>,
    channels: Vec<Calendar>,
    /// The time when each channel has transferred its copies.
    copies: Vec<Nanos>,
    link: Calendar,
    /// The time when the controller has finished the work that it does for one request at a time.
    controller: Nanos,
    /// The time when the current request has arrived and the controller has processed its command.
    start: Nanos,
    /// The time when the data that the current request programs are in the controller, except those sent by the host.
    ready: Nanos,
    /// The time when the operations of the current request so far are done.
    done: Nanos,
}

/// The time to transfer a page.
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

    /// Starts a read. It arrives at `arrival`, or with the previous request if that arrived later.
    pub(crate) fn begin_read(&mut self, arrival: Nanos) {
        self.begin(arrival, self.timing.each_read);
    }

    /// Starts a request of another kind.
    pub(crate) fn begin_write(&mut self, arrival: Nanos) {
        self.begin(arrival, self.timing.each_write);
    }

    fn begin(&mut self, arrival: Nanos, each: Nanos) {
        self.controller = self.controller.max(arrival) + each;
        self.start = self.start.max(self.controller + self.timing.command);
        self.ready = self.start;
        self.done = self.start;
    }

    /// The time when the request ends.
    pub(crate) const fn end(&self) -> Nanos {
        self.done
    }

    /// Reads a page for the host.
    pub(crate) fn read(&mut self, ppn: Ppn) {
        let out = self.read_out(ppn);
        let end = self.link.reserve(self.start, out, self.link_transfer);
        self.finish(end);
    }

    /// Reads a page into the controller; the request's programs start after that.
    pub(crate) fn fetch(&mut self, ppn: Ppn) {
        self.ready = self.ready.max(self.read_out(ppn));
    }

    /// Answers a read of a page that was never written.
    pub(crate) fn read_nothing(&mut self) {
        let end = self.link.reserve(self.start, self.start, self.link_transfer);
        self.finish(end);
    }

    fn read_out(&mut self, ppn: Ppn) -> Nanos {
        let plane = self.layout.plane(ppn);
        let read = self.occupy(plane, self.start, self.timing.read);
        self.channels[self.layout.channel(plane) as usize].reserve(self.start, read, self.channel_transfer)
    }

    /// Occupies a plane for `span`, from `ready` or from the time when it is free.
    fn occupy(&mut self, plane: u32, ready: Nanos, span: Nanos) -> Nanos {
        let free = &mut self.planes[plane as usize];
        *free = (*free).max(ready) + span;
        *free
    }

    /// Occupies a plane for `span` with work that the current request does not wait for.
    fn burden(&mut self, plane: u32, span: Nanos) {
        self.occupy(plane, self.start, span);
    }

    /// Transfers a copied page over a plane's channel. The plane is busy at least until the channel has transferred all
    /// its copies.
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

    /// A copy within a plane needs no transfer ("copyback").
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

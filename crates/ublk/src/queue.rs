//! A queue: each of its tags takes a request, carries it out, answers it, and takes the next one.

use crate::action::{Action, Descriptor, answer};
use crate::device::Device;
use bytes::Bytes;
use futures_util::future::select;
use futures_util::lock::Mutex;
use futures_util::stream::{FuturesUnordered, StreamExt};
use nitro_frontend::{Disk, DiskError, Share, ZeroFlags, memory_bytes};
use nitro_port::buf::BufMut;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;

/// The commands of a queue.
pub trait Channel {
    /// The number of requests that may be under way; tags are below it.
    fn depth(&self) -> u16;

    /// Answers the request of `tag` with `result`, if it has one (`None`: the tag is used for the first time), and waits for the
    /// next one.
    fn next(&self, tag: u16, result: Option<i32>) -> impl Future<Output = io::Result<Descriptor>>;

    /// Copies the data of the write of `tag`.
    ///
    /// # Errors
    /// The request has no such data.
    fn take(&self, tag: u16, into: &mut [u8]) -> io::Result<()>;

    /// Copies data to the read of `tag`.
    ///
    /// # Errors
    /// The request does not read so many.
    fn put(&self, tag: u16, pieces: &[Bytes]) -> io::Result<()>;
}

/// A queue that is served.
struct Queue<D, C> {
    device: Arc<Device<D>>,
    channel: C,
    share: Share,
    /// One request at a time may wait for memory.
    turn: Mutex<()>,
    block_preferred_bytes: u32,
}

/// Memory of a request, until it is dropped.
struct Held<'a> {
    share: &'a Share,
    bytes: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.share.give(self.bytes);
    }
}

/// Serves queue `index` until the driver ends its commands, since the device is removed, or until the [device](Device::leave)
/// has left.
pub async fn serve<D: Disk, C: Channel>(device: Arc<Device<D>>, channel: C, index: u16) {
    let share = if index == 0 { Share::new(&device.memory) } else { Share::further(&device.memory) };
    let (depth, block_preferred_bytes) = (channel.depth(), device.disk.info().block_preferred_bytes);
    let queue = Queue { device, channel, share, turn: Mutex::new(()), block_preferred_bytes };
    let mut tags: FuturesUnordered<_> = (0..depth).map(|tag| queue.serve_tag(tag)).collect();
    let removed = async { while tags.next().await.is_some() {} };
    select(pin!(removed), pin!(queue.device.left())).await;
}

impl<D: Disk, C: Channel> Queue<D, C> {
    async fn serve_tag(&self, tag: u16) {
        let mut result = None;
        while let Ok(descriptor) = self.channel.next(tag, result).await {
            let Some(_under_way) = self.device.begin() else { return };
            result = Some(self.execute(tag, &descriptor).await);
        }
    }

    /// Carries a request out; returns its answer.
    async fn execute(&self, tag: u16, descriptor: &Descriptor) -> i32 {
        let (disk, from) = (&self.device.disk, self.device.requester);
        let action = match Action::parse(descriptor, disk.size_bytes()) {
            Ok(action) => action,
            Err(error) => return answer(Err(error), 0),
        };
        match action {
            Action::Read { offset, len } => answer(self.read(tag, offset, len).await, len),
            // Boxed: the largest of them would determine the size of this future, also for reads.
            Action::Write { offset, len, fua } => answer(Box::pin(self.write(tag, offset, len, fua)).await, len),
            Action::Flush => answer(Box::pin(self.device.flush()).await, 0),
            Action::Discard { offset, len } => {
                let done = Box::pin(disk.trim(from, offset, len, false)).await;
                answer(done.inspect(|()| self.device.note_change(false)), 0)
            }
            Action::WriteZeroes { offset, len, fua, no_hole } => {
                let flags = ZeroFlags { fua, no_hole, fast: false };
                let done = Box::pin(disk.write_zeroes(from, offset, len, flags)).await;
                answer(done.inspect(|()| self.device.note_change(fua)), 0)
            }
        }
    }

    async fn read(&self, tag: u16, offset: u64, len: u32) -> Result<(), DiskError> {
        let (disk, from) = (&self.device.disk, self.device.requester);
        if let Some(at_once) = disk.try_read(from, offset, len) {
            return self.put(tag, len, &at_once?);
        }
        let _held = self.hold(offset, len).await;
        let pieces = disk.read(from, offset, len).await?;
        self.put(tag, len, &pieces)
    }

    fn put(&self, tag: u16, len: u32, pieces: &[Bytes]) -> Result<(), DiskError> {
        // Less would show what was in the kernel's memory before.
        if pieces.iter().map(Bytes::len).sum::<usize>() != len as usize {
            return Err(DiskError::Io);
        }
        self.channel.put(tag, pieces).map_err(|_| DiskError::Io)
    }

    async fn write(&self, tag: u16, offset: u64, len: u32, fua: bool) -> Result<(), DiskError> {
        let _held = self.hold(offset, len).await;
        let mut data = BufMut::with_len(len as usize);
        self.channel.take(tag, &mut data).map_err(|_| DiskError::Io)?;
        self.device.disk.write(self.device.requester, offset, data.freeze(), fua).await?;
        self.device.note_change(fua);
        Ok(())
    }

    /// Waits for the memory of a request.
    async fn hold(&self, offset: u64, len: u32) -> Held<'_> {
        let bytes = memory_bytes(offset, len.into(), self.block_preferred_bytes);
        let _turn = self.turn.lock().await;
        self.share.take(bytes).await;
        Held { share: &self.share, bytes }
    }
}

#[cfg(test)]
mod tests;

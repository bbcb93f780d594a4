//! The device that a client makes of an export.

use super::counters::{NbdCounters, NbdMetrics};
use super::export::{Export, RANGE_BYTES_MAX};
use super::inbox::Inbox;
use super::job::{Answer, Failure, Job, Op};
use super::unflushed::Content;
use crate::protocol::{COMMAND_FAST_ZERO, COMMAND_NO_HOLE};
use bytes::Bytes;
use futures_channel::oneshot;
use futures_util::future::try_join_all;
use nitro_port::buf::BufMut;
use nitro_port::{Allocation, Device, DeviceError, ErrorKind, Geometry, Operation};
use std::ops::Range;
use std::sync::Arc;

/// The most runs of one allocation map: what is beyond them counts as allocated.
const RUNS_MAX: usize = 1 << 20;

/// An export of an NBD server as a device, for any number of threads. A [`Driver`](super::Driver) carries out its requests. While
/// there is no connection, requests wait.
pub struct RemoteDisk {
    inbox: Arc<Inbox>,
    export: Export,
    geometry: Geometry,
    ram_bytes: u64,
    metrics: Arc<NbdMetrics>,
}

impl RemoteDisk {
    pub(super) fn new(
        inbox: Arc<Inbox>,
        export: Export,
        geometry: Geometry,
        ram_bytes: u64,
        metrics: Arc<NbdMetrics>,
    ) -> Self {
        Self { inbox, export, geometry, ram_bytes, metrics }
    }

    /// What was counted of its connections since it was opened.
    #[must_use]
    pub fn counters(&self) -> NbdCounters {
        self.metrics.snapshot()
    }

    /// What the server says of the export.
    #[must_use]
    pub fn export(&self) -> &Export {
        &self.export
    }

    /// The RAM that the client takes at most, in bytes, besides the data of requests.
    #[must_use]
    pub fn ram_bytes(&self) -> u64 {
        self.ram_bytes
    }

    async fn ask(&self, op: Op) -> Result<Answer, Failure> {
        let (reply, answer) = oneshot::channel();
        self.inbox.put(Job { op, reply });
        answer.await.unwrap_or_else(|_| Err(Failure::Lost("its thread has ended".into())))
    }

    async fn part(&self, offset: u64, len: u32) -> Result<Bytes, Failure> {
        match self.ask(Op::Read { offset, len }).await? {
            Answer::Data(data) => Ok(data),
            Answer::Done | Answer::Status(_) => Err(NONSENSE),
        }
    }

    async fn change(&self, offset: u64, len: u32, content: Content) -> Result<(), Failure> {
        self.ask(Op::Change { offset, len, content }).await.map(drop)
    }

    /// Changes a range that may be longer than one request takes.
    async fn change_range(&self, op: Operation, range: Range<u64>, content: &Content) -> Result<(), DeviceError> {
        let Range { mut start, end } = range;
        while start < end {
            let next = end.min((start / RANGE_BYTES_MAX + 1) * RANGE_BYTES_MAX);
            let done = self.change(start, (next - start) as u32, content.clone()).await;
            done.map_err(|e| error(e, op, start, next - start))?;
            start = next;
        }
        Ok(())
    }

    /// Checks a request for a change.
    fn check(&self, op: Operation, offset: u64, len: u64, is_offered: bool) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry, op, offset, len)?;
        match (self.export.is_read_only(), is_offered) {
            (true, _) => Err(DeviceError::new(ErrorKind::ReadOnly, op, offset, len)),
            (false, false) => Err(DeviceError::new(ErrorKind::Unsupported, op, offset, len)),
            (false, true) => Ok(()),
        }
    }

    /// A range in parts that one request takes.
    fn parts(&self, offset: u64, len: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let longest = self.export.request_bytes_max() as usize;
        // Parts end at multiples of the longest one: they stay aligned to what the server likes.
        let first = longest - (offset % longest as u64) as usize;
        let first = if len <= longest { len } else { first.min(len) };
        std::iter::successors(Some(0..first), move |part| {
            (part.end < len).then(|| part.end..len.min(part.end + longest))
        })
    }
}

/// Appends a run to a map.
fn add(map: &mut Vec<Allocation>, run: Allocation) {
    if let Some(last) = map.last_mut()
        && last.hole == run.hole
    {
        last.len += run.len;
    } else {
        map.push(run);
    }
}

/// A reply of another kind than its request; the receiver lets none pass.
const NONSENSE: Failure = Failure::Errno(5);

fn error(failure: Failure, operation: Operation, offset: u64, len: u64) -> DeviceError {
    DeviceError::from_io(failure.into_io(), operation, offset, len)
}

impl Device for RemoteDisk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        DeviceError::check(&self.geometry, Operation::Read, offset, len as u64)?;
        if len == 0 {
            return Ok(Bytes::new());
        }
        let fail = |e| error(e, Operation::Read, offset, len as u64);
        if len <= self.export.request_bytes_max() as usize {
            return self.part(offset, len as u32).await.map_err(fail);
        }
        let parts = self.parts(offset, len).map(|part| self.part(offset + part.start as u64, part.len() as u32));
        let mut whole = BufMut::with_len(len);
        let mut at = 0;
        for part in try_join_all(parts).await.map_err(fail)? {
            whole[at..at + part.len()].copy_from_slice(&part);
            at += part.len();
        }
        Ok(whole.freeze())
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let len = data.len();
        self.check(Operation::Write, offset, len as u64, true)?;
        if len == 0 {
            return Ok(());
        }
        let fail = |e| error(e, Operation::Write, offset, len as u64);
        if len <= self.export.request_bytes_max() as usize {
            return self.change(offset, len as u32, Content::Data(data)).await.map_err(fail);
        }
        let parts = self.parts(offset, len).map(|part| {
            let (at, len) = (offset + part.start as u64, part.len() as u32);
            self.change(at, len, Content::Data(data.slice(part)))
        });
        try_join_all(parts).await.map(drop).map_err(fail)
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.ask(Op::Flush).await.map(drop).map_err(|e| error(e, Operation::Flush, 0, 0))
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check(Operation::Discard, offset, len, self.export.trims())?;
        self.change_range(Operation::Discard, offset..offset + len, &Content::Trimmed).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.check(Operation::WriteZeroes, offset, len, self.export.zeroes())?;
        let fast = if self.export.zeroes_fast() { COMMAND_FAST_ZERO } else { 0 };
        let flags = fast | if may_unmap { 0 } else { COMMAND_NO_HOLE };
        self.change_range(Operation::WriteZeroes, offset..offset + len, &Content::Zeroes { flags }).await
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        DeviceError::check(&self.geometry, Operation::Allocation, offset, len)?;
        let (mut at, end) = (offset, offset + len);
        let mut map: Vec<Allocation> = Vec::new();
        let mut tells = self.export.allocation.is_some();
        while tells && at < end {
            let len = (end - at).min(RANGE_BYTES_MAX);
            let asked = self.ask(Op::Status { offset: at, len: len as u32 }).await;
            let Answer::Status(runs) = asked.map_err(|e| error(e, Operation::Allocation, at, len))? else { break };
            for run in runs {
                // The last run may go beyond the range.
                let run = Allocation { len: run.len.min(end - at), ..run };
                if run.len > 0 {
                    at += run.len;
                    add(&mut map, run);
                }
            }
            tells = map.len() < RUNS_MAX;
        }
        if at < end {
            add(&mut map, Allocation { len: end - at, hole: false });
        }
        Ok(map)
    }
}

// A server that ends may lose what was not flushed, and who sends it again is gone if this process ends, too.
nitro_port::plain_origin!(RemoteDisk, keeps_writes: |_| false);

impl Drop for RemoteDisk {
    fn drop(&mut self) {
        self.inbox.close();
    }
}

//! A redo file on a device.

use crate::format::{BLOCK_BYTES, CHUNK_BYTES_MAX, Chunk, ENTRIES_MAX, HEAD_BYTES, Header, chained, data_bytes};
use nitro_log::FormatError;
use nitro_port::buf::{BufMut, is_zero};
use nitro_port::{Bytes, Device, DeviceError, ErrorKind, Operation, PointFuture, PointLog, PointPart, PointStamp};
use parking_lot::Mutex;
use std::io;

/// The device grows by so much at a time.
const GROW_BYTES: u64 = 64 << 20;
/// Zeroes are written in pieces of this size to an origin that has no faster way.
const ZEROES_BYTES: u64 = 1 << 20;

/// Why a redo file cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RedoError {
    /// Its device, or the origin's, failed.
    #[error("{0}")]
    Device(#[from] DeviceError),
    /// Its bytes cannot be read.
    #[error("{0}")]
    Format(#[from] FormatError),
    /// It is complete by its mark, and its content is not the one that was written: the origin may have a part of the point, and the
    /// rest is lost.
    #[error("the point {number} was being written to the origin, and the redo file is damaged: {why}")]
    Damaged {
        /// The point.
        number: u64,
        /// What is wrong.
        why: String,
    },
    /// The origin is smaller than it was.
    #[error("the point {number} has bytes up to {end}, and the origin only {size_bytes}: it is another origin")]
    Smaller {
        /// The point.
        number: u64,
        /// The end of the last part.
        end: u64,
        /// Of the origin.
        size_bytes: u64,
    },
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// As it is in the file.
    header: Header,
    /// What was collected of a point that is not sealed.
    collected: Header,
    /// The file may say already that this is complete.
    is_sealing: bool,
    /// Which copies of the header in the file are whole, and say the same.
    good: [bool; 2],
    /// The highest end of a part, of what is sealed or else of what was collected.
    reach: u64,
}

impl State {
    const fn at(header: Header) -> Self {
        Self { header, collected: header, is_sealing: false, good: [true; 2], reach: 0 }
    }
}

/// A redo file.
#[derive(Debug)]
pub struct RedoLog<D> {
    device: D,
    unix_ms: fn() -> u64,
    state: Mutex<State>,
}

/// A range of the file as it was not written.
fn misread(why: impl Into<Box<dyn std::error::Error + Send + Sync>>, offset: u64) -> DeviceError {
    let source = io::Error::new(io::ErrorKind::InvalidData, why);
    DeviceError::from_io(source, Operation::Read, offset, BLOCK_BYTES as u64)
}

impl<D: Device> RedoLog<D> {
    /// Opens a redo file, or begins one on a device that is empty. `unix_ms` is the time in milliseconds since 1970.
    ///
    /// # Errors
    /// The device fails, or it has something else; or a complete point is damaged.
    pub async fn open(device: D, unix_ms: fn() -> u64) -> Result<Self, RedoError> {
        if device.geometry().size_bytes < HEAD_BYTES {
            device.extend(HEAD_BYTES).await?;
        }
        let head = device.read(0, HEAD_BYTES as usize).await?;
        let blocks = [&head[..BLOCK_BYTES], &head[BLOCK_BYTES..]];
        let copies = blocks.map(Header::decode);
        if let Some(unknown) = copies.iter().find_map(|copy| copy.as_ref().err().filter(|error| error.is_unknown())) {
            return Err((*unknown).into());
        }
        let newest = copies.iter().flatten().max_by_key(|header| header.sequence).copied();
        let header = match (newest, &copies[0]) {
            (Some(header), _) => header,
            // The first one may be torn where the second one was never written.
            (None, _) if blocks.iter().any(|block| is_zero(block)) => Header { end: HEAD_BYTES, ..Header::default() },
            (None, Err(error)) => return Err((*error).into()),
            (None, Ok(_)) => Header::default(),
        };
        let log = Self { device, unix_ms, state: Mutex::new(State::at(header)) };
        if header.is_complete {
            log.verify(&header).await?;
        }
        if newest.is_some() {
            // The next header is written over one of them, while the other one has to be whole.
            let is_good = |copy: &Result<Header, FormatError>| copy.as_ref().is_ok_and(|copy| *copy == header);
            log.state.lock().good = [is_good(&copies[0]), is_good(&copies[1])];
            if !log.state.lock().good.iter().all(|good| *good) {
                log.write_header(header).await?;
            }
        }
        Ok(log)
    }

    /// Reads the whole point.
    async fn verify(&self, header: &Header) -> Result<(), RedoError> {
        let number = header.stamp.number;
        let damaged = |why: String| RedoError::Damaged { number, why };
        let (mut at, mut chunks, mut chain, mut reach) = (HEAD_BYTES, 0, 0, 0);
        while at < header.end {
            let (chunk, block, parts) = self.chunk(at).await.map_err(|error| damaged(error.to_string()))?;
            if (chunk.number, chunk.index) != (number, chunks) {
                return Err(damaged(format!("at {at} there is a part of another point")));
            }
            (at, chunks, chain) = (at + chunk.file_bytes(), chunks + 1, chained(chain, &block));
            reach = reach.max(end_of(&parts));
        }
        self.state.lock().reach = reach;
        match (at, chunks, chain) == (header.end, header.chunks, header.chain) {
            true => Ok(()),
            false => Err(damaged("parts are missing".to_owned())),
        }
    }

    /// The chunk at an offset, its description, and its parts.
    async fn chunk(&self, at: u64) -> Result<(Chunk, Bytes, Vec<PointPart>), DeviceError> {
        let block = self.device.read(at, BLOCK_BYTES).await?;
        let chunk = Chunk::decode(&block).map_err(|error| misread(error, at))?;
        let len = chunk.data_bytes.next_multiple_of(BLOCK_BYTES);
        let data = if len == 0 { Bytes::new() } else { self.device.read(at + BLOCK_BYTES as u64, len).await? };
        let parts = chunk.parts(data).map_err(|error| misread(error, at))?;
        Ok((chunk, block, parts))
    }

    /// Gives an origin a point that is sealed, if there is one, and finishes it. Returns that point.
    ///
    /// # Errors
    /// The origin is too small for the point, and nothing was written to it; or the origin or the device fails: the point stays, and
    /// is to be applied before the origin is used.
    pub async fn apply(&self, origin: &impl Device) -> Result<Option<PointStamp>, RedoError> {
        if !self.is_sealed() {
            return Ok(None);
        }
        let (stamp, end, size_bytes) = (self.last(), self.state.lock().reach, origin.geometry().size_bytes);
        if end > size_bytes {
            return Err(RedoError::Smaller { number: stamp.number, end, size_bytes });
        }
        let mut from = 0;
        while let Some((parts, next)) = self.read(from).await? {
            for part in parts {
                put(origin, part).await?;
            }
            from = next;
        }
        origin.flush().await?;
        self.finish().await?;
        Ok(Some(stamp))
    }

    async fn write_header(&self, header: Header) -> Result<(), DeviceError> {
        let good = self.state.lock().good;
        let order = if good[0] && !good[1] { [1, 0] } else { [0, 1] };
        for copy in order {
            self.state.lock().good[copy] = false;
            self.device.write((copy * BLOCK_BYTES) as u64, header.encode()).await?;
            self.device.flush().await?;
            self.state.lock().good[copy] = true;
        }
        let mut state = self.state.lock();
        *state = State { reach: state.reach, ..State::at(header) };
        Ok(())
    }

    async fn append(&self, parts: &[PointPart]) -> Result<(), DeviceError> {
        let collected = self.state.lock().collected;
        let bytes = Chunk::with(collected.stamp.number, collected.chunks, parts);
        let end = collected.end + bytes.len() as u64;
        if end > self.device.geometry().size_bytes {
            self.device.extend(end.next_multiple_of(GROW_BYTES)).await?;
        }
        let chain = chained(collected.chain, &bytes[..BLOCK_BYTES]);
        self.device.write(collected.end, bytes).await?;
        let mut state = self.state.lock();
        state.collected = Header { end, chunks: collected.chunks + 1, chain, ..collected };
        state.reach = state.reach.max(end_of(parts));
        Ok(())
    }
}

/// The highest end of parts in an origin. What is read from a file was checked not to overflow.
fn end_of(parts: &[PointPart]) -> u64 {
    let end = |part: &PointPart| match part {
        PointPart::Data { offset, bytes } => offset + bytes.len() as u64,
        PointPart::Zeroes { offset, len } | PointPart::Unneeded { offset, len } => offset + len,
    };
    parts.iter().map(end).max().unwrap_or(0)
}

async fn put(origin: &impl Device, part: PointPart) -> Result<(), DeviceError> {
    let unless_unsupported = |result: Result<(), DeviceError>| match result {
        Err(error) if error.kind == ErrorKind::Unsupported => Ok(false),
        result => result.map(|()| true),
    };
    match part {
        PointPart::Data { offset, bytes } => origin.write(offset, bytes).await,
        PointPart::Unneeded { offset, len } => unless_unsupported(origin.discard(offset, len).await).map(drop),
        PointPart::Zeroes { offset, len } => {
            if unless_unsupported(origin.write_zeroes(offset, len, false).await)? {
                return Ok(());
            }
            let mut at = offset;
            while at < offset + len {
                let some = (offset + len - at).min(ZEROES_BYTES);
                origin.write(at, BufMut::zeroed(some as usize).freeze()).await?;
                at += some;
            }
            Ok(())
        }
    }
}

/// Parts of which each has room in a chunk.
fn divided(parts: Vec<PointPart>) -> impl Iterator<Item = PointPart> {
    parts.into_iter().flat_map(|part| match part {
        PointPart::Data { offset, bytes } if bytes.len() > CHUNK_BYTES_MAX => {
            let starts = (0..bytes.len()).step_by(CHUNK_BYTES_MAX);
            let piece = |at: usize| PointPart::Data {
                offset: offset + at as u64,
                bytes: bytes.slice(at..bytes.len().min(at + CHUNK_BYTES_MAX)),
            };
            starts.map(piece).collect::<Vec<_>>()
        }
        part => vec![part],
    })
}

impl<D: Device> PointLog for RedoLog<D> {
    fn unix_ms(&self) -> u64 {
        (self.unix_ms)()
    }

    fn last(&self) -> PointStamp {
        self.state.lock().header.stamp
    }

    fn is_sealed(&self) -> bool {
        self.state.lock().header.is_complete
    }

    fn begin(&self, number: u64) -> PointFuture<'_, ()> {
        Box::pin(async move {
            let State { header, collected, is_sealing, .. } = *self.state.lock();
            debug_assert!(!header.is_complete, "a sealed point would be overwritten");
            if is_sealing {
                // Before its content goes: otherwise the file would say that a point is complete that is not.
                self.write_header(Header { sequence: collected.sequence + 1, ..header }).await?;
            }
            let mut state = self.state.lock();
            let (sequence, stamp) = (state.header.sequence + 1, PointStamp { number, unix_ms: 0 });
            state.collected = Header { is_complete: true, sequence, stamp, end: HEAD_BYTES, chunks: 0, chain: 0 };
            state.reach = 0;
            Ok(())
        })
    }

    fn add(&self, parts: Vec<PointPart>) -> PointFuture<'_, ()> {
        Box::pin(async move {
            let (mut some, mut bytes) = (Vec::new(), 0);
            for part in divided(parts) {
                if some.len() == ENTRIES_MAX || bytes + data_bytes(&part) > CHUNK_BYTES_MAX {
                    self.append(&some).await?;
                    (some, bytes) = (Vec::new(), 0);
                }
                bytes += data_bytes(&part);
                some.push(part);
            }
            if some.is_empty() { Ok(()) } else { self.append(&some).await }
        })
    }

    fn seal(&self, unix_ms: u64) -> PointFuture<'_, ()> {
        Box::pin(async move {
            // What the mark says must be there when the mark is.
            self.device.flush().await?;
            let header = {
                let mut state = self.state.lock();
                (state.collected.stamp.unix_ms, state.is_sealing) = (unix_ms, true);
                state.collected
            };
            self.write_header(header).await
        })
    }

    fn read(&self, from: u64) -> PointFuture<'_, Option<(Vec<PointPart>, u64)>> {
        Box::pin(async move {
            let (at, end) = (from.max(HEAD_BYTES), self.state.lock().header.end);
            if at >= end {
                return Ok(None);
            }
            let (chunk, _, parts) = self.chunk(at).await?;
            Ok(Some((parts, at + chunk.file_bytes())))
        })
    }

    fn finish(&self) -> PointFuture<'_, ()> {
        Box::pin(async move {
            let header = self.state.lock().header;
            let sequence = header.sequence + 1;
            self.write_header(Header {
                is_complete: false,
                sequence,
                stamp: header.stamp,
                end: HEAD_BYTES,
                chunks: 0,
                chain: 0,
            })
            .await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_executor::block_on;
    use nitro_device::RamDevice;
    use std::sync::Arc;

    const SIZE: u64 = 8 << 20;

    fn opened(device: &Arc<RamDevice>) -> Result<RedoLog<Arc<RamDevice>>, RedoError> {
        block_on(RedoLog::open(Arc::clone(device), || 1234))
    }

    fn parts(byte: u8) -> Vec<PointPart> {
        let long = CHUNK_BYTES_MAX + 4096;
        vec![
            PointPart::Data { offset: 0, bytes: Bytes::from(vec![byte; 4096]) },
            PointPart::Zeroes { offset: 4096, len: 2 << 20 },
            PointPart::Data { offset: 3 << 20, bytes: Bytes::from(vec![byte; long]) },
        ]
    }

    async fn collect(log: &RedoLog<Arc<RamDevice>>, number: u64) {
        log.begin(number).await.unwrap();
        for _ in 0..3 {
            log.add(parts(number as u8)).await.unwrap();
        }
    }

    fn is_at(origin: &RamDevice, byte: u8) -> bool {
        let read = |offset, len| block_on(origin.read(offset, len)).unwrap();
        let whole = read(3 << 20, CHUNK_BYTES_MAX + 4096).iter().all(|b| *b == byte);
        whole && read(0, 4096).iter().all(|b| *b == byte) && is_zero(&read(4096, 2 << 20))
    }

    #[test]
    fn what_is_sealed_is_applied_and_nothing_else() {
        let (device, origin) = (Arc::new(RamDevice::new(64 << 20, 4096)), RamDevice::new(SIZE, 512));
        let log = opened(&device).unwrap();
        assert_eq!((log.last(), log.is_sealed()), (PointStamp::default(), false));
        block_on(collect(&log, 1));
        let log = opened(&device).unwrap();
        assert!(!log.is_sealed() && block_on(log.apply(&origin)).unwrap().is_none() && is_at(&origin, 0));
        block_on(async {
            collect(&log, 1).await;
            log.seal(77).await.unwrap();
        });
        // As often as it takes: it was not finished.
        for _ in 0..2 {
            let log = opened(&device).unwrap();
            assert_eq!((log.last(), log.is_sealed()), (PointStamp { number: 1, unix_ms: 77 }, true));
            let mut from = 0;
            while let Some((parts, next)) = block_on(log.read(from)).unwrap() {
                parts.into_iter().for_each(|part| block_on(put(&origin, part)).unwrap());
                from = next;
            }
            assert!(is_at(&origin, 1));
        }
        let log = opened(&device).unwrap();
        assert_eq!(block_on(log.apply(&origin)).unwrap(), Some(PointStamp { number: 1, unix_ms: 77 }));
        let log = opened(&device).unwrap();
        assert_eq!((log.last().number, log.is_sealed(), block_on(log.apply(&origin)).unwrap()), (1, false, None));
        // The next one is collected over it, and may end in the middle of it.
        block_on(collect(&log, 2));
        assert!(!opened(&device).unwrap().is_sealed());
    }

    #[test]
    fn a_complete_point_that_is_damaged_is_refused_and_so_is_a_smaller_origin() {
        let device = Arc::new(RamDevice::new(64 << 20, 4096));
        let log = opened(&device).unwrap();
        block_on(async {
            collect(&log, 1).await;
            log.seal(77).await.unwrap();
        });
        let small = RamDevice::new(1 << 20, 512);
        for log in [log, opened(&device).unwrap()] {
            assert!(matches!(block_on(log.apply(&small)), Err(RedoError::Smaller { number: 1, .. })));
            assert!(
                log.is_sealed() && is_zero(&block_on(small.read(0, 1 << 20)).unwrap()),
                "something was written to it"
            );
        }
        let block = block_on(device.read(HEAD_BYTES + 8192, 4096)).unwrap();
        block_on(device.write(HEAD_BYTES + 8192, Bytes::from(vec![9; 4096]))).unwrap();
        let refused = opened(&device).err().unwrap();
        assert!(matches!(refused, RedoError::Damaged { number: 1, .. }), "{refused}");
        block_on(device.write(HEAD_BYTES + 8192, block)).unwrap();
        // One copy of the header will do.
        for copy in [0, BLOCK_BYTES as u64] {
            let block = block_on(device.read(copy, BLOCK_BYTES)).unwrap();
            block_on(device.write(copy, Bytes::from(vec![9; BLOCK_BYTES]))).unwrap();
            assert!(opened(&device).unwrap().is_sealed());
            block_on(device.write(copy, block)).unwrap();
        }
        block_on(device.write(0, Bytes::from(vec![9; 8192]))).unwrap();
        assert!(matches!(opened(&device), Err(RedoError::Format(_))));
    }

    #[test]
    fn a_seal_that_failed_is_void_before_its_content_goes() {
        let device = Arc::new(RamDevice::new(64 << 20, 4096));
        let log = opened(&device).unwrap();
        block_on(collect(&log, 1));
        // As if the power of the device had failed after the mark.
        let sealed = {
            let mut state = log.state.lock();
            state.is_sealing = true;
            state.collected
        };
        for copy in [0, BLOCK_BYTES as u64] {
            block_on(device.write(copy, sealed.encode())).unwrap();
        }
        block_on(log.begin(1)).unwrap();
        assert!(!opened(&device).unwrap().is_sealed());
    }
}

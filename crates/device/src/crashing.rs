//! A device in RAM whose power can fail: it knows which writes are durable, and which may be lost or torn.
//!
//! Requests are not completed at once but after a few turns of the executor, in an order that depends on a seed, so
//! that concurrent requests are reordered as on a real device.

use bytes::Bytes;
use nitro_port::yielding::yield_now;
use nitro_port::{Device, DeviceError, ErrorKind, Geometry, Operation};
use parking_lot::Mutex;

/// The unit of atomic writes.
const SECTOR_BYTES: usize = 512;
/// Storage is assigned in blocks of this size.
const ROOM_BLOCK_BYTES: u64 = 4096;
/// A request takes fewer turns of the executor than this.
const TURNS: u64 = 4;

struct Written {
    offset: u64,
    data: Bytes,
    returned: bool,
    number: u64,
}

/// Storage as in a sparse file: blocks get storage when they are written to or reserved, as long as there is any.
struct Room {
    left: u64,
    /// Blocks that have storage.
    backed: Vec<bool>,
}

impl Room {
    /// Gives storage to the blocks of a range, first to last. Returns how many bytes from the start have it.
    fn back(&mut self, offset: u64, len: u64) -> u64 {
        let block = ROOM_BLOCK_BYTES;
        for number in offset / block..(offset + len).div_ceil(block) {
            let backed = &mut self.backed[number as usize];
            if !*backed && self.left == 0 {
                return (number * block).saturating_sub(offset);
            }
            self.left -= u64::from(!*backed);
            *backed = true;
        }
        len
    }

    fn release(&mut self, offset: u64, len: u64) {
        let block = ROOM_BLOCK_BYTES;
        for number in offset.div_ceil(block)..(offset + len) / block {
            self.left += u64::from(std::mem::take(&mut self.backed[number as usize]));
        }
    }
}

struct State {
    durable: Vec<u8>,
    image: Vec<u8>,
    /// Not durable, in the order in which they began.
    unflushed: Vec<Written>,
    next: u64,
    random: u64,
    /// Writes and flushes until power fails.
    left: Option<u64>,
    operations: u64,
    /// `None`: all blocks have storage.
    room: Option<Room>,
}

impl State {
    /// SplitMix64 (Steele, Lea and Flood 2014).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.random ^ self.random >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn apply(image: &mut [u8], offset: u64, data: &[u8]) {
        image[offset as usize..offset as usize + data.len()].copy_from_slice(data);
    }
}

/// A device in RAM whose power can fail.
pub struct CrashingDevice {
    geometry: Geometry,
    state: Mutex<State>,
}

impl CrashingDevice {
    /// A device of `size_bytes`, which hold arbitrary bytes. `seed` determines all random decisions.
    #[must_use]
    pub fn new(size_bytes: u64, block_bytes: u32, seed: u64) -> Self {
        Self::with_image(vec![0xA5; size_bytes as usize], block_bytes, seed)
    }

    /// A device that durably holds `image`.
    #[must_use]
    pub fn with_image(image: Vec<u8>, block_bytes: u32, seed: u64) -> Self {
        let size_bytes = image.len() as u64;
        let state = State {
            durable: image.clone(),
            image,
            unflushed: Vec::new(),
            next: 0,
            random: seed,
            left: None,
            operations: 0,
            room: None,
        };
        let geometry = Geometry { size_bytes, block_bytes, preferred_bytes: 4096, rotational: false };
        Self { geometry, state: Mutex::new(state) }
    }

    /// Lets power fail when this number of further writes and flushes have begun; from then on every request fails.
    pub fn fail_power_after(&self, operations: u64) {
        self.state.lock().left = Some(operations);
    }

    /// From now on the device behaves like a sparse file on a filesystem with this number of free bytes. Blocks keep
    /// their storage; on a device that had no such limit, no block has storage.
    pub fn set_room(&self, bytes: u64) {
        let blocks = self.geometry.size_bytes.div_ceil(ROOM_BLOCK_BYTES) as usize;
        let state = &mut *self.state.lock();
        let room = state.room.get_or_insert_with(|| Room { left: 0, backed: vec![false; blocks] });
        room.left = bytes / ROOM_BLOCK_BYTES;
    }

    /// Bytes that have storage.
    pub fn backed_bytes(&self) -> u64 {
        let state = self.state.lock();
        let backed = |room: &Room| room.backed.iter().filter(|backed| **backed).count() as u64 * ROOM_BLOCK_BYTES;
        state.room.as_ref().map_or(self.geometry.size_bytes, backed)
    }

    /// Writes and flushes so far.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// The present content.
    pub fn image(&self) -> Vec<u8> {
        self.state.lock().image.clone()
    }

    /// Changes bytes durably, without a write request.
    pub fn damage(&self, offset: u64, bytes: &[u8]) {
        let state = &mut *self.state.lock();
        State::apply(&mut state.image, offset, bytes);
        State::apply(&mut state.durable, offset, bytes);
    }

    /// A possible result of a power failure now: each sector that is not durable has its old content, or that of any of
    /// its newer writes.
    #[must_use]
    pub fn crashed(&self) -> Self {
        let state = &mut *self.state.lock();
        let mut image = state.durable.clone();
        // Now and then all of it survives, or none.
        let lost_in_8 = [0, 1, 4, 7, 8][(state.random() % 5) as usize];
        for write in std::mem::take(&mut state.unflushed) {
            for (i, sector) in write.data.chunks(SECTOR_BYTES).enumerate() {
                if state.random() % 8 >= lost_in_8 {
                    State::apply(&mut image, write.offset + (i * SECTOR_BYTES) as u64, sector);
                }
            }
        }
        let seed = state.random();
        state.left = Some(0);
        let room = state.room.take();
        let crashed = Self::with_image(image, self.geometry.block_bytes, seed);
        crashed.state.lock().room = room;
        crashed
    }

    /// Simulates the end of the writing process without a power failure: requests that it had not awaited are carried
    /// out in part, sector by sector, and nothing of them later.
    pub fn settle(&self) {
        let state = &mut *self.state.lock();
        let (settled, under_way) = std::mem::take(&mut state.unflushed).into_iter().partition(|w| w.returned);
        state.unflushed = settled;
        let under_way: Vec<Written> = under_way;
        for write in under_way {
            for at in (0..write.data.len()).step_by(SECTOR_BYTES) {
                if state.random().is_multiple_of(2) {
                    let data = write.data.slice(at..write.data.len().min(at + SECTOR_BYTES));
                    let offset = write.offset + at as u64;
                    State::apply(&mut state.image, offset, &data);
                    state.unflushed.push(Written { offset, data, returned: true, number: write.number });
                }
            }
        }
    }

    /// Checks that the device still has power after one more operation.
    fn admit(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry, operation, offset, len)?;
        let state = &mut *self.state.lock();
        if state.left == Some(0) {
            return Err(DeviceError::new(ErrorKind::Io, operation, offset, len));
        }
        if operation != Operation::Read {
            state.operations += 1;
            state.left = state.left.map(|n| n - 1);
        }
        Ok(())
    }

    /// Yields to other tasks.
    async fn take_time(&self) {
        let turns = self.state.lock().random() % TURNS;
        for _ in 0..turns {
            yield_now().await;
        }
    }
}

impl Device for CrashingDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.admit(Operation::Read, offset, len as u64)?;
        self.take_time().await;
        let image = &self.state.lock().image;
        Ok(Bytes::copy_from_slice(&image[offset as usize..offset as usize + len]))
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.admit(Operation::Write, offset, data.len() as u64)?;
        let len = data.len() as u64;
        let room = self.state.lock().room.as_mut().map_or(len, |room| room.back(offset, len));
        // What found room is written, as by a filesystem.
        let data = data.slice(..room as usize);
        let number = {
            let state = &mut *self.state.lock();
            state.next += 1;
            state.unflushed.push(Written { offset, data: data.clone(), returned: false, number: state.next });
            state.next
        };
        self.take_time().await;
        let state = &mut *self.state.lock();
        State::apply(&mut state.image, offset, &data);
        if let Some(write) = state.unflushed.iter_mut().find(|w| w.number == number) {
            write.returned = true;
        }
        if state.left == Some(0) {
            return Err(DeviceError::new(ErrorKind::Io, Operation::Write, offset, len));
        }
        if room < len {
            return Err(DeviceError::new(ErrorKind::NoSpace, Operation::Write, offset, len));
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.admit(Operation::Flush, 0, 0)?;
        let covered: Vec<u64> = self.state.lock().unflushed.iter().filter(|w| w.returned).map(|w| w.number).collect();
        self.take_time().await;
        let state = &mut *self.state.lock();
        if state.left == Some(0) {
            return Err(DeviceError::new(ErrorKind::Io, Operation::Flush, 0, 0));
        }
        let (durable, volatile) =
            std::mem::take(&mut state.unflushed).into_iter().partition(|w| covered.contains(&w.number));
        state.unflushed = volatile;
        let durable: Vec<Written> = durable;
        for write in durable {
            State::apply(&mut state.durable, write.offset, &write.data);
        }
        Ok(())
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry, Operation::Discard, offset, len)?;
        let state = &mut *self.state.lock();
        let unsupported = DeviceError::new(ErrorKind::Unsupported, Operation::Discard, offset, len);
        state.room.as_mut().ok_or(unsupported)?.release(offset, len);
        // What is discarded reads as zeroes, now and after power failed.
        state.unflushed.retain(|w| w.offset >= offset + len || w.offset + w.data.len() as u64 <= offset);
        for image in [&mut state.image, &mut state.durable] {
            image[offset as usize..(offset + len) as usize].fill(0);
        }
        Ok(())
    }

    async fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry, Operation::Reserve, offset, len)?;
        let room = self.state.lock().room.as_mut().map_or(len, |room| room.back(offset, len));
        if room < len { Err(DeviceError::new(ErrorKind::NoSpace, Operation::Reserve, offset, len)) } else { Ok(()) }
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> Result<(), DeviceError> {
        Err(DeviceError::new(ErrorKind::Unsupported, Operation::WriteZeroes, offset, len))
    }
}

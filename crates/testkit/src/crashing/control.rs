//! The methods with which tests create a crashing device, inject faults, and examine its content.

use super::{CrashingDevice, Faults, History, Loss, Medium, Pace, Platter, Power, Rng, Room, State, Wiring};
use nitro_port::Device;
use parking_lot::Mutex;
use std::sync::Arc;

impl CrashingDevice {
    fn with(medium: Platter, block_bytes: u32, seed: u64, pace: Pace, power: Power) -> Self {
        Self(Arc::new(State {
            name: 0,
            medium,
            block_bytes,
            keeps_writes: true,
            unit_bytes: None,
            pace,
            power,
            random: Mutex::new(Rng::new(seed)),
            faults: Mutex::default(),
            room: Mutex::default(),
            history: Mutex::default(),
            fails_once_after: Mutex::default(),
        }))
    }

    /// A device of a simulation. Its content is on the platter, which outlives the device.
    #[must_use]
    pub fn on(platter: &Platter, wiring: Wiring) -> Self {
        let Wiring { name, block_bytes, clock, power, seed, delay_us_max, stalls, keeps_writes, unit_bytes } = wiring;
        let pace = Pace::Time { clock, delay_us_max, stalls };
        let mut device = Self::with(Arc::clone(platter), block_bytes, seed, pace, power);
        if let Some(state) = Arc::get_mut(&mut device.0) {
            (state.name, state.keeps_writes, state.unit_bytes) = (name, keeps_writes, unit_bytes);
        }
        device
    }

    /// A device for any executor, with `size_bytes` of arbitrary content. `seed` determines all random choices.
    #[must_use]
    pub fn new(size_bytes: u64, block_bytes: u32, seed: u64) -> Self {
        Self::with_image(vec![0xA5; size_bytes as usize], block_bytes, seed)
    }

    /// A device for any executor that durably holds `image`.
    #[must_use]
    pub fn with_image(image: Vec<u8>, block_bytes: u32, seed: u64) -> Self {
        let platter = Arc::new(Mutex::new(Medium::of(image)));
        Self::with(platter, block_bytes, seed, Pace::Turns, Power::with_errors())
    }

    /// A device that durably holds `image`, executes requests at once and records them: see
    /// [`crashed_at`](Self::crashed_at).
    #[must_use]
    pub fn recorded(image: Vec<u8>, block_bytes: u32) -> Self {
        let history = History::new(image.clone());
        let platter = Arc::new(Mutex::new(Medium::of(image)));
        let device = Self::with(platter, block_bytes, 0, Pace::Instant, Power::with_errors());
        *device.0.history.lock() = Some(history);
        device
    }

    /// Sets the faults that the device injects from now on.
    pub fn misbehave(&self, faults: Faults) {
        *self.0.faults.lock() = faults;
    }

    /// After `requests` more requests, one request fails.
    pub fn fail_once_after(&self, requests: u64) {
        *self.0.fails_once_after.lock() = Some(requests);
    }

    /// Power fails when `changes` more writes and flushes have begun; after that every request fails. Devices of a
    /// simulation do not use this method: their [`Power`] determines the moment.
    pub fn fail_power_after(&self, changes: u64) {
        self.0.power.fail_after(changes);
    }

    /// From now on the device acts like a sparse file on a file system with `bytes` bytes free. Blocks that have
    /// storage keep it. When a device gets its first limit, no block has storage.
    pub fn set_room(&self, bytes: u64) {
        let size_bytes = self.geometry().size_bytes;
        self.0.room.lock().get_or_insert_with(|| Room::new(size_bytes)).set_left(bytes);
    }

    /// Bytes of the device that have storage.
    #[must_use]
    pub fn backed_bytes(&self) -> u64 {
        let size_bytes = self.geometry().size_bytes;
        self.0.room.lock().as_ref().map_or(size_bytes, Room::backed_bytes)
    }

    /// The content that reads return now.
    #[must_use]
    pub fn image(&self) -> Vec<u8> {
        self.0.medium.lock().image()
    }

    /// Changes bytes durably, without a write request.
    pub fn damage(&self, offset: u64, bytes: &[u8]) {
        self.0.medium.lock().damage(offset, bytes);
    }

    /// A device with a content that a power failure now may leave: each sector that is not durable is old, or is from
    /// any of its newer writes. This device has no power from now on.
    #[must_use]
    pub fn crashed(&self) -> Self {
        let random = &mut *self.0.random.lock();
        let loss = Loss::some(random);
        let mut medium = self.0.medium.lock();
        medium.lose_power(random, loss);
        let seed = random.next();
        self.0.power.cut();
        let crashed = Self::with_image(medium.image(), self.0.block_bytes, seed);
        *crashed.0.room.lock() = self.0.room.lock().take();
        crashed
    }

    /// Models the end of the program without a power failure: writes under way are done in part, sector by sector, and
    /// the rest of them is never done.
    pub fn settle(&self) {
        let random = &mut *self.0.random.lock();
        self.0.medium.lock().settle(random);
    }

    /// Number of recorded writes and flushes.
    ///
    /// # Panics
    /// The device has no history.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.0.history.lock().as_ref().expect("a recorded device").len()
    }

    /// Whether the recorded change with this number is a write.
    ///
    /// # Panics
    /// The device has no history, or the history is shorter.
    #[must_use]
    pub fn was_write(&self, change: usize) -> bool {
        self.0.history.lock().as_ref().expect("a recorded device").is_write(change)
    }

    /// A device with a content that a power failure before the end of the change `upto` may leave: each sector written
    /// since the last flush, also by that change, is old or new.
    ///
    /// # Panics
    /// The device has no history.
    #[must_use]
    pub fn crashed_at(&self, upto: usize, random: &mut Rng) -> Self {
        let image = self.0.history.lock().as_ref().expect("a recorded device").crashed(upto, random);
        Self::recorded(image, self.0.block_bytes)
    }
}

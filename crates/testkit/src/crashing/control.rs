//! How tests make a crashing device, have it fail, and see what that leaves.

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
            pace,
            power,
            random: Mutex::new(Rng::new(seed)),
            faults: Mutex::default(),
            room: Mutex::default(),
            history: Mutex::default(),
            fails_once_after: Mutex::default(),
        }))
    }

    /// A device of a simulation. What it holds is on the platter, and outlives it.
    #[must_use]
    pub fn on(platter: &Platter, wiring: Wiring) -> Self {
        let Wiring { name, block_bytes, clock, power, seed, delay_us_max, stalls } = wiring;
        let pace = Pace::Time { clock, delay_us_max, stalls };
        let mut device = Self::with(Arc::clone(platter), block_bytes, seed, pace, power);
        if let Some(state) = Arc::get_mut(&mut device.0) {
            state.name = name;
        }
        device
    }

    /// A device for any executor, of `size_bytes`, which hold arbitrary bytes. `seed` decides all that happens by chance.
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

    /// A device that durably holds `image`, does requests at once, and remembers them: see [`crashed_at`](Self::crashed_at).
    #[must_use]
    pub fn recorded(image: Vec<u8>, block_bytes: u32) -> Self {
        let history = History::new(image.clone());
        let platter = Arc::new(Mutex::new(Medium::of(image)));
        let device = Self::with(platter, block_bytes, 0, Pace::Instant, Power::with_errors());
        *device.0.history.lock() = Some(history);
        device
    }

    /// Begins or ends to misbehave.
    pub fn misbehave(&self, faults: Faults) {
        *self.0.faults.lock() = faults;
    }

    /// One request fails, after so many others.
    pub fn fail_once_after(&self, requests: u64) {
        *self.0.fails_once_after.lock() = Some(requests);
    }

    /// Power fails when so many more writes and flushes have begun; from then on every request fails. Not for devices of a simulation,
    /// whose [`Power`] knows when it fails.
    pub fn fail_power_after(&self, changes: u64) {
        self.0.power.fail_after(changes);
    }

    /// From now on the device is as a sparse file on a filesystem that has so many bytes left. Blocks have storage as they had it
    /// before; of a device without such a limit, none.
    pub fn set_room(&self, bytes: u64) {
        let size_bytes = self.geometry().size_bytes;
        self.0.room.lock().get_or_insert_with(|| Room::new(size_bytes)).set_left(bytes);
    }

    /// Bytes that have storage.
    #[must_use]
    pub fn backed_bytes(&self) -> u64 {
        let size_bytes = self.geometry().size_bytes;
        self.0.room.lock().as_ref().map_or(size_bytes, Room::backed_bytes)
    }

    /// What is read now.
    #[must_use]
    pub fn image(&self) -> Vec<u8> {
        self.0.medium.lock().image()
    }

    /// Changes bytes behind everyone's back, durably.
    pub fn damage(&self, offset: u64, bytes: &[u8]) {
        self.0.medium.lock().damage(offset, bytes);
    }

    /// What a power failure now may leave: each sector that is not durable is old, or is of any of its newer writes. This device has
    /// no power from now on.
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

    /// The process that wrote ended, power did not fail: what it had asked for and not awaited is done in part, sector by
    /// sector, and nothing of it is done later.
    pub fn settle(&self) {
        let random = &mut *self.0.random.lock();
        self.0.medium.lock().settle(random);
    }

    /// How many writes and flushes it remembers.
    ///
    /// # Panics
    /// It has no history.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.0.history.lock().as_ref().expect("a recorded device").len()
    }

    /// Whether that one was a write.
    ///
    /// # Panics
    /// It has no history, or not so long a one.
    #[must_use]
    pub fn was_write(&self, change: usize) -> bool {
        self.0.history.lock().as_ref().expect("a recorded device").is_write(change)
    }

    /// What may be found if power fails before the change `upto` has ended: each sector that was written since the last flush, also
    /// by that change, is old or new.
    ///
    /// # Panics
    /// It has no history.
    #[must_use]
    pub fn crashed_at(&self, upto: usize, random: &mut Rng) -> Self {
        let image = self.0.history.lock().as_ref().expect("a recorded device").crashed(upto, random);
        Self::recorded(image, self.0.block_bytes)
    }
}

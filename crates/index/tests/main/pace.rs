//! Operations of a SILT go on while it converts and merges: on an SSD that does one request after the other, in virtual time.

use crate::model::key;
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_index::silt::{Plan, Rates, Silt};
use nitro_index::{FlashIndex, Options, Shape};
use nitro_port::{Clock, Device, DeviceError, Geometry};
use nitro_testkit::{Simulation, VirtualTime};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SHAPE: Shape = Shape { key_bytes: 20, value_bytes: 1000 };
const ENTRIES: u64 = 30_000;
/// Operations at a time.
const DEPTH: u64 = 64;
const WINDOW: Duration = Duration::from_millis(100);
/// What a request takes, beside the time for its bytes.
const REQUEST: Duration = Duration::from_micros(10);

/// An SSD with one queue.
struct Queued {
    bytes_per_second: f64,
    ram: RamDevice,
    clock: VirtualTime,
    free_at: Mutex<Duration>,
}

impl Queued {
    async fn take(&self, bytes: usize) {
        let ends = {
            let mut free_at = self.free_at.lock().unwrap();
            let takes = REQUEST + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
            *free_at = self.clock.now().max(*free_at) + takes;
            *free_at
        };
        self.clock.sleep(ends.saturating_sub(self.clock.now())).await;
    }
}

impl Device for Queued {
    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.take(len).await;
        self.ram.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.take(data.len()).await;
        self.ram.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.take(0).await;
        self.ram.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.ram.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.ram.write_zeroes(offset, len, may_unmap).await
    }
}

type Index = Silt<Arc<Queued>>;

fn value(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(125)
}

/// Runs operations `0..count`, [`DEPTH`] at a time: look-ups of entries below `entries`, and one insertion of a new entry in
/// every `put_every`. Returns how many ended in each window but the last one.
fn windows(sim: &Rc<Simulation>, index: &Arc<Index>, count: u64, entries: u64, put_every: Option<u64>) -> Vec<u64> {
    let (next, ended) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::<u64>::new())));
    let at_work = Rc::new(Cell::new(DEPTH));
    let begun = sim.clock.now();
    for _ in 0..DEPTH {
        let (sim_clock, index) = (sim.clock.clone(), index.clone());
        let (next, ended, at_work) = (next.clone(), ended.clone(), at_work.clone());
        sim.spawn(async move {
            while next.get() < count {
                let number: u64 = next.replace(next.get() + 1);
                match put_every {
                    Some(every) if number.is_multiple_of(every) => {
                        let new = entries + number / every;
                        index.insert(&key(SHAPE, new), &value(new)).await.unwrap();
                    }
                    _ => {
                        let known = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % entries;
                        assert_eq!(index.get(&key(SHAPE, known)).await.unwrap().unwrap()[..8], known.to_le_bytes());
                    }
                }
                let window = ((sim_clock.now() - begun).as_nanos() / WINDOW.as_nanos()) as usize;
                let mut ended = ended.borrow_mut();
                let windows = ended.len().max(window + 1);
                ended.resize(windows, 0);
                ended[window] += 1;
            }
            at_work.set(at_work.get() - 1);
        });
    }
    sim.run(async {
        while at_work.get() > 0 {
            sim.clock.sleep(WINDOW).await;
        }
    });
    let mut ended = ended.take();
    ended.pop();
    ended
}

/// The operations in windows of look-ups alone, and of look-ups and insertions, on a half full index.
fn measured(bytes_per_second: f64) -> [Vec<u64>; 2] {
    let sim = Simulation::new(1);
    let plan = Plan::new(&Options { shape: SHAPE, entries: ENTRIES, ram_bytes: u64::MAX }).unwrap();
    let ram = RamDevice::new(plan.flash_bytes, 4096);
    let device = Queued { bytes_per_second, ram, clock: sim.clock.clone(), free_at: Mutex::default() };
    let index: Arc<Index> = Arc::new(sim.run(Silt::create(Arc::new(device), plan, Rates::default(), 1)).unwrap());
    let (background, clock) = (index.clone(), sim.clock.clone());
    sim.spawn(async move { background.run_background(&clock).await.unwrap() });
    let filled = ENTRIES / 2;
    windows(&sim, &index, filled, 0, Some(1));
    let quiet = windows(&sim, &index, 50_000, filled, None);
    let before = index.counters().written_bytes;
    let busy = windows(&sim, &index, 120_000, filled, Some(10));
    let (written, inserted) = (index.counters().written_bytes - before, 12_000 * u64::from(SHAPE.value_bytes));
    assert!(written > 4 * inserted, "it merges: {written} bytes were written for {inserted} inserted");
    index.stop_background();
    [quiet, busy]
}

fn median(windows: &[u64]) -> u64 {
    let mut sorted = windows.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

#[test]
fn every_window_has_half_of_the_operations_that_it_has_without_a_merge() {
    let [quiet, busy] = measured(500e6);
    let (usual, lowest) = (median(&quiet), *busy.iter().min().unwrap());
    println!("{usual} operations in a window without inserts, {lowest} in the lowest one with them: {busy:?}");
    assert!(busy.len() > 10 && lowest * 2 >= usual, "{lowest} of {usual} operations in a window: {busy:?}");
}

#[test]
fn on_an_ssd_that_is_too_slow_for_the_merges_inserts_are_slow_and_do_not_stop() {
    let [quiet, busy] = measured(100e6);
    let (usual, lowest) = (median(&busy), *busy.iter().min().unwrap());
    println!("{} without inserts, {usual} with them, {lowest} in the lowest window: {busy:?}", median(&quiet));
    assert!(busy.len() > 10 && lowest * 2 >= usual, "{lowest} of {usual} operations in a window: {busy:?}");
}

//! One seed: start, use, crash, start again, several times over the same devices.

use crate::client::{Client, Disk, Habits, Shared};
use crate::content::Content;
use bytes::Bytes;
use futures_util::future::{Either, select};
use nitro_port::Clock;
use nitro_testkit::crashing::{Faults, Loss, Medium, Platter, Power, SECTOR_BYTES, Wiring};
use nitro_testkit::{CrashingDevice, Rng, Simulation, VirtualTime, trace};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

/// Virtual time in which every cycle ends, unless something hangs.
pub const CYCLE_MAX: Duration = Duration::from_secs(3600);

/// How long an origin may have no room, if it gets some again.
const FULL_MS_MAX: u64 = 20_000;

/// When a device dies at the latest.
const DEATH_MS_MAX: u64 = 20_000;

/// How long nothing is asked for before contents rot.
const REST: Duration = Duration::from_secs(30);

/// The devices of one cycle.
#[derive(Clone)]
pub struct Devices {
    pub flash: CrashingDevice,
    /// Further devices of the cache; `None`: it is gone.
    pub more_flash: Vec<Option<CrashingDevice>>,
    /// For a write log.
    pub log: Option<CrashingDevice>,
    pub origins: Vec<CrashingDevice>,
}

impl Devices {
    /// The devices of the cache, in their order.
    pub fn all_flash(&self) -> impl Iterator<Item = Option<&CrashingDevice>> {
        std::iter::once(Some(&self.flash)).chain(self.more_flash.iter().map(Option::as_ref))
    }

    /// A device of the cache is gone.
    fn lose(&mut self, number: usize) {
        match number.checked_sub(1) {
            Some(more) => self.more_flash[more] = None,
            // The first place must have one.
            None => {
                if let Some(other) = self.more_flash.iter_mut().find_map(Option::take) {
                    self.flash = other;
                }
            }
        }
    }
}

/// Something with volumes that can be started on devices, again and again.
pub trait System: 'static {
    type Disk: Disk;
    /// Sizes of flash and of each volume, in bytes.
    fn sizes(&self) -> (u64, Vec<u64>);
    /// Further devices of the cache, as large as the first. One of all of them may die.
    fn more_flash(&self) -> usize {
        0
    }
    /// Size of the device for a write log in bytes; 0: there is none.
    fn log_bytes(&self) -> u64 {
        0
    }
    /// How that device misbehaves now and then.
    fn log_faults(&self) -> Faults {
        Faults::default()
    }
    /// The origins' block size in bytes.
    fn block_bytes(&self) -> u32;
    /// How flash and origins misbehave now and then.
    fn faults(&self) -> (Faults, Faults);
    /// How the clients behave.
    fn habits(&self) -> Habits {
        Habits::default()
    }
    /// The volume whose origin has no room for a while; others must not feel it.
    fn full_origin(&self) -> Option<usize> {
        None
    }
    /// Bytes of RAM that the system holds, and how many it may hold, if it knows both.
    fn held_bytes(&self, _disks: &[Rc<Self::Disk>]) -> Option<(u64, u64)> {
        None
    }
    /// How many bytes of a volume there are at first; the rest, which has contents, is there once its origin has grown.
    fn first_bytes(&self, volume: usize) -> u64 {
        self.sizes().1[volume]
    }
    /// Whether it remembers over a kill, at once, what was flushed.
    fn bears_witness(&self) -> bool {
        false
    }
    /// Whether a client may hear of errors of the flash.
    fn flash_errors_reach_clients(&self) -> bool;
    /// Where the part of the flash begins that holds contents, in bytes: rot there costs those contents and nothing else.
    fn contents_offset(&self) -> u64;
    /// Whether origins lose unflushed writes when the program is killed.
    fn origins_forget(&self) -> bool {
        false
    }
    /// Bytes of the units that origins store as a whole.
    fn origin_unit_bytes(&self) -> Option<u32> {
        None
    }
    /// Whether it fails requests that a device is slow to answer.
    fn gives_up(&self) -> bool;
    /// Starts; `cycle` 0 is the first time. An error is a refusal to start.
    async fn start(&self, sim: Rc<Simulation>, devices: Devices, cycle: u64) -> Result<Vec<Rc<Self::Disk>>, String>;
    /// Gives up what `start` could not start with, and starts anew.
    async fn start_over(&self, sim: Rc<Simulation>, devices: Devices, cycle: u64) -> Vec<Rc<Self::Disk>>;
    /// Stops in good order; says of each disk whether what was acknowledged is durable then.
    async fn stop(&self, disks: &[Rc<Self::Disk>], clock: &VirtualTime, rng: &mut Rng) -> Vec<Result<(), String>>;
    /// The program is killed, with all devices as they were, or else there is more that is lost.
    fn crashed(&self, _process_only: bool) {}
    /// A cycle ends.
    fn ended(&self, disks: &[Rc<Self::Disk>]);
}

/// What happened, to be sure that a scenario reaches what it is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    pub steps: u64,
    pub trace: u64,
    pub crashes_in_start: u64,
    pub power_losses: u64,
    pub kills: u64,
    /// Cycles whose clients had done all before the power failed.
    pub quiet_ends: u64,
    /// Stops in good order.
    pub stops: u64,
    pub refusals: u64,
    /// Times that contents rotted right after they were flushed, and the program was killed.
    pub rotted_in_doubt: u64,
}

/// A world that outlives crashes.
struct World<S> {
    system: Rc<S>,
    rng: Rng,
    flash: Platter,
    more_flash: Vec<Platter>,
    /// One of several devices of the cache that died: 0 is the first one.
    dead: Option<usize>,
    log: Option<Platter>,
    origins: Vec<Platter>,
    volumes: Vec<Rc<RefCell<Shared>>>,
    block_bytes: u32,
    /// What is on the flash can no longer be trusted.
    corrupt: bool,
    /// The program is killed next, and its devices stay as they are.
    killed_next: bool,
    /// Many short lives rather than a few long ones.
    restless: bool,
    /// Which devices, flash and origins, now and then take seconds.
    stalls: (bool, bool),
    outcome: Outcome,
}

/// Runs a seed.
///
/// # Panics
/// If a disk would not have done what was seen.
pub fn run<S: System>(seed: u64, system: S) -> Outcome {
    let mut rng = Rng::new(seed ^ 0xC4A5_4000);
    let (restless, stalls) = (rng.one_in(4), (rng.one_in(3), rng.one_in(4)));
    // A device that stalls may keep a request for longer than its deadline.
    let stalls = if system.habits().deadline == Duration::MAX { stalls } else { (false, false) };
    let platter = |bytes| Platter::new(Medium::new(bytes).into());
    let (flash_bytes, volume_bytes) = system.sizes();
    let volume = |(n, bytes): (usize, &u64)| Rc::new(RefCell::new(Shared::new(n as u64, bytes / SECTOR_BYTES as u64)));
    let mut world = World {
        block_bytes: system.block_bytes(),
        flash: platter(flash_bytes),
        more_flash: (0..system.more_flash()).map(|_| platter(flash_bytes)).collect(),
        dead: None,
        log: Some(system.log_bytes()).filter(|bytes| *bytes > 0).map(platter),
        origins: volume_bytes.iter().copied().map(platter).collect(),
        volumes: volume_bytes.iter().enumerate().map(volume).collect(),
        system: Rc::new(system),
        rng,
        corrupt: false,
        killed_next: false,
        restless,
        stalls,
        outcome: Outcome::default(),
    };
    world.fill();
    let cycles = if restless { 8 + world.rng.below(8) } else { 3 + world.rng.below(4) };
    for cycle in 0..cycles {
        world.cycle(cycle);
    }
    world.outcome
}

/// Runs `future` until it ends or the power fails.
pub async fn powered<T>(power: Power, future: impl Future<Output = T>) -> Option<T> {
    match select(pin!(future), pin!(power.failure())).await {
        Either::Left((result, _)) => Some(result),
        Either::Right(_) => None,
    }
}

impl<S: System> World<S> {
    /// Writes contents where volumes will grow to.
    fn fill(&mut self) {
        for (n, volume) in self.volumes.iter().enumerate() {
            let mut shared = volume.borrow_mut();
            let first = self.system.first_bytes(n) / SECTOR_BYTES as u64;
            let content = Content::Unique { volume: n as u8, write: u32::MAX };
            let mut data = vec![0; ((shared.oracle.sectors() - first) as usize) * SECTOR_BYTES];
            for (sector, out) in (first..).zip(data.chunks_mut(SECTOR_BYTES)) {
                content.fill(sector, out);
            }
            let data = Bytes::from(data);
            self.origins[n].lock().damage(first * SECTOR_BYTES as u64, &data);
            if !data.is_empty() {
                let writing = shared.oracle.begin_write(first, &data, |_| false, true, "what there was".into());
                shared.oracle.end_write(writing, true, true);
            }
        }
    }

    /// When the power fails: often early, sometimes during the start.
    fn lifetime(&mut self, cycle: u64) -> u64 {
        if self.system.habits().busy {
            return if self.rng.one_in(2) { u64::MAX } else { 1 + self.rng.below(20_000) };
        }
        match self.rng.below(8) {
            0..2 if cycle > 0 => 1 + self.rng.below(60),
            0..6 if self.restless => 1 + self.rng.below(600),
            0..3 => 1 + self.rng.below(400),
            3..7 => 400 + self.rng.below(5000),
            _ => u64::MAX,
        }
    }

    fn switch_on(&mut self, sim: &Simulation, power: &Power) -> Devices {
        let flash_us = [100, 1000, 8000][self.rng.below(3) as usize];
        let origin_us = [300, 3000, 20_000][self.rng.below(3) as usize];
        let (block_bytes, clock) = (self.block_bytes, sim.clock.clone());
        let (stalls, keeps_writes) = (self.stalls, !self.system.origins_forget());
        let unit_bytes = self.system.origin_unit_bytes();
        let mut device = |name: usize, platter: &Platter, delay_us_max: u64, block_bytes: u32| {
            let (clock, power, seed) = (clock.clone(), power.clone(), self.rng.next());
            let (name, stalls) = (name as u64, if name == 0 { stalls.0 } else { stalls.1 });
            let wiring =
                Wiring { name, block_bytes, clock, power, seed, delay_us_max, stalls, keeps_writes, unit_bytes };
            CrashingDevice::on(platter, wiring)
        };
        let flash = device(0, &self.flash, flash_us, 512);
        let origins = self.origins.iter().enumerate().map(|(n, p)| device(n + 1, p, origin_us, block_bytes)).collect();
        let log = self.log.as_ref().map(|p| device(self.origins.len() + 1, p, flash_us / 10, 512));
        let names = 100..100 + self.more_flash.len();
        let more_flash = names.zip(&self.more_flash).map(|(n, p)| Some(device(n, p, flash_us, 512))).collect();
        let mut devices = Devices { flash, more_flash, log, origins };
        if let Some(dead) = self.dead
            && self.rng.one_in(2)
        {
            devices.lose(dead);
        }
        devices
    }

    /// One of several devices of the cache dies at some moment.
    fn kill_device(&mut self, sim: &Simulation, devices: &Devices) {
        if self.more_flash.is_empty() || self.dead.is_some() || self.rng.one_in(2) {
            return;
        }
        let number = self.rng.below(1 + self.more_flash.len() as u64) as usize;
        let Some(device) = devices.all_flash().nth(number).flatten().cloned() else { return };
        self.dead = Some(number);
        self.volumes.iter().for_each(|v| v.borrow_mut().rotten = true);
        let (clock, after) = (sim.clock.clone(), Duration::from_millis(self.rng.below(DEATH_MS_MAX)));
        sim.spawn(async move {
            clock.sleep(after).await;
            trace(|| format!("device {number} dies"));
            device.misbehave(Faults { read_errors: 1, write_errors: 1, flush_errors: 1, ..Faults::default() });
        });
    }

    fn cycle(&mut self, cycle: u64) {
        let sim = Simulation::new(self.rng.next());
        let power = Power::new(self.lifetime(cycle));
        let devices = self.switch_on(&sim, &power);
        trace(|| format!("cycle {cycle}, {:?}", self.system.faults()));
        match self.start(&sim, &power, &devices, cycle) {
            Some(disks) => {
                self.misbehave(&sim, &devices);
                self.kill_device(&sim, &devices);
                self.use_disks(&sim, &power, &disks);
                match self.rng.below(4) {
                    _ if power.is_off() => {}
                    0..2 => self.stop(&sim, &power, &disks),
                    2 => self.rot(&sim, &power),
                    _ => {}
                }
                self.system.ended(&disks);
            }
            None => self.outcome.crashes_in_start += 1,
        }
        self.outcome.quiet_ends += u64::from(!power.is_off());
        power.cut();
        sim.end();
        self.crash();
        let (steps, trace) = power.trace();
        self.outcome.steps += steps;
        self.outcome.trace = self.outcome.trace.rotate_left(7) ^ trace;
    }

    fn start(
        &mut self,
        sim: &Rc<Simulation>,
        power: &Power,
        devices: &Devices,
        cycle: u64,
    ) -> Option<Vec<Rc<S::Disk>>> {
        let (system, world, on) = (self.system.clone(), (sim.clone(), devices.clone()), power.clone());
        let started = sim.run(async move { powered(on, system.start(world.0, world.1, cycle)).await })?;
        if let Err(why) = &started {
            assert!(self.corrupt, "refused to start without reason: {why}");
            self.outcome.refusals += 1;
            self.volumes.iter().for_each(|v| v.borrow_mut().oracle.distrust());
            let (system, world, on) = (self.system.clone(), (sim.clone(), devices.clone()), power.clone());
            return sim.run(async move { powered(on, system.start_over(world.0, world.1, cycle)).await });
        }
        started.ok()
    }

    fn misbehave(&mut self, sim: &Simulation, devices: &Devices) {
        let (flash, origin) = self.system.faults();
        if self.system.gives_up() {
            self.volumes.iter().for_each(|v| v.borrow_mut().tolerant = true);
        }
        if self.rng.one_in(3) {
            return;
        }
        let log = self.system.log_faults();
        devices.flash.misbehave(flash);
        devices.log.iter().for_each(|l| l.misbehave(log));
        devices.origins.iter().for_each(|o| o.misbehave(origin));
        self.corrupt |= flash.corrupt() || log.corrupt();
        if let Some(full) = self.system.full_origin() {
            devices.origins[full].misbehave(Faults { full: true, ..origin });
            self.volumes[full].borrow_mut().tolerant = true;
            self.make_room(sim, devices.origins[full].clone(), origin);
        }
        let on = |f: &Faults| f.read_errors + f.write_errors + f.flush_errors + f.no_space + f.hangs > 0 || f.corrupt();
        let tolerant = on(&origin) || on(&flash) && self.system.flash_errors_reach_clients();
        self.volumes.iter().for_each(|v| v.borrow_mut().tolerant |= tolerant);
    }

    /// In half of the cycles an origin that is full gets room again.
    fn make_room(&mut self, sim: &Simulation, origin: CrashingDevice, faults: Faults) {
        let (clock, after) = (sim.clock.clone(), Duration::from_millis(self.rng.below(FULL_MS_MAX)));
        if self.rng.one_in(2) {
            sim.spawn(async move {
                clock.sleep(after).await;
                origin.misbehave(faults);
            });
        }
    }

    fn use_disks(&mut self, sim: &Rc<Simulation>, power: &Power, disks: &[Rc<S::Disk>]) {
        let (verify, habits) = (!self.rng.one_in(3), self.system.habits());
        let steps = habits.steps.start + self.rng.below(habits.steps.end - habits.steps.start);
        let at_work = Rc::new(Cell::new(0));
        for (disk, shared) in disks.iter().zip(&self.volumes) {
            for n in 0..1 + self.rng.below(4) {
                let rng = Rng::new(self.rng.next());
                let (disk, shared, clock) = (disk.clone(), shared.clone(), sim.clock.clone());
                let mut client = Client { disk, shared, clock, rng, habits: habits.clone() };
                let count = at_work.clone();
                count.set(count.get() + 1);
                sim.spawn(async move {
                    if verify && n == 0 {
                        client.read_all().await;
                    }
                    for _ in 0..steps {
                        client.step().await;
                    }
                    count.set(count.get() - 1);
                });
            }
        }
        let (clock, on) = (sim.clock.clone(), power.clone());
        let (system, disks) = (self.system.clone(), disks.to_vec());
        let check_held = move || {
            if let Some((held, may)) = system.held_bytes(&disks) {
                assert!(held <= may, "{held} bytes of RAM are held, of {may} at most");
            }
        };
        let all_done = async move {
            while at_work.get() > 0 {
                check_held();
                clock.sleep(Duration::from_millis(20)).await;
                assert!(clock.now() < CYCLE_MAX, "{} clients hang", at_work.get());
            }
            check_held();
        };
        sim.run(async move { powered(on, all_done).await });
    }

    fn stop(&mut self, sim: &Rc<Simulation>, power: &Power, disks: &[Rc<S::Disk>]) {
        let flushing: Vec<_> = self.volumes.iter().map(|v| v.borrow_mut().oracle.begin_flush()).collect();
        let (system, stopping, mut rng) = (self.system.clone(), disks.to_vec(), Rng::new(self.rng.next()));
        let (clock, on) = (sim.clock.clone(), power.clone());
        let stopped = sim.run(async move { powered(on, system.stop(&stopping, &clock, &mut rng)).await });
        let Some(stopped) = stopped else { return };
        for (((volume, flushing), stopped), disk) in self.volumes.iter().zip(flushing).zip(stopped).zip(disks) {
            let mut shared = volume.borrow_mut();
            let is_loss = shared.rotten && stopped.as_ref().is_err_and(|error| disk.is_loss(error));
            assert!(stopped.is_ok() || shared.tolerant || is_loss, "stopping failed without reason: {stopped:?}");
            shared.oracle.end_flush(flushing, stopped.is_ok());
        }
        self.outcome.stops += 1;
    }

    /// Contents rot while nobody asks for them.
    fn rot(&mut self, sim: &Rc<Simulation>, power: &Power) {
        let count = self.system.faults().0.rot_at_rest;
        if count == 0 {
            return;
        }
        // Until the device itself shows that all that was committed was whole. After a kill, that need not be durable, and where
        // memory outlives the program, there is no need to wait.
        self.killed_next = self.rng.one_in(2);
        let rest = match self.killed_next {
            true if self.system.bears_witness() => Duration::ZERO,
            _ => REST,
        };
        let (clock, on) = (sim.clock.clone(), power.clone());
        sim.run(async move { powered(on, clock.sleep(rest)).await });
        if power.is_off() {
            return;
        }
        let first = self.system.contents_offset() / SECTOR_BYTES as u64;
        for _ in 0..1 + self.rng.below(count) {
            self.flash.lock().rot_at_rest(&mut self.rng, first);
        }
        self.volumes.iter().for_each(|v| v.borrow_mut().rotten = true);
        self.outcome.rotted_in_doubt += u64::from(rest.is_zero());
    }

    fn crash(&mut self) {
        let losses = [Loss::Shuffled, Loss::Shuffled, Loss::Shuffled, Loss::All, Loss::None];
        let stays = std::mem::take(&mut self.killed_next);
        let killed = self.rng.one_in(4) || stays;
        // While it is down, the flash is taken out and put in again.
        let flash_reset = killed && self.rng.one_in(4) && !stays;
        self.system.crashed(killed && !flash_reset);
        let (torn, forgets) = (self.system.faults().0.torn_sectors, self.system.origins_forget());
        if let Some(log) = &self.log {
            let torn = self.system.log_faults().torn_sectors;
            let mut medium = log.lock();
            match (killed, torn) {
                (true, _) => medium.outlive_program(&mut self.rng),
                (false, true) => medium.lose_power(&mut self.rng, Loss::Torn),
                (false, false) => {
                    let loss = losses[self.rng.below(losses.len() as u64) as usize];
                    medium.lose_power(&mut self.rng, loss);
                }
            }
        }
        for platter in &self.more_flash {
            let mut medium = platter.lock();
            match killed && !flash_reset {
                true => medium.outlive_program(&mut self.rng),
                false => {
                    let loss = losses[self.rng.below(losses.len() as u64) as usize];
                    medium.lose_power(&mut self.rng, loss);
                }
            }
        }
        for (n, platter) in [&self.flash].into_iter().chain(&self.origins).enumerate() {
            let mut medium = platter.lock();
            match killed && !(if n == 0 { flash_reset } else { forgets }) {
                true => medium.outlive_program(&mut self.rng),
                false => {
                    let loss = losses[self.rng.below(losses.len() as u64) as usize];
                    let loss = if torn && n == 0 { Loss::Torn } else { loss };
                    medium.lose_power(&mut self.rng, loss);
                }
            }
        }
        for volume in &self.volumes {
            let mut shared = volume.borrow_mut();
            shared.forget_requests();
            match (self.corrupt, killed) {
                (true, _) => shared.oracle.distrust(),
                (false, true) => shared.oracle.outlive_program(!forgets),
                (false, false) => shared.oracle.lose_power(),
            }
        }
        *(if killed { &mut self.outcome.kills } else { &mut self.outcome.power_losses }) += 1;
    }
}

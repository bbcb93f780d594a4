//! The origin's disks in virtual time: an arm for each, with the mechanics and the scheduling of the server's emulated
//! disk ([`nitro_model::disk`]). Foreground work has priority over background work.

use super::settings::Disks;
use nitro_model::disk::HddModel;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// A request of one disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiskRequest {
    pub(super) disk: u32,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// A queued request.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    operation: u64,
    offset: u64,
    len: u64,
    arrived: Duration,
}

#[derive(Debug, Default)]
struct Arm {
    foreground: VecDeque<Waiting>,
    background: VecDeque<Waiting>,
    /// The current operation, and the time when its request ends.
    current: Option<(u64, Duration)>,
    head: u64,
}

/// One of two arrays over which data are striped.
#[derive(Debug, Clone)]
struct Group {
    first_disk: u64,
    disks: u64,
    /// The columns of a row that are on its disks.
    columns: Range<u64>,
}

impl Group {
    /// The disk of a column in a row; the columns after the last are those of parity.
    const fn disk(&self, row: u64, column: u64) -> u32 {
        (self.first_disk + (row + column - self.columns.start) % self.disks) as u32
    }
}

/// An array of disks, or two.
#[derive(Debug)]
pub(super) struct Array {
    model: HddModel,
    settings: Disks,
    arms: Vec<Arm>,
    busy: Duration,
}

impl Array {
    pub(super) fn new(settings: &Disks) -> Self {
        let model = if settings.rpm == 15_000 { HddModel::rpm_15000() } else { HddModel::rpm_7200() };
        let arms = (0..settings.spindles).map(|_| Arm::default()).collect();
        Self { model, settings: *settings, arms, busy: Duration::ZERO }
    }

    /// The number of disks with data in each row of stripes.
    const fn data_disks(&self) -> u64 {
        self.settings.data_disks() as u64
    }

    /// The arrays, with the columns of a row that each has.
    fn groups(&self) -> [Group; 2] {
        let parity = u64::from(self.settings.raid.parity());
        let mut first_column = 0;
        self.settings.arrays().map(|(first_disk, disks)| {
            let (first_disk, disks) = (u64::from(first_disk), u64::from(disks));
            let columns = first_column..first_column + disks.saturating_sub(parity);
            first_column = columns.end;
            Group { first_disk, disks, columns }
        })
    }

    /// Bytes of data that the array holds.
    pub(super) fn data_bytes(&self) -> u64 {
        let rows = self.settings.disk_bytes / self.settings.stripe_bytes;
        rows * self.settings.stripe_bytes * self.data_disks()
    }

    /// The sum of the busy times of all disks.
    pub(super) const fn busy(&self) -> Duration {
        self.busy
    }

    /// The disk requests of a range of the array; parity rotates over the disks of each array.
    pub(super) fn locate(&self, offset: u64, len: u64) -> impl Iterator<Item = DiskRequest> {
        let (stripe, data, [first, second]) = (self.settings.stripe_bytes, self.data_disks(), self.groups());
        let mut at = offset;
        std::iter::from_fn(move || {
            let end = offset + len;
            let next = ((at / stripe + 1) * stripe).min(end);
            let (number, within) = (at / stripe, at % stripe);
            let (row, column) = (number / data, number % data);
            let request = DiskRequest {
                disk: if first.columns.contains(&column) { first.disk(row, column) } else { second.disk(row, column) },
                offset: row * stripe + within,
                len: next.saturating_sub(at),
            };
            at = next;
            (request.len > 0).then_some(request)
        })
    }

    /// The parity requests of a range: for each row and array, the part that the range touches.
    pub(super) fn parity(&self, offset: u64, len: u64) -> Vec<DiskRequest> {
        let stripe = self.settings.stripe_bytes;
        let row_bytes = stripe * self.data_disks();
        let groups = self.groups();
        let mut all_rows = Vec::new();
        for row in offset / row_bytes..(offset + len).div_ceil(row_bytes) {
            let begin = row * row_bytes;
            let (from, to) = (offset.max(begin) - begin, (offset + len).min(begin + row_bytes) - begin);
            for group in &groups {
                // The part of the range in the columns of this array.
                let (from, to) = (from.max(group.columns.start * stripe), to.min(group.columns.end * stripe));
                if from >= to {
                    continue;
                }
                let one = from / stripe == (to - 1) / stripe;
                let (start, bytes) = if one { (from % stripe, to - from) } else { (0, stripe) };
                for parity in 0..u64::from(self.settings.raid.parity()) {
                    let disk = group.disk(row, group.columns.end + parity);
                    all_rows.push(DiskRequest { disk, offset: row * stripe + start, len: bytes });
                }
            }
        }
        all_rows
    }

    /// Whether a range covers whole rows, so that its parity is computed from it alone.
    pub(super) fn is_whole_rows(&self, offset: u64, len: u64) -> bool {
        let row_bytes = self.settings.stripe_bytes * self.data_disks();
        offset.is_multiple_of(row_bytes) && len.is_multiple_of(row_bytes)
    }

    /// Queues a request of a disk; returns its end if the disk starts it at once.
    pub(super) fn ask(
        &mut self,
        now: Duration,
        operation: u64,
        request: DiskRequest,
        background: bool,
    ) -> Option<Duration> {
        let arm = &mut self.arms[request.disk as usize];
        let waiting = Waiting { operation, offset: request.offset, len: request.len, arrived: now };
        if background { &mut arm.background } else { &mut arm.foreground }.push_back(waiting);
        if arm.current.is_some() { None } else { self.begin(request.disk, now) }
    }

    /// Ends the current request of a disk; returns its operation, and the end of the next request.
    pub(super) fn done(&mut self, disk: u32, now: Duration) -> (Option<u64>, Option<Duration>) {
        let finished = self.arms[disk as usize].current.take().map(|(operation, _)| operation);
        (finished, self.begin(disk, now))
    }

    /// Starts the queued request that the arm reaches first, or one that has waited too long. Background work is
    /// started only if no foreground work is queued.
    fn begin(&mut self, disk: u32, now: Duration) -> Option<Duration> {
        let (model, span) = (&self.model, self.settings.disk_bytes);
        let arm = &mut self.arms[disk as usize];
        let queue = if arm.foreground.is_empty() { &mut arm.background } else { &mut arm.foreground };
        let aged = queue.front().is_some_and(|first| now.saturating_sub(first.arrived) > model.age_max);
        let seen = if aged { 1 } else { model.queue_depth };
        let reach = |waiting: &Waiting| model.position(span, arm.head, now, waiting.offset);
        let (positioning, at) = queue.iter().take(seen).enumerate().map(|(at, waiting)| (reach(waiting), at)).min()?;
        let chosen = queue.remove(at)?;
        let span = positioning + model.transfer(chosen.len);
        let done = now + span;
        self.busy += span;
        arm.head = chosen.offset + chosen.len;
        arm.current = Some((chosen.operation, done));
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Raid;
    use super::*;

    fn array(spindles: u32, raid: Raid) -> Array {
        arrays(spindles, 0, raid)
    }

    fn arrays(spindles: u32, second_array: u32, raid: Raid) -> Array {
        let disks = Disks { spindles, second_array, raid, stripe_bytes: 64 << 10, ..Disks::default() };
        Array::new(&Disks { disk_bytes: 1 << 30, ..disks })
    }

    /// Random reads of 8 KiB at a given depth.
    fn reads_per_second(array: &mut Array, depth: u64) -> f64 {
        let (mut random, mut pending) = (1u64, Vec::new());
        let mut place = |array: &Array| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let offset = (random >> 33) % (array.data_bytes() / 8192) * 8192;
            array.locate(offset, 8192).next().unwrap()
        };
        for operation in 0..depth {
            let request = place(array);
            pending.extend(array.ask(Duration::ZERO, operation, request, false).map(|done| (done, request.disk)));
        }
        let mut now = Duration::ZERO;
        for _ in 0..4000 {
            let first = pending.iter().enumerate().min_by_key(|(_, event)| **event).map(|(at, _)| at).unwrap();
            let (done, disk) = pending.swap_remove(first);
            now = done;
            let (_, next) = array.done(disk, now);
            pending.extend(next.map(|done| (done, disk)));
            let request = place(array);
            pending.extend(array.ask(now, 0, request, false).map(|done| (done, request.disk)));
        }
        4000.0 / now.as_secs_f64()
    }

    #[test]
    fn one_disk_is_as_fast_as_the_servers_emulated_one() {
        // The values of the table in `nitro_device::hdd`, which were measured with that device.
        for (depth, expected) in [(1, 79.0), (32, 185.0)] {
            let reached = reads_per_second(&mut array(1, Raid::Raid0), depth);
            assert!((reached / expected - 1.0).abs() < 0.04, "{depth} at a time: {reached}");
        }
    }

    #[test]
    fn parity_rotates_and_never_meets_its_data() {
        for (spindles, second, raid) in
            [(3, 0, Raid::Raid5), (5, 0, Raid::Raid5), (6, 0, Raid::Raid6), (9, 4, Raid::Raid5), (23, 13, Raid::Raid6)]
        {
            let array = arrays(spindles, second, raid);
            let stripe = array.settings.stripe_bytes;
            let mut seen = std::collections::HashSet::new();
            for number in 0..200 {
                let data: Vec<_> = array.locate(number * stripe + 512, 8192).collect();
                let parity = array.parity(number * stripe + 512, 8192);
                assert_eq!((data.len(), parity.len()), (1, raid.parity() as usize));
                assert!(parity.iter().all(|p| p.disk != data[0].disk && p.offset == data[0].offset));
                let in_first = |request: &DiskRequest| request.disk < spindles - second;
                assert!(parity.iter().all(|p| in_first(p) == in_first(&data[0])), "parity of the other array");
                assert!(seen.insert((data[0].disk, data[0].offset)), "two stripes in one place");
                assert!(parity.iter().all(|p| !seen.contains(&(p.disk, p.offset))));
            }
            let row = stripe * u64::from(array.settings.data_disks());
            assert!(array.is_whole_rows(row * 3, row) && !array.is_whole_rows(row * 3 + 512, row));
            assert_eq!(array.locate(row * 7, row).count() + array.parity(row * 7, row).len(), spindles as usize);
        }
    }
}

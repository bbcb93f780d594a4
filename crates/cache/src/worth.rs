//! How often content is read after it was offered to the SSD, by its group: where it came from, whether it was used while
//! it waited in RAM, and whether its extent is remembered as dropped. A write budget refuses the group that is read least
//! first. Refused content is observed in the same way as admitted content, so a group is never judged by what it was
//! denied.
//!
//! Only a sample of extents is observed, chosen by hash as in SHARDS (FAST'15, §3.1).

use crate::admission::{Admitted, Provenance, Source};
use crate::file_index::mix;
use nitro_units::ExtentKey;

/// Number of extents in the sample for each cache: of a larger cache, a smaller part is observed.
const SAMPLE: u64 = 4096;
/// Number of places for them. Extents with the same place displace each other.
const PLACES: usize = 4 * SAMPLE as usize;
/// An observation ends after this number of times the extents of the cache were offered: admitted content stays about
/// as long if half of the content is refused.
const TURNS: u64 = 2;
/// Reads that count for one content: more do not make it worth more, since heat decides then.
const READS_MAX: u8 = 3;
/// Number of observations after which older ones count half.
const MEMORY: f64 = 1024.0;
/// Number of observations that the assumed worth of a group counts for.
const ASSUMED_FROM: f64 = 16.0;

/// Groups of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group(u8);

impl Group {
    const COUNT: usize = 8;

    /// The group of content that would be admitted like this.
    pub(crate) const fn of(from: Provenance, admitted: Admitted) -> Self {
        let written = matches!(from.source, Source::Write);
        Self(written as u8 | (from.used as u8) << 1 | (!admitted.is_new as u8) << 2)
    }

    /// Reads that are assumed before there are observations: few of content that was never seen before.
    const fn assumed(self) -> f64 {
        if self.0 >> 1 == 0 { 0.1 } else { 1.0 }
    }

    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One observed content.
#[derive(Debug, Clone, Copy, Default)]
struct Observed {
    /// The key of its extent; 0: none.
    key: u64,
    /// Number of the observation.
    number: u32,
    group: u8,
    reads: u8,
}

/// The observations of a group, older ones with less weight.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    offered: f64,
    reads: f64,
}

/// The worth of each group.
#[derive(Debug)]
pub(crate) struct Worth {
    places: Box<[Observed]>,
    tallies: [Tally; Group::COUNT],
    /// A hash below this belongs to the sample.
    below: u64,
    seed: u64,
    /// Number of observations so far.
    number: u32,
    /// Number of later observations after which one has ended.
    ends_after: u32,
    /// The share in 256ths of each group that is refused.
    refused: [u16; Group::COUNT],
}

impl Worth {
    /// For a cache of `extents`.
    pub(crate) fn new(extents: u64, seed: u64) -> Self {
        let extents = extents.max(1);
        let below = if extents <= SAMPLE { u64::MAX } else { u64::MAX / extents * SAMPLE };
        Self {
            places: vec![Observed::default(); PLACES].into(),
            tallies: [Tally::default(); Group::COUNT],
            below,
            seed: mix(seed ^ 0x776f_7274),
            number: 0,
            ends_after: (TURNS * extents.min(SAMPLE)) as u32,
            refused: [0; Group::COUNT],
        }
    }

    /// RAM in bytes.
    pub(crate) const fn ram_bytes() -> u64 {
        (PLACES * size_of::<Observed>() + size_of::<Self>()) as u64
    }

    /// The place of an extent, if it is in the sample.
    fn place(&self, key: ExtentKey) -> Option<usize> {
        let hash = mix(key.raw() ^ self.seed);
        (hash <= self.below).then(|| mix(hash) as usize % PLACES)
    }

    /// Notes that content of an extent is offered.
    pub(crate) fn offered(&mut self, key: ExtentKey, group: Group) {
        let Some(place) = self.place(key) else { return };
        self.number = self.number.wrapping_add(1);
        self.places[place] = Observed { key: key.raw(), number: self.number, group: group.0, reads: 0 };
        let tally = &mut self.tallies[group.index()];
        tally.offered += 1.0;
        if tally.offered > MEMORY {
            *tally = Tally { offered: tally.offered / 2.0, reads: tally.reads / 2.0 };
        }
    }

    /// Notes that an extent is read.
    pub(crate) fn read(&mut self, key: ExtentKey) {
        let Some(place) = self.place(key) else { return };
        let (number, ends_after) = (self.number, self.ends_after);
        let observed = &mut self.places[place];
        let is_over = number.wrapping_sub(observed.number) > ends_after || observed.reads >= READS_MAX;
        if observed.key == key.raw() && !is_over {
            observed.reads += 1;
            self.tallies[usize::from(observed.group)].reads += 1.0;
        }
    }

    /// Notes that an extent is overwritten or trimmed.
    pub(crate) fn overwritten(&mut self, key: ExtentKey) {
        if let Some(place) = self.place(key)
            && self.places[place].key == key.raw()
        {
            self.places[place] = Observed::default();
        }
    }

    /// Distributes a `share` in 256ths of all content that is to be refused over the groups, the least read first.
    pub(crate) fn refuse(&mut self, share: u16) {
        let total: f64 = self.tallies.iter().map(|tally| tally.offered).sum();
        let mut groups: Vec<u8> = (0..Group::COUNT as u8).collect();
        groups.sort_by(|a, b| self.reads_of(Group(*a)).total_cmp(&self.reads_of(Group(*b))));
        let mut left = f64::from(share) / 256.0 * total;
        for group in groups {
            let offered = self.tallies[usize::from(group)].offered;
            // Of a group without observations, nothing is known: it is refused only after all others.
            let part = if offered > 0.0 {
                (left / offered).min(1.0)
            } else if left > 0.0 {
                f64::from(share) / 256.0
            } else {
                0.0
            };
            self.refused[usize::from(group)] = (part * 256.0) as u16;
            left = (left - offered).max(0.0);
        }
    }

    /// The reads that content of a group can expect.
    fn reads_of(&self, group: Group) -> f64 {
        let Tally { offered, reads } = self.tallies[group.index()];
        (reads + ASSUMED_FROM * group.assumed()) / (offered + ASSUMED_FROM)
    }

    /// Whether content of a group is refused; `draw` is a random number.
    pub(crate) fn refuses(&self, group: Group, draw: u64) -> bool {
        draw % 256 < u64::from(self.refused[group.index()])
    }
}

//! Which workloads there are, and what each may have.

use crate::Terms;
use nitro_port::WorkKind;

/// Kinds of work that share what they may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Workload {
    /// Clients that read and write at random.
    Random,
    /// Clients that read and write in order: backups and restores.
    Streams,
    /// What no client waits for.
    Background,
}

impl Workload {
    /// The number of them.
    pub const COUNT: usize = 3;
    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [Self::Random, Self::Streams, Self::Background];

    /// The workload of a kind of work.
    #[must_use]
    pub const fn of(kind: WorkKind) -> Self {
        match kind {
            WorkKind::RandomRead | WorkKind::RandomWrite => Self::Random,
            WorkKind::SequentialRead | WorkKind::Ingest => Self::Streams,
            WorkKind::Destage | WorkKind::Collection | WorkKind::Scrub | WorkKind::ReadAhead => Self::Background,
        }
    }

    /// One lower-case word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Streams => "streams",
            Self::Background => "background",
        }
    }

    /// The workloads beside which this one is kept within its share. A share bounds only what others wait for: as long as
    /// these have requests that wait or are under way.
    pub(crate) const fn yields_to(self) -> &'static [Self] {
        match self {
            Self::Random => &[Self::Streams],
            Self::Streams => &[],
            Self::Background => &[Self::Random, Self::Streams],
        }
    }
}

/// The shares of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Percent of the device's time that random work has beside streams.
    pub random_percent: u8,
    /// Percent of it that background work has beside clients.
    pub background_percent: u8,
}

impl Policy {
    /// The default of [`random_percent`](Self::random_percent), as that of Data Domain's systems is (Allu et al., USENIX
    /// ATC 2018, "tunable shares for non sequential workloads, default is 20 %").
    pub const RANDOM_PERCENT: u8 = 20;
    /// The default of [`background_percent`](Self::background_percent).
    pub const BACKGROUND_PERCENT: u8 = 10;

    /// What a workload may have.
    pub(crate) fn terms(&self, workload: Workload) -> Terms {
        let share = |percent: u8| f64::from(percent.clamp(1, 99)) / 100.0;
        let (random, background) = (share(self.random_percent), share(self.background_percent));
        let clients = 1.0 - background;
        match workload {
            Workload::Random => Terms { weight: clients * random, limit: random, ..Terms::default() },
            Workload::Streams => Terms { weight: clients * (1.0 - random), ..Terms::default() },
            Workload::Background => Terms { reservation: background, weight: background, limit: background },
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self { random_percent: Self::RANDOM_PERCENT, background_percent: Self::BACKGROUND_PERCENT }
    }
}

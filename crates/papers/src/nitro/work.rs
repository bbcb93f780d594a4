//! The traces of the evaluation.

use super::plan::Fiu;
use nitro_sim::workload::TraceIdentity;
use nitro_trace::synth::{FiuLike, RandomReads};
use nitro_trace::{Options, Reader, Request, TraceError};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A trace, by its parameters, or by its file.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Like one of the FIU traces.
    Fiu {
        /// The file system.
        fiu: Fiu,
        /// The size, relative to the published trace.
        scale: f64,
        /// The seed.
        seed: u64,
        /// Requests before this time, in nanoseconds, are skipped.
        from_ns: u64,
        /// Whether requests arrive at the same rate all day; otherwise with the trace's daily rhythm.
        steady: bool,
        /// Whether it is read record by record, as it is published; otherwise by the requests that were cut into records.
        records: bool,
        /// What differs from the published figures and the usual assumptions.
        varied: Varied,
    },
    /// Random reads of 8 KiB.
    Random {
        /// Bytes of the working set.
        working_set_bytes: u64,
        /// Bytes of the working set divided by bytes of its distinct content.
        dedup_ratio: u32,
        /// The number of reads.
        requests: u64,
        /// The seed.
        seed: u64,
    },
    /// A recorded trace.
    Recorded {
        /// The file.
        path: Arc<Path>,
        /// What identifies the content of the file.
        identity: Arc<TraceIdentity>,
    },
}

impl Work {
    /// Opens the trace at its beginning.
    ///
    /// # Errors
    /// The parameters are not valid, or the file cannot be read.
    pub fn open(&self) -> Result<Box<dyn Reader>, TraceError> {
        Ok(match self {
            Self::Recorded { path, .. } => return nitro_trace::open(path, &Options::default()),
            &Self::Fiu { fiu, scale, seed, from_ns, steady, records, varied } => {
                let usual = varied.apply(fiu.like(scale, seed));
                let like = if steady { FiuLike { rhythm: 0.0, ..usual } } else { usual };
                match records {
                    true => Box::new(From { reader: like.records()?, from_ns }),
                    false => Box::new(From { reader: like.reader()?, from_ns }),
                }
            }
            &Self::Random { working_set_bytes, dedup_ratio, requests, seed } => {
                let (request_bytes, interval_ns) = (8192, 1000);
                let dedup_ratio = dedup_ratio.into();
                let reads = RandomReads { working_set_bytes, dedup_ratio, request_bytes, requests, interval_ns, seed };
                Box::new(reads.reader()?)
            }
        })
    }

    /// What identifies it: the same in every run of the same version.
    #[must_use]
    pub fn identity(&self) -> TraceIdentity {
        match self {
            Self::Recorded { identity, .. } => TraceIdentity::clone(identity),
            // With all parameters of the generator, not only those that were chosen here.
            Self::Fiu { fiu, scale, seed, varied, .. } => {
                format!("{self:?} {:?}", varied.apply(fiu.like(*scale, *seed))).into()
            }
            Self::Random { .. } => format!("{self:?}").into(),
        }
    }

    /// The text of its identity.
    #[must_use]
    pub fn key(&self) -> String {
        self.identity().as_str().to_owned()
    }

    /// A name for progress lines and reports.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Fiu { fiu, varied, .. } if *varied != Varied::NONE => format!("{}-like trace, {varied}", fiu.name()),
            Self::Fiu { fiu, records: true, .. } => format!("{}-like trace, records", fiu.name()),
            Self::Fiu { fiu, from_ns: 0, .. } => format!("{}-like trace", fiu.name()),
            Self::Fiu { fiu, .. } => format!("{}-like trace, last days", fiu.name()),
            Self::Random { working_set_bytes, dedup_ratio, .. } => {
                format!("random reads of {} MiB, dedup {dedup_ratio}", working_set_bytes >> 20)
            }
            Self::Recorded { path, .. } => path.display().to_string(),
        }
    }
}

/// What is varied in a trace like one of the FIU traces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Varied {
    /// [`FiuLike::reuse`]: more means that requests return later.
    pub reuse: f64,
    /// A factor on the part of the file system that is accessed.
    pub working_set: f64,
    /// A factor on the writes for each read.
    pub writes: f64,
    /// [`FiuLike::initial_dedup`]: the dedup ratio of what the file system held before the trace.
    pub initial_dedup: f64,
}

impl Varied {
    /// Nothing: the published figures, and the usual assumptions.
    pub const NONE: Self = Self { reuse: 0.0, working_set: 1.0, writes: 1.0, initial_dedup: 1.2 };

    /// The trace with these choices. First reads are as many as without
    /// them, as far as they and the first writes can add up to the working set.
    #[must_use]
    pub fn apply(self, usual: FiuLike) -> FiuLike {
        if self == Self::NONE {
            return usual;
        }
        let footprint_share = usual.footprint_share * self.working_set;
        let writes_per_read = usual.writes_per_read * self.writes;
        let reads = usual.blocks / (1.0 + writes_per_read);
        let footprint_blocks = usual.volume_bytes * footprint_share / 4096.0;
        let least = (footprint_blocks - FIRST_WRITES_MAX * (usual.blocks - reads)) / reads;
        let first_read_share = usual.first_read_share.min(FIRST_READS_MAX * footprint_blocks / reads).max(least);
        FiuLike {
            reuse: self.reuse,
            footprint_share,
            writes_per_read,
            first_read_share,
            initial_dedup: self.initial_dedup,
            ..usual
        }
    }
}

/// The most that first reads may be of a varied working set, and first writes of all writes.
const FIRST_READS_MAX: f64 = 0.8;
const FIRST_WRITES_MAX: f64 = 0.9;

impl fmt::Display for Varied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reuse, working_set, writes, initial_dedup } = self;
        write!(f, "reuse {reuse}, working set × {working_set}, writes × {writes}, content before {initial_dedup} : 1")
    }
}

/// Skips the beginning of a trace.
struct From<R> {
    reader: R,
    from_ns: u64,
}

impl<R: Reader> Reader for From<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        while self.reader.next(request)? {
            if request.time_ns >= self.from_ns {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.reader)
    }
}

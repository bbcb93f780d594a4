//! Writes the recording, a row group at a time.

use super::Counts;
use super::entry::Entry;
use nitro_port::codec::Compressor;
use nitro_trace::parquet::ParquetWriter;
use nitro_trace::{ObjectName, Request, TraceError};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A row group is written when it has so many requests, or fingerprints, or is this old.
const GROUP_REQUESTS_MAX: usize = 1 << 15;
const GROUP_PRINTS_MAX: usize = 1 << 19;
const GROUP_AGE: Duration = Duration::from_secs(10);
/// A file has room for 32767 row groups: therefore the maximum age of a row group grows by this fraction of the
/// recording's age.
const AGE_PART: u32 = 1000;

/// The writer, and the requests of the next row group.
pub(super) struct Scribe {
    writer: Option<ParquetWriter<File>>,
    compressor: Compressor,
    group: Vec<Request>,
    prints: usize,
    begun: Instant,
    group_begun: Instant,
    counts: Arc<Counts>,
}

impl Scribe {
    pub(super) fn new(file: File, counts: Arc<Counts>) -> Result<Self, TraceError> {
        let source = concat!("recorded by nitro serve ", env!("CARGO_PKG_VERSION"));
        let writer = ParquetWriter::new(file, &[("source", source)])?.recoverable();
        let now = Instant::now();
        Ok(Self {
            writer: Some(writer),
            compressor: Entry::compressor(),
            group: Vec::new(),
            prints: 0,
            begun: now,
            group_begun: now,
            counts,
        })
    }

    /// Sets the name of an object.
    pub(super) fn name(&mut self, object: u32, name: &ObjectName) {
        if let Some(writer) = &mut self.writer {
            writer.name_object(object, name);
        }
    }

    pub(super) fn add(&mut self, entry: Entry) -> Result<(), TraceError> {
        let request = entry.request(&mut self.compressor);
        let bytes = entry.content.bytes();
        drop(entry);
        self.counts.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.counts.recorded.fetch_add(1, Ordering::Relaxed);
        self.prints += request.fingerprints.len();
        self.group.push(request);
        let full = self.group.len() >= GROUP_REQUESTS_MAX || self.prints >= GROUP_PRINTS_MAX;
        if full || self.patience().is_zero() { self.end_group() } else { Ok(()) }
    }

    /// The time until the row group is written.
    pub(super) fn patience(&self) -> Duration {
        let age_max = GROUP_AGE.max(self.begun.elapsed() / AGE_PART);
        age_max.saturating_sub(self.group_begun.elapsed())
    }

    /// Writes the row group, with its requests in the order of arrival.
    pub(super) fn end_group(&mut self) -> Result<(), TraceError> {
        self.group.sort_by_key(|request| request.time_ns);
        if let Some(writer) = &mut self.writer {
            self.group.iter().try_for_each(|request| writer.write(request))?;
            writer.end_group()?;
        }
        self.group.clear();
        self.prints = 0;
        self.group_begun = Instant::now();
        Ok(())
    }

    /// Stops recording: all further requests are omitted.
    pub(super) fn fail(&mut self) {
        self.counts.failed.store(true, Ordering::Relaxed);
        self.writer = None;
    }

    pub(super) fn finish(mut self) -> Result<(), TraceError> {
        self.end_group()?;
        let dropped = self.counts.dropped.load(Ordering::Relaxed).to_string();
        match self.writer.take() {
            Some(mut writer) => {
                writer.note("left_out", &dropped);
                writer.finish().map(drop)
            }
            None => Ok(()),
        }
    }
}

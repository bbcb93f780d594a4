//! A trace file that reports when it has no request.

use super::EventName;
use clap::ValueEnum;
use nitro_trace::format::BlockEvent;
use nitro_trace::{ErrorKind, Others, Place, Reader, Request, TraceError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Warnings that were not shown yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Takes the warnings so far.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, warning: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }
}

/// The reader of a file. At the end of a file without requests, it adds a warning that names the records that the file
/// has instead; if no record of the file could be read, it fails.
pub(super) struct OfFile {
    reader: Box<dyn Reader>,
    path: PathBuf,
    has_requests: bool,
    warnings: Warnings,
}

impl OfFile {
    pub(super) fn new(reader: Box<dyn Reader>, path: &Path, warnings: &Warnings) -> Self {
        Self { reader, path: path.to_owned(), has_requests: false, warnings: warnings.clone() }
    }

    fn check_empty(&self) -> Result<(), TraceError> {
        let (others, skipped) = (self.reader.others(), self.reader.skipped().count);
        if others.count() == 0 && skipped > 0 {
            let reason = format_args!("none of its {skipped} records could be read").to_string();
            return Err(TraceError::new(ErrorKind::UnknownFormat, Place::Whole, reason).in_file(&self.path));
        }
        self.warnings.add(format!("{}: {}", self.path.display(), without_requests(&others, skipped)));
        Ok(())
    }
}

/// Why a trace has no requests.
fn without_requests(others: &Others, skipped: u64) -> String {
    if others.count() == 0 {
        return "no request: it has no records".to_owned();
    }
    let mut text = format!("no request: its records are {others}");
    if skipped > 0 {
        text += &format!(", and {skipped} that cannot be read");
    }
    let events = EventName::value_variants().iter().filter(|event| others.contains(BlockEvent::from(**event).kind()));
    let names: Vec<_> = events.filter_map(ValueEnum::to_possible_value).collect();
    let names: Vec<_> = names.iter().map(|name| format!("--event {}", name.get_name())).collect();
    if !names.is_empty() {
        text += &format!("; {} takes such events as requests", names.join(" or "));
    }
    text
}

impl Reader for OfFile {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let more = self.reader.next(request)?;
        if !more && !self.has_requests {
            self.check_empty()?;
        }
        self.has_requests |= more;
        Ok(more)
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.reader)
    }
}

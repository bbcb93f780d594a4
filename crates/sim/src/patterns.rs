//! Classes by the pattern of the requests, as in the server.

use crate::workload::Piece;
use hashbrown::HashMap;
use nitro_cache::admission::Source;
use nitro_cache::pattern::RunDetector;
use nitro_trace::Op;
use nitro_units::ObjectId;

/// The runs of all objects of a trace.
#[derive(Default)]
pub(crate) struct Patterns {
    by_object: HashMap<ObjectId, RunDetector>,
    /// The pieces of the current request, with the class by its pattern.
    request: Vec<Piece>,
}

impl Patterns {
    /// Notes a request, and returns its pieces with the class by its pattern; `None`: it has another class, or is neither
    /// a read nor a write.
    pub(crate) fn classified(&mut self, request: &[Piece], extent_bytes: u32) -> Option<Vec<Piece>> {
        let first = &request[0];
        let source = match first.op() {
            Op::Read => Source::Read,
            Op::Write => Source::Write,
            _ => return None,
        };
        let offset = first.key.index().offset(extent_bytes.into()) + u64::from(first.offset);
        let len = request.iter().map(|piece| u64::from(piece.len)).sum();
        let class = self.by_object.entry(first.key.object()).or_default().note(source, offset, len);
        if first.class().is_classified() {
            return None;
        }
        let mut classified = std::mem::take(&mut self.request);
        classified.clear();
        classified.extend(request.iter().map(|piece| piece.with_class(class)));
        Some(classified)
    }

    /// Takes back the pieces of a request, to use their memory for the next one.
    pub(crate) fn done(&mut self, request: Vec<Piece>) {
        self.request = request;
    }
}

//! A generation of the manifest: which segments the volume has, and what has changed since they were written.

use super::header::Header;
use super::name::Id;
use super::snapshot::{SNAPSHOTS_MAX, Snapshot};
use super::{VERSION, close_version, open_version};
use crate::runs::Runs;
use bytes::Bytes;
use nitro_log::{FormatError, Reader};

const MAGIC: &[u8; 8] = b"NITROS3G";
const NAME: &str = "manifest";
/// The version of those that have snapshots, or of a volume that has grown: who does not know them must not delete what they need.
const VERSION_WITH_TAIL: u32 = 2;

/// The most runs of a manifest: when there are more, segments are written anew.
pub const RUNS_MAX: usize = 2048;
/// The texts that a volume keeps beside its content.
pub const NOTES: usize = 2;
/// The most bytes of one of them.
pub const NOTE_BYTES_MAX: usize = 4096;
const FIXED_BYTES: usize = 16 + 8 * 4 + 4 * 2 + 4 * NOTES;
const SEGMENT_BYTES: usize = 16;
const RUN_BYTES: usize = 32;
/// The size, and the number of snapshots.
const TAIL_BYTES: usize = 8 + 4;
/// The most bytes of an encoded manifest.
pub const MANIFEST_BYTES_MAX: u64 = 16
    + FIXED_BYTES as u64
    + Header::CHUNKS_MAX.div_ceil(super::SEGMENT_CHUNKS) * SEGMENT_BYTES as u64
    + (RUNS_MAX * RUN_BYTES) as u64
    + (NOTES * NOTE_BYTES_MAX) as u64
    + (TAIL_BYTES + SNAPSHOTS_MAX * Snapshot::BYTES) as u64;

/// Chunks that follow each other: all holes, or one chunk with its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first chunk.
    pub first: u64,
    /// Their number, from 1.
    pub count: u64,
    /// The object, of a single chunk.
    pub id: Id,
}

/// A generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The volume.
    pub uuid: [u8; 16],
    /// The number of the generation.
    pub generation: u64,
    /// A random number: who wrote it recognises it.
    pub nonce: u64,
    /// The generation with which its writer opened the volume: its own number says that it is that one.
    pub opened: u64,
    /// When the volume was changed last, in nanoseconds since 1970 by the clock of the writer.
    pub changed_ns: u64,
    /// The object of each segment.
    pub segments: Vec<Id>,
    /// What has changed since the segments were written, in order, at most [`RUNS_MAX`].
    pub runs: Vec<Run>,
    /// What those who serve the volume tell each other, at most [`NOTE_BYTES_MAX`] each.
    pub notes: [Bytes; NOTES],
    /// The size of the volume in bytes, if it has grown; `None`: that of its header.
    pub grown_bytes: Option<u64>,
    /// The snapshots, at most [`SNAPSHOTS_MAX`].
    pub snapshots: Vec<Snapshot>,
}

impl Manifest {
    /// The header of the volume, with the size that it has.
    #[must_use]
    pub fn header(&self, header: &Header) -> Header {
        Header { size_bytes: self.grown_bytes.unwrap_or(header.size_bytes), ..*header }
    }

    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let notes_len: usize = self.notes.iter().map(Bytes::len).sum();
        let len = FIXED_BYTES + self.segments.len() * SEGMENT_BYTES + self.runs.len() * RUN_BYTES + notes_len;
        let mut content = Vec::with_capacity(len);
        content.extend_from_slice(&self.uuid);
        for field in [self.generation, self.nonce, self.opened, self.changed_ns] {
            content.extend_from_slice(&field.to_le_bytes());
        }
        for count in [self.segments.len(), self.runs.len()].into_iter().chain(self.notes.iter().map(Bytes::len)) {
            content.extend_from_slice(&(count as u32).to_le_bytes());
        }
        for id in &self.segments {
            content.extend_from_slice(&id.generation.to_le_bytes());
            content.extend_from_slice(&id.nonce.to_le_bytes());
        }
        for run in &self.runs {
            for field in [run.first, run.count, run.id.generation, run.id.nonce] {
                content.extend_from_slice(&field.to_le_bytes());
            }
        }
        self.notes.iter().for_each(|note| content.extend_from_slice(note));
        if self.grown_bytes.is_none() && self.snapshots.is_empty() {
            return close_version(MAGIC, VERSION, &content);
        }
        content.extend_from_slice(&self.grown_bytes.unwrap_or(0).to_le_bytes());
        content.extend_from_slice(&(self.snapshots.len() as u32).to_le_bytes());
        self.snapshots.iter().for_each(|snapshot| snapshot.encode(&mut content));
        close_version(MAGIC, VERSION_WITH_TAIL, &content)
    }

    /// Reads the stored form of a generation of a volume.
    ///
    /// # Errors
    /// It is damaged, of another version, or says what cannot be.
    pub fn decode(bytes: &[u8], header: &Header) -> Result<Self, FormatError> {
        let (version, content) = open_version(NAME, MAGIC, VERSION_WITH_TAIL, bytes)?;
        let mut fields = Reader::new(NAME, content);
        let uuid = fields.array()?;
        let [generation, nonce, opened, changed_ns] = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        if generation == 0 || opened == 0 || opened > generation {
            return Err(fields.refuse("generation", generation));
        }
        let [segments_len, runs_len] = [fields.u32()?, fields.u32()?];
        if u64::from(segments_len) > Header::SEGMENTS_MAX {
            return Err(fields.refuse("number of segments", segments_len.into()));
        }
        if runs_len as usize > RUNS_MAX {
            return Err(fields.refuse("number of runs", runs_len.into()));
        }
        let mut note_lens = [0; NOTES];
        for len in &mut note_lens {
            *len = fields.u32()? as usize;
            if *len > NOTE_BYTES_MAX {
                return Err(fields.refuse("length of a note", *len as u64));
            }
        }
        let (segments_len, runs_len) = (segments_len as usize, runs_len as usize);
        let notes_len: usize = note_lens.iter().sum();
        let notes_at = FIXED_BYTES + segments_len * SEGMENT_BYTES + runs_len * RUN_BYTES;
        let (grown_bytes, snapshots) = match version {
            VERSION if content.len() == notes_at + notes_len => (None, Vec::new()),
            VERSION_WITH_TAIL if content.len() > notes_at + notes_len => {
                tail(&content[notes_at + notes_len..], header, generation)?
            }
            _ => return Err(fields.refuse("length", content.len() as u64)),
        };
        let header = Header { size_bytes: grown_bytes.unwrap_or(header.size_bytes), ..*header };
        if segments_len as u64 != header.segments() {
            return Err(fields.refuse("number of segments", segments_len as u64));
        }
        let mut segments = Vec::with_capacity(segments_len);
        for _ in 0..segments_len {
            segments.push(Id { generation: fields.u64()?, nonce: fields.u64()? });
        }
        let (mut runs, mut end) = (Vec::with_capacity(runs_len), 0);
        for _ in 0..runs_len {
            let [first, count, generation, nonce] = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
            let run = Run { first, count, id: Id { generation, nonce } };
            let behind = first.checked_add(count).filter(|behind| *behind <= header.chunks());
            let is_one = count == 1 || (count > 1 && run.id.is_hole());
            match behind {
                Some(behind) if first >= end && is_one => end = behind,
                _ => return Err(fields.refuse("first chunk of a run", first)),
            }
            runs.push(run);
        }
        let (mut notes, mut at) = ([const { Bytes::new() }; NOTES], notes_at);
        for (note, len) in notes.iter_mut().zip(note_lens) {
            *note = Bytes::copy_from_slice(content.get(at..at + len).unwrap_or_default());
            at += len;
        }
        Ok(Self { uuid, generation, nonce, opened, changed_ns, segments, runs, notes, grown_bytes, snapshots })
    }

    /// The runs as a map.
    #[must_use]
    pub(crate) fn changes(&self) -> Runs {
        let mut runs = Runs::default();
        self.runs.iter().for_each(|run| runs.set(run.first, run.count, run.id));
        runs
    }
}

/// The size, if the volume has grown, and the snapshots, of which there is something.
fn tail(content: &[u8], header: &Header, generation: u64) -> Result<(Option<u64>, Vec<Snapshot>), FormatError> {
    let mut fields = Reader::new(NAME, content);
    let [size_bytes, count] = [fields.u64()?, fields.u32()?.into()];
    let grown_bytes = (size_bytes != 0).then_some(size_bytes);
    if let Some(size_bytes) = grown_bytes
        && (size_bytes <= header.size_bytes || (Header { size_bytes, ..*header }).refused().is_some())
    {
        return Err(fields.refuse("size in bytes", size_bytes));
    }
    let is_nothing = grown_bytes.is_none() && count == 0;
    if is_nothing || count > SNAPSHOTS_MAX as u64 || content.len() != TAIL_BYTES + count as usize * Snapshot::BYTES {
        return Err(fields.refuse("number of snapshots", count));
    }
    let mut snapshots: Vec<Snapshot> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let snapshot = Snapshot::decode(&mut fields, header, generation)?;
        if snapshots.iter().any(|other| other.name == snapshot.name) {
            return Err(fields.refuse("name of a snapshot, again", snapshot.generation));
        }
        snapshots.push(snapshot);
    }
    Ok((grown_bytes, snapshots))
}

//! Snapshots, and growth: each is a generation that says so.
//!
//! A snapshot is a generation that was written: its manifest is copied to an object of its own, which the next generation names. What a
//! snapshot may need is not deleted when it is replaced; a search finds it once the snapshot is deleted.

use super::{State, Volume};
use crate::error::S3Error;
use crate::format::{Header, Id, Manifest, SNAPSHOTS_MAX, Snapshot, snapshot_name};
use crate::store::Store;
use bytes::Bytes;
use nitro_port::Clock;

/// What the next generation is to have.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    Make { name: String, made_ns: u64 },
    Delete { name: String },
    Grow { size_bytes: u64 },
}

impl State {
    /// Whether there is a snapshot, or will be.
    fn has_snapshot(&self, name: &str) -> bool {
        let now = self.snapshots.iter().any(|snapshot| snapshot.name == name);
        self.asked.iter().fold(now, |has, asked| match asked {
            Asked::Make { name: other, .. } if other == name => true,
            Asked::Delete { name: other } if other == name => false,
            _ => has,
        })
    }
}

impl<S, C> Volume<S, C> {
    /// The snapshots, in the order in which they were made.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.state.borrow().snapshots.clone()
    }

    /// The size as manifests have it.
    pub(super) fn grown_bytes(&self, header: &Header) -> Option<u64> {
        Some(header.size_bytes).filter(|size| *size != self.original.size_bytes)
    }
}

impl<S: Store, C: Clock> Volume<S, C> {
    /// Makes a snapshot of all changes that have returned, and perhaps of later ones: of the last generation.
    ///
    /// # Errors
    /// The name is in use or no name, there are too many, another server has taken the volume over, or the store refuses; then it may
    /// be made later.
    pub async fn snapshot(&self, name: &str) -> Result<(), S3Error> {
        if !Snapshot::is_name(name) {
            let why = format!("{name:?} is no name of a snapshot: 1 to 64 letters, digits, and any of -._:");
            return Err(S3Error::Invalid(why));
        }
        self.flush().await?;
        self.ask(|state| {
            if state.has_snapshot(name) {
                return Err(S3Error::Invalid(format!("there is a snapshot {name:?} already")));
            }
            if state.snapshots.len() + state.asked.len() >= SNAPSHOTS_MAX {
                return Err(S3Error::Invalid(format!("it has {SNAPSHOTS_MAX} snapshots: delete some")));
            }
            Ok(Asked::Make { name: name.to_owned(), made_ns: (self.options.now_ns)() })
        })
        .await
    }

    /// Deletes a snapshot. What nothing else needs of it is deleted in the background.
    ///
    /// # Errors
    /// There is none, another server has taken the volume over, or the store refuses; then it may be deleted later.
    pub async fn delete_snapshot(&self, name: &str) -> Result<(), S3Error> {
        self.ask(|state| match state.has_snapshot(name) {
            true => Ok(Asked::Delete { name: name.to_owned() }),
            false => Err(S3Error::NoSnapshot(name.to_owned())),
        })
        .await
    }

    /// Makes the volume larger; what is new reads as zeroes.
    ///
    /// # Errors
    /// It would become smaller or too large, another server has taken the volume over, or the store refuses; then it may grow later.
    pub async fn grow(&self, size_bytes: u64) -> Result<(), S3Error> {
        let before = self.header();
        let header = Header { size_bytes, ..before };
        if size_bytes < before.size_bytes {
            return Err(S3Error::Invalid(format!("it has {} bytes, and cannot become smaller", before.size_bytes)));
        }
        if let Some((field, value)) = header.refused() {
            return Err(S3Error::Invalid(format!("{value} is no {field}")));
        }
        let (last, end) = (before.chunks() - 1, before.chunk_len(before.chunks() - 1));
        if end < before.chunk_bytes {
            // Its object becomes as long as all others.
            self.state.borrow_mut().short = Some((last, end));
            let is_hole = {
                let state = self.state.borrow();
                !state.chunks.contains_key(&last) && state.object(last).is_hole()
            };
            if !is_hole {
                self.change(last, end, Header::BLOCK_BYTES as u32, |overlay| {
                    overlay.zero(end, Header::BLOCK_BYTES as u32);
                })
                .await?;
            }
            self.flush().await?;
        }
        self.ask(|_| Ok(Asked::Grow { size_bytes })).await
    }

    /// Asks for what the next generation is to have, and waits for it.
    async fn ask(&self, what: impl FnOnce(&State) -> Result<Asked, S3Error>) -> Result<(), S3Error> {
        let (wanted, failures) = {
            let mut state = self.state.borrow_mut();
            let asked = what(&state)?;
            state.asked.push(asked);
            state.noted += 1;
            (state.noted, state.failures)
        };
        self.wake_runner();
        self.noted(wanted, failures).await
    }

    /// Size and snapshots of the next generation: makes the objects of new snapshots, of the last generation.
    pub(super) async fn carry_out(&self, asked: &[Asked]) -> Result<(Header, Vec<Snapshot>), S3Error> {
        let (mut header, mut snapshots) = (self.header(), self.snapshots());
        for asked in asked {
            match asked {
                Asked::Make { name, made_ns } => snapshots.push(self.put_snapshot(name, *made_ns).await?),
                Asked::Delete { name } => snapshots.retain(|snapshot| snapshot.name != *name),
                Asked::Grow { size_bytes } => header.size_bytes = header.size_bytes.max(*size_bytes),
            }
        }
        Ok((header, snapshots))
    }

    /// Copies the manifest of the last generation.
    async fn put_snapshot(&self, name: &str, made_ns: u64) -> Result<Snapshot, S3Error> {
        let header = self.header();
        let manifest = {
            let state = self.state.borrow();
            Manifest {
                uuid: header.uuid,
                generation: state.generation,
                nonce: self.store.random(),
                opened: state.opened,
                changed_ns: state.changed_ns,
                segments: state.segments.clone(),
                runs: state.since.iter().collect(),
                // Marks are the volume's.
                notes: Default::default(),
                grown_bytes: self.grown_bytes(&header),
                snapshots: Vec::new(),
            }
        };
        let generation = manifest.generation;
        let id = Id { generation: generation + 1, nonce: self.store.random() };
        self.store.put(&snapshot_name(id), Bytes::from(manifest.encode())).await?;
        Ok(Snapshot { name: name.to_owned(), generation, id, made_ns, size_bytes: header.size_bytes })
    }
}

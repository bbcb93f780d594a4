//! Examines a cache device without starting the cache: [`check`] checks every structure and checksum, [`dirty`] lists
//! dirty data, [`salvage`] extracts dirty data from a damaged device. Nothing here writes to the device.
//!
//! What a crash leaves behind (a last batch of the journal that is torn or ahead of its data, write-evict units without
//! a header) is not damage: [`check`] mentions it in its notes.

mod check;
mod log;
mod logged;
mod report;
mod salvage;
mod slots;
mod verify;
mod view;

pub use check::check;
pub use logged::{LogContents, Logged, LoggedVolume, log_contents, logged};
pub use report::{Counts, HalfReport, JournalReport, Problem, Report, Severity, SuperblockReport, VolumeRange};
pub use salvage::{Dirty, DirtyRange, DirtyVolume, Salvaged, Standing, Trust, Unreadable, dirty, salvage};

//! Write-evict units: the slots of the SSD, their state, and what they hold.

mod entries;
pub mod layout;
mod slots;

pub use layout::{Position, Stored};
pub(crate) use slots::{SlotState, WeuTable};

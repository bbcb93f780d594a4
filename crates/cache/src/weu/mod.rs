//! Write-evict units: the slots of the SSD, their state, what they hold, and the order in which they are evicted.

mod entries;
pub mod layout;
mod lru;
mod slots;

pub use layout::{Position, Stored};
pub(crate) use slots::{SlotState, WeuTable};

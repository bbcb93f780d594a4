//! Write-evict units: the slots of the SSD, their state, and their contents.

mod entries;
mod heat;
pub mod layout;
mod leaving;
mod slots;
mod space;

pub use heat::HEAT_MAX;
pub use layout::{Position, Stored};
pub(crate) use slots::{SlotState, WeuTable};
pub use space::{Space, Unit, UnitState};

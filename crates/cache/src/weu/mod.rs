//! Write-evict units: the slots of the SSD, their state, and their contents.

mod address;
mod bits;
mod entries;
mod heat;
mod heirs;
pub mod layout;
mod leaving;
mod location;
mod packed;
mod slots;
mod space;

pub(crate) use address::{ADDRESS_BITS, Address};
pub use heat::HEAT_MAX;
pub use layout::{Position, Stored};
pub use location::Location;
pub use slots::LostDevices;
pub(crate) use slots::{Sizes, SlotState, WeuTable};
pub use space::{Space, Unit, UnitState};

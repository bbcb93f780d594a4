//! Stores: opening them, and what is done with one that is open, be it here or for a command.

mod act;
pub mod look;
pub mod ssd;
mod store;

pub use act::CosAction;
pub use store::{CosStore, FILE_NAME, device_path, failed, now, open, open_device, open_on, try_open_device};

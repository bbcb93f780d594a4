//! Stores: opening them, and operations on open stores.

mod act;
mod forget;
mod grow;
mod look;
mod make;
mod retention;
pub mod ssd;
mod store;
pub mod transfer;

pub use act::CosAction;
pub use forget::{Forget, timed_name};
pub use grow::{sizes, while_growing};
pub use make::{NewSize, NewSsd, make};
pub use retention::Keep;
pub use store::{
    CosStore, FILE_NAME, StoreDevice, device_path, failed, now, open, open_device, open_on, shared, try_open_device,
};

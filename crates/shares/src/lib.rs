//! Shares of a device's time: which of the requests that wait is next.
//!
//! [`Scheduler`] decides, without I/O and without a clock: it is told of requests, of their ends and of the time. Requests
//! belong to [work](nitro_port::Work). What a request costs is learned from the device, what its work may have is said by
//! a [`Policy`]. [`SharedDevice`] is a device before which requests wait for their turn.
//!
//! The mechanism is mClock's (Gulati, Merchant, Varman: *mClock: Handling Throughput Variability for Hypervisor IO
//! Scheduling*, OSDI 2010): tags for a reservation, a weight and a limit. Costs are times of the device instead of numbers
//! of requests, and the tags exist twice: for [workloads](Workload), and for the groups (volumes) in each.
#![forbid(unsafe_code)]

mod costs;
mod counters;
mod depth;
mod device;
mod gate;
mod policy;
mod queue;
mod request;
mod scheduler;
mod terms;

pub use counters::Counters;
pub use device::SharedDevice;
pub use gate::{Gate, Turn};
pub use policy::{Policy, Workload};
pub use request::{Entry, Next, Request, Running, Ticket, Used};
pub use scheduler::Scheduler;
pub use terms::Terms;

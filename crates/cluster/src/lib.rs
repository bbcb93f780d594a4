//! Who serves a volume, by leases of etcd.
//!
//! Each host has one lease, which it renews. For each volume, there is an *ownership key* in etcd, attached to the lease of the host
//! that serves it: whoever creates the key owns the volume until the key is gone. The revision of the creation is the *fencing
//! number*: it rises from owner to owner, and is in what an owner writes, so that an origin can refuse a former one.
//!
//! [`Machine`] decides, and is pure: what happens is told to it, with the time. [`Tenure`] is what each request of a client asks.
//! A thread ([`join`]) asks etcd what the machine wants to know, by the JSON gateway of etcd's API (version 3.4 and later).
#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod clock;
#[cfg(feature = "client")]
mod error;
mod machine;
#[cfg(feature = "client")]
mod tenure;
#[cfg(feature = "client")]
mod thread;
#[cfg(feature = "wire")]
#[cfg_attr(not(feature = "client"), expect(dead_code, reason = "the client uses it"))]
mod wire;

#[cfg(feature = "client")]
pub use client::{Identity, Place};
#[cfg(feature = "client")]
pub use clock::boot_time;
#[cfg(feature = "client")]
pub use error::ClusterError;
pub use machine::{Answer, Ask, Fence, Held, Key, LeaseId, Machine, News, Order, Terms, Why};
#[cfg(feature = "client")]
pub use tenure::Tenure;
#[cfg(feature = "client")]
pub use thread::{Membership, join, meet};
#[cfg(feature = "wire")]
pub use wire::{FORMAT, Message, parse_answer};

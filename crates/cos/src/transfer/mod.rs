//! Transfers of objects between stores: the sender lists the fingerprints of an object's chunks, the receiver says which of them its
//! store lacks, and only these are sent. See [`format::transfer`](mod@crate::format::transfer) for what is said.
//!
//! What the receiver says that it has, a collection must not free before the object refers to it: it is kept as the chunks of
//! imported streams are ([`unfinished`](crate::unfinished)).

mod receive;
mod send;

pub use receive::Receiving;
pub use send::Sending;

use crate::Error;

/// The error of a peer that does not do as it should.
fn refuse<T>(why: &'static str) -> Result<T, Error> {
    Err(Error::Transfer(why))
}

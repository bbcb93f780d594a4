//! Who asks.

use nitro_units::ClassId;

/// Who asks, and for what: goes with each request, since a front end may know the class of a single request (SCSI's group
/// number) and may carry several clients' requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Requester {
    /// The client: requests with the same number come from the same one. Numbers are the server's.
    pub client: u64,
    /// The request's class; `None`: the disk's usual one.
    pub class: Option<ClassId>,
}

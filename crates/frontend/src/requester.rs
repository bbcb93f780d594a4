//! The sender of a request.

use nitro_units::ClassId;

/// The sender and the class of a request. It is passed with each request, since a front end may know the class of a
/// single request (SCSI's group number), and may serve several clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Requester {
    /// The client: requests with the same number come from the same one. The server assigns the numbers.
    pub client: u64,
    /// The request's class; `None`: the disk's default.
    pub class: Option<ClassId>,
}

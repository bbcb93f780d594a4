//! Operations on stores that take long: transfers between a store and files, on several threads of which each fills a
//! container of its own, checks, and collections. A command carries them out itself, or a server for it.

mod export;
mod import;
mod job;
mod link;
mod pace;
mod producer;
mod receive;
mod send;
mod source;
mod threads;
mod watch;

pub use export::{Sink, Target};
pub use import::Imported;
pub use job::{Job, Report};
pub use pace::Pace;
pub use producer::Producer;
pub use receive::Received;
pub use send::Sent;
pub(super) use threads::pause;
pub(super) use watch::ended;
pub use watch::{Unit, Watch};

//! Transfers between a store and files, on several threads: each fills a container of its own.

mod export;
mod import;
mod producer;
mod source;
mod threads;

pub use export::{Export, export};
pub use import::{Content, Import, Imported, import};

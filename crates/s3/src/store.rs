//! What a volume needs of a store of objects: a small part of S3. A name is the part of an object's key below the volume's prefix.

use crate::error::StoreError;
use bytes::Bytes;
use std::ops::Range;

/// The outcome of a conditional put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// There was no object of that name, and now it is this one.
    Created,
    /// There is an object of that name, or another put is under way.
    Exists,
}

/// A store of objects. Each method makes one request, and does not try again. Dropping a future does not undo its request.
pub trait Store: 'static {
    /// Puts an object if there is none of that name (`If-None-Match: *`).
    fn put_new(&self, name: &str, data: Bytes) -> impl Future<Output = Result<Put, StoreError>>;

    /// Puts an object.
    fn put(&self, name: &str, data: Bytes) -> impl Future<Output = Result<(), StoreError>>;

    /// A part of an object, or less if the object ends before; `None`: there is no such object. Never more than was asked for.
    fn get(&self, name: &str, part: Range<u64>) -> impl Future<Output = Result<Option<Bytes>, StoreError>>;

    /// Names in a folder in order, beginning behind `after`, at most a thousand; none: there are no more.
    fn list(&self, folder: &str, after: Option<&str>) -> impl Future<Output = Result<Vec<String>, StoreError>>;

    /// Deletes objects, at most a thousand. Those that do not exist are deleted already.
    fn delete(&self, names: &[String]) -> impl Future<Output = Result<(), StoreError>>;
}

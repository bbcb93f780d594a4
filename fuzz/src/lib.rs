//! What the fuzz targets share: an NBD server in memory, messages of a client, and a gauge for memory.

pub mod gauge;
pub mod nbd;
pub mod wire;

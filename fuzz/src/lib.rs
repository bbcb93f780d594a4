//! What the fuzz targets share: an NBD server and an NBD client in memory, the control connection of a vhost-user-blk device, messages of a client, what holds of traces, and a gauge for memory.

pub mod gauge;
pub mod iscsi;
pub mod nbd;
pub mod nbd_client;
pub mod trace;
pub mod vhost;
pub mod wire;

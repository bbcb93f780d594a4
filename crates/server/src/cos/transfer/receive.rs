//! The receiver of an object from another store.

use super::link::Link;
use super::{Unit, Watch};
use crate::cos::{CosStore, StoreDevice, failed, now};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::{Message, Offer, Receiving};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Interval in bytes at which a transfer records its progress, so that it can continue from there.
const KEPT_EVERY_BYTES: u64 = 128 << 20;

/// The result of a transfer, as the receiver has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Bytes of the object.
    pub bytes: u64,
    /// Where an earlier transfer had stopped.
    pub resumed_at: u64,
    /// Bytes that came from the sender.
    pub received_bytes: u64,
    /// Bytes by which the store grew, including recipes; with what others stored meanwhile.
    pub stored_bytes: u64,
}

/// Receives an object over a connection from whoever sends it. What was received until the transfer is cut off is kept.
///
/// # Errors
/// The store or the sender fails, or the transfer was ended.
pub(super) async fn receive(
    (store, path): (&Arc<CosStore>, &Path),
    (name, peer): (&str, &str),
    file: File,
    watch: &dyn Watch,
) -> Result<Received, Error> {
    let mut link = Link::new(file, peer, watch)?;
    let received = receive_over(&mut link, (store, path), name, watch).await;
    received.inspect_err(|error| link.fail(error)).map(|received| Received { received_bytes: link.bytes.1, ..received })
}

async fn receive_over(
    link: &mut Link<'_>,
    (store, path): (&Arc<CosStore>, &Path),
    name: &str,
    watch: &dyn Watch,
) -> Result<Received, Error> {
    let fail = |e: nitro_cos::Error| failed(path, &e);
    let before = store.counters().stored_bytes;
    let offer = match link.hear()? {
        Some(Message::Offer(offer)) => offer,
        other => return Err(link.unexpected(other.as_ref())),
    };
    let mut receiving = store.receive(name, &offer, now()).await.map_err(fail)?;
    let resumed_at = receiving.position();
    if resumed_at > 0 {
        watch.note(format!("continuing at {} of {}", Size(resumed_at), Size(offer.size_bytes())));
    }
    let result = async {
        link.say(&Message::Position(resumed_at))?;
        take_all(link, &mut receiving, &offer, path, watch).await
    };
    if let Err(error) = result.await {
        receiving.keep().await.map_err(fail)?;
        let at = receiving.position().min(offer.size_bytes());
        return Err(error.or(format_args!(
            "the same `nitro cos send` continues it; {} of {} are here",
            Size(at),
            Size(offer.size_bytes())
        )));
    }
    receiving.finish().await.map_err(fail)?;
    let stored_bytes = store.counters().stored_bytes - before;
    link.say(&Message::Done(stored_bytes))?;
    Ok(Received { bytes: offer.size_bytes(), resumed_at, stored_bytes, ..Received::default() })
}

async fn take_all(
    link: &mut Link<'_>,
    receiving: &mut Receiving<StoreDevice>,
    offer: &Offer,
    path: &Path,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let fail = |e: nitro_cos::Error| failed(path, &e);
    let mut kept = receiving.position();
    loop {
        match link.hear()? {
            Some(Message::List(list)) => {
                let offset = list.offset();
                let lacks = receiving.list(list).await.map_err(fail)?;
                link.say(&Message::Lacks(offset, lacks))?;
            }
            Some(chunks @ Message::Chunks(..)) => receiving.chunks(&chunks).await.map_err(fail)?,
            Some(Message::End) => return Ok(()),
            other => return Err(link.unexpected(other.as_ref())),
        }
        let at = receiving.position();
        watch.show("received", Unit::Bytes, at.min(offer.size_bytes()), offer.size_bytes());
        if at >= kept.saturating_add(KEPT_EVERY_BYTES) {
            receiving.keep().await.map_err(fail)?;
            kept = at;
        }
    }
}

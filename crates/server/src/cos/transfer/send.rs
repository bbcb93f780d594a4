//! The sender of an object to another store.

use super::link::Link;
use super::{Unit, Watch};
use crate::cos::{CosStore, failed};
use nitro_console::error::Error;
use nitro_cos::Message;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Lists that are under way while the first one is not answered: so that the answers take no time. Their answers fit into any
/// pipe, so that none of both sides waits for the other one to read.
const LISTS_AHEAD: usize = 4;

/// The result of a transfer, as the sender has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Bytes of the object.
    pub bytes: u64,
    /// Where an earlier transfer had stopped.
    pub resumed_at: u64,
    /// Bytes that went to the receiver.
    pub sent_bytes: u64,
    /// Bytes that came from it.
    pub received_bytes: u64,
    /// Bytes by which the receiver's store grew, including recipes; with what others stored there meanwhile.
    pub stored_bytes: u64,
}

/// Sends an object over a connection to whoever receives it.
///
/// # Errors
/// The store or the receiver fails, or the transfer was ended.
pub(super) async fn send(
    (store, path): (&Arc<CosStore>, &Path),
    (name, peer): (&str, &str),
    file: File,
    watch: &dyn Watch,
) -> Result<Sent, Error> {
    let mut link = Link::new(file, peer, watch)?;
    let sent = send_over(&mut link, (store, path), name, watch).await;
    sent.inspect_err(|error| link.fail(error)).map(|sent| {
        let (sent_bytes, received_bytes) = link.bytes;
        Sent { sent_bytes, received_bytes, ..sent }
    })
}

async fn send_over(
    link: &mut Link<'_>,
    (store, path): (&Arc<CosStore>, &Path),
    name: &str,
    watch: &dyn Watch,
) -> Result<Sent, Error> {
    let fail = |e: nitro_cos::Error| failed(path, &e);
    let mut sending = store.send(name).await.map_err(fail)?;
    let bytes = sending.offer().size_bytes();
    link.say(&Message::Offer(sending.offer().clone()))?;
    let resumed_at = match link.hear()? {
        Some(Message::Position(position)) => position,
        other => return Err(link.unexpected(other.as_ref())),
    };
    sending.begin_at(resumed_at).map_err(fail)?;
    let mut asked = VecDeque::new();
    loop {
        while asked.len() < LISTS_AHEAD {
            let Some(list) = sending.next_list().await.map_err(fail)? else { break };
            link.say(&Message::List(list.clone()))?;
            asked.push_back(list);
        }
        let Some(list) = asked.pop_front() else { break };
        let lacks = match link.hear()? {
            Some(Message::Lacks(offset, lacks)) if offset == list.offset() => lacks,
            other => return Err(link.unexpected(other.as_ref())),
        };
        for group in list.wanted(&lacks).map_err(fail)? {
            link.say(&sending.chunks(&list, &group).await.map_err(fail)?)?;
        }
        watch.show("sent", Unit::Bytes, list.end().min(bytes), bytes);
    }
    link.say(&Message::End)?;
    match link.hear()? {
        Some(Message::Done(stored_bytes)) => Ok(Sent { bytes, resumed_at, stored_bytes, ..Sent::default() }),
        other => Err(link.unexpected(other.as_ref())),
    }
}

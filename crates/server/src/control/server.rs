//! The server of the control socket.

use super::protocol::{Command, Outcome, REQUEST_BYTES_MAX, Request, Response, VERSION};
use super::{operate, report};
use crate::peers::{Place, Places};
use crate::serve::{Served, attach, detach, pause_accepting};
use bytes::Bytes;
use futures_util::future::{Either, select};
use nitro_console::error::Error;
use nitro_device::net::{Accepted, Listener, StreamReader, StreamWriter};
use nitro_device::spawn_local;
use nitro_port::buf::BufMut;
use std::io;
use std::pin::pin;
use std::sync::Arc;

/// Maximum number of clients at a time.
const CLIENTS_MAX: usize = 32;

/// Answers all clients, as long as it is polled.
pub async fn serve(listener: &Listener, served: &Arc<Served>) {
    let places = Places::new(CLIENTS_MAX, CLIENTS_MAX);
    loop {
        let client = match listener.accept().await {
            Ok(client) => client,
            Err(error) => {
                tracing::warn!("cannot accept a control client: {error}");
                pause_accepting().await;
                continue;
            }
        };
        match places.admit(client.peer_identity()) {
            Ok(place) => {
                let served = Arc::clone(served);
                spawn_local(async move {
                    let talking = pin!(converse(client, &place, &served));
                    if let Either::Left((Err(error), _)) = select(talking, pin!(place.dismissed.wait())).await {
                        tracing::debug!("a control client was dropped: {error}");
                    }
                });
            }
            Err(reason) => tracing::warn!("refused a control client: {reason}"),
        }
    }
}

/// Answers one client until it leaves. Between its requests it may be dismissed to make room for another client.
async fn converse(client: Accepted, place: &Place, served: &Arc<Served>) -> io::Result<()> {
    let (mut reader, mut writer) = client.into_split()?;
    let mut received = Vec::new();
    while let Some(line) = read_line(&mut reader, &mut received).await? {
        if !place.settle(true) {
            break;
        }
        if let Ok(Request { version: VERSION, command: Command::Operate { store, job } }) =
            serde_json::from_slice(&line)
        {
            return operate::converse((reader, writer), received, served, (&store, job)).await;
        }
        let answer = answer(&line, served).await;
        place.settle(false);
        send(&mut writer, &answer).await?;
    }
    Ok(())
}

/// The next line, without its end; `None` when the client has left. `received` keeps what follows it.
pub(super) async fn read_line(reader: &mut StreamReader, received: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let mut buf = BufMut::with_len(REQUEST_BYTES_MAX);
    loop {
        if let Some(end) = received.iter().position(|&byte| byte == b'\n') {
            let rest = received.split_off(end + 1);
            received.pop();
            return Ok(Some(std::mem::replace(received, rest)));
        }
        if received.len() >= REQUEST_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the request is too long"));
        }
        let (result, filled) = reader.read(buf, 0).await;
        buf = filled;
        match result? {
            0 => return Ok(None),
            count => received.extend_from_slice(&buf[..count]),
        }
    }
}

async fn answer(line: &[u8], served: &Arc<Served>) -> Response {
    let empty = Response::empty();
    let refuse = |error: String| Response { error: Some(error), ..empty.clone() };
    match serde_json::from_slice::<Request>(line) {
        Ok(Request { version: VERSION, command: Command::Status }) => {
            Response { status: Some(report::status(served)), ..empty }
        }
        Ok(Request { version: VERSION, command: Command::Explain { volume, offset } }) => {
            match report::explanation(served, &volume, offset) {
                Ok(explained) => Response { explained: Some(explained), ..empty },
                Err(error) => refuse(error.to_string()),
            }
        }
        Ok(Request { version: VERSION, command: Command::Settings }) => {
            Response { settings: Some(served.settings()), ..empty }
        }
        Ok(Request { version: VERSION, command }) => match execute(command, served).await {
            Ok(done) => Response { done: Some(done), ..empty },
            Err(error) => refuse(error.to_string()),
        },
        Ok(request) => {
            refuse(format!("version {} of the control protocol is not supported, only {VERSION}", request.version))
        }
        Err(error) => refuse(format!("malformed request: {error}")),
    }
}

/// Carries out a command.
///
/// # Errors
/// It is refused, or fails.
pub(crate) async fn execute(command: Command, served: &Arc<Served>) -> Result<Outcome, Error> {
    match command {
        // Answered without waiting.
        Command::Status | Command::Settings | Command::Explain { .. } => Ok(Outcome::default()),
        Command::Operate { .. } => Err(Error::new("operation", "it takes a connection of the control socket")),
        Command::Flush { volume, wait } => served.flush(&volume, wait).await,
        Command::VolumeSet { volume, mode, dirty_share_min, dirty_share_max, write_policy, pause_fill } => {
            let filled = pause_fill.map(|paused| served.pause_fill(&volume, paused)).transpose()?;
            let others = mode.is_some() || dirty_share_min.or(dirty_share_max).is_some() || write_policy.is_some();
            match filled.filter(|_| !others) {
                Some(done) => Ok(done),
                None => served.set(&volume, mode, (dirty_share_min, dirty_share_max), write_policy).await,
            }
        }
        Command::Pin { volume, offset, length } => served.pin(&volume, offset, length, true).await,
        Command::Unpin { volume, offset, length } => served.pin(&volume, offset, length, false).await,
        Command::Warm { volume, offset, length } => served.warm(&volume, offset, length).await,
        Command::ClassSet { cache, class, change } => served.change_class(cache.as_deref(), &class, &change),
        Command::ClassLoad { cache, table } => served.load_classes(cache.as_deref(), &table),
        Command::CacheDetach { cache, volume } => served.detach(&cache, &volume).await,
        Command::CacheAttach { cache, volume } => served.attach(&cache, &volume).await,
        Command::Cos { store, action } => served.act_on_store(&store, &action).await,
        Command::Bucket { uri, action } => served.act_on_bucket(&uri, &action).await,
        Command::Attach { volume, block_bytes } => attach(served, &volume, block_bytes).await,
        Command::Detach { volume } => detach(served, &volume).await,
        Command::Reload => served.reload().await,
        Command::Set { key, value } => served.set_key(&key.parse()?, &value).await,
        Command::VolumeResize { volume } => served.grow(&volume).await,
        Command::CacheResize { cache, size_bytes } => served.resize(&cache, size_bytes).await,
        Command::VolumeAdd(wanted) => served.add(*wanted).await,
        Command::VolumeRemove { volume, force_discard_dirty } => served.remove(&volume, force_discard_dirty).await,
    }
}

pub(super) async fn send(writer: &mut StreamWriter, response: &Response) -> io::Result<()> {
    let mut line = serde_json::to_vec(response)?;
    line.push(b'\n');
    writer.write_all(vec![Bytes::from(line)]).await.0
}

//! Receives requests, answers at once those that need no I/O, and starts the others.

use super::check::{Action, Refusal};
use super::state::Session;
use super::{End, status};
use crate::errno::NbdErrno;
use crate::error::{NbdError, Phase};
use crate::link::Receiver;
use crate::protocol::Request;
use crate::transport::ReadHalf;
use bytes::Bytes;
use nitro_frontend::{Cost, Disk, Turn};

/// Bytes of a payload that must have arrived before memory is taken for it. A payload that is announced but not sent
/// takes no memory.
const PAYLOAD_BEGUN_BYTES: usize = 4096;

/// A request that cannot be answered at once.
pub(super) struct Started {
    pub(super) request: Request,
    pub(super) action: Action,
    pub(super) payload: Bytes,
    pub(super) cost: Cost,
}

/// Receives requests until the client disconnects or an error occurs. Passes each request that cannot be answered at
/// once to `start`.
pub(super) async fn read_requests<E: Disk, R: ReadHalf>(
    session: &Session<'_, E>,
    mut receiver: Receiver<R>,
    mut start: impl FnMut(Started),
) -> Result<End, NbdError> {
    let facts = session.facts();
    let header_bytes = session.headers().request_bytes();
    loop {
        if !receiver.fill(header_bytes).await.map_err(NbdError::io(Phase::Receive))? {
            return if receiver.window().is_empty() { Ok(End::HungUp) } else { Err(TRUNCATED) };
        }
        session.turn().await;
        let request = Request::parse(session.headers(), receiver.window())?;
        receiver.consume(header_bytes);
        let action = match facts.check(&request) {
            Ok(Action::Disconnect) => return Ok(End::Disconnected),
            Ok(action) => action,
            Err(refusal) => {
                session.connection.pace.note_answered();
                refuse(session, &mut receiver, &request, refusal).await?;
                continue;
            }
        };
        if let Action::Write { len, .. } = action
            && !receiver.fill((len as usize).min(PAYLOAD_BEGUN_BYTES)).await.map_err(NbdError::io(Phase::Receive))?
        {
            return Err(TRUNCATED);
        }
        let cost = cost(session, &action);
        session.admit(cost).await;
        let mut payload = Bytes::new();
        match action {
            Action::Nothing { read: true } => {
                session.connection.pace.note_answered();
                session.reply_empty_read(cost, &request);
                continue;
            }
            Action::Nothing { read: false } => {
                session.connection.pace.note_answered();
                session.reply_done(cost, &request, Ok(()));
                continue;
            }
            Action::Read { offset, len } => {
                if let Some(result) = session.negotiated.disk.try_read(session.negotiated.requester, offset, len) {
                    session.connection.pace.note_answered();
                    session.reply_read(cost, &request, result.map_err(NbdErrno::from));
                    continue;
                }
            }
            Action::Write { len, .. } => {
                let _turn = session.connection.share.turn(Turn::Payload, u64::from(len));
                let received = receiver.payload(len as usize).await.map_err(NbdError::io(Phase::Receive))?;
                payload = received.ok_or(TRUNCATED)?.freeze();
                session.connection.counts.bytes_written.add(u64::from(len));
            }
            _ => {}
        }
        session.connection.pace.note_begun();
        start(Started { request, action, payload, cost });
    }
}

const TRUNCATED: NbdError = NbdError::Truncated { phase: Phase::Receive };

fn cost<E>(session: &Session<'_, E>, action: &Action) -> Cost {
    match *action {
        Action::Read { offset, len } | Action::Write { offset, len, .. } => {
            let unit = u64::from(session.negotiated.info.block_preferred_bytes);
            Cost::request(touched_bytes(offset, len.into(), unit).min(session.limits.request_bytes_max.max(len).into()))
        }
        Action::BlockStatus { .. } => status::cost(session.headers(), session.negotiated.contexts.iter().count()),
        _ => Cost::request(0),
    }
}

/// Bytes of the units that a range touches. The disk may hold these units in memory as a whole until the reply is sent.
fn touched_bytes(offset: u64, len: u64, unit: u64) -> u64 {
    let unit = unit.max(1);
    (offset % unit + len).div_ceil(unit) * unit
}

async fn refuse<E, R: ReadHalf>(
    session: &Session<'_, E>,
    receiver: &mut Receiver<R>,
    request: &Request,
    refusal: Refusal,
) -> Result<(), NbdError> {
    let payload = request.payload_bytes(session.headers());
    if payload > 0 {
        if payload > session.limits.drain_bytes_max.into() {
            return Err(NbdError::PayloadTooLong { phase: Phase::Receive, bytes: payload });
        }
        if !receiver.skip(payload as usize).await.map_err(NbdError::io(Phase::Receive))? {
            return Err(TRUNCATED);
        }
    }
    tracing::debug!(?request, message = refusal.message, "request refused");
    let cost = Cost::request(0);
    session.admit(cost).await;
    session.reply_error(cost, request, refusal);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_request_holds_the_units_that_it_touches() {
        assert_eq!(touched_bytes(0, 512, 65536), 65536);
        assert_eq!(touched_bytes(65536 - 512, 1024, 65536), 2 * 65536);
        assert_eq!(touched_bytes(65536, 65536, 65536), 65536);
        assert_eq!(touched_bytes(7, 9, 1), 9);
    }
}

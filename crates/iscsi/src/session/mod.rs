//! The full feature phase: commands in, responses out, in whatever order they are done.

mod command;
mod data;
mod execute;
mod manage;
mod reader;
mod reply;
mod state;

use crate::error::IscsiError;
use crate::link::Link;
use crate::login::Params;
use crate::scsi::Facts;
use crate::server::{End, ServerOptions};
use crate::target::{Nexus, Target};
use execute::execute;
use futures_util::future::FusedFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use nitro_frontend::transport::{ReadHalf, WriteHalf};
use nitro_frontend::{Disks, Requester, Turn};
use reader::read_pdus;
use state::{Counts, Session};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

/// What the login agreed on.
pub(crate) struct Scene {
    pub(crate) initiator: String,
    pub(crate) params: Params,
    /// Where the initiator connected to.
    pub(crate) portal: Option<SocketAddr>,
}

/// The logical unit of a session that is not for discovery. The session is over when it is dropped.
pub(crate) struct Unit<D> {
    pub(crate) disk: Arc<D>,
    pub(crate) requester: Requester,
    pub(crate) target: Arc<Target>,
    pub(crate) nexus: Arc<Nexus>,
    pub(crate) facts: Facts,
}

impl<D> Drop for Unit<D> {
    fn drop(&mut self) {
        self.target.leave(&self.nexus);
    }
}

/// What was done in the full feature phase.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    pub(crate) commands: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

/// Rounds in one poll, so that an initiator that is always ready leaves other tasks their turn.
const ROUNDS_MAX: usize = 16;

/// Serves commands until the initiator leaves or `stop` fires; then finishes those in flight, and sends their responses as long as the
/// initiator takes them. `numbers`: the next StatSN, and the next CmdSN.
pub(crate) async fn run<X: Disks, R: ReadHalf, W: WriteHalf>(
    link: Link<R, W>,
    scene: &Scene,
    unit: Option<&Unit<X::Disk>>,
    disks: &X,
    options: &ServerOptions,
    numbers: (u32, u32),
    stop: Pin<&mut impl FusedFuture<Output = ()>>,
) -> (Result<End, IscsiError>, Work) {
    let Link { receiver, mut writer } = link;
    let session = Session::new(scene, unit, options, numbers);
    let tasks = RefCell::new(FuturesUnordered::new());
    let reader = read_pdus(&session, disks, receiver, |started| tasks.borrow_mut().push(execute(&session, started)));
    let result = drive(&session, reader, &tasks, write_replies(&session, &mut writer), stop).await;
    // An initiator that took too long may not take the end of the stream either.
    if !matches!(result, Err(IscsiError::Overdue)) {
        writer.shutdown().await;
    }
    let Counts { commands, bytes_read, bytes_written } = &session.counts;
    (result, Work { commands: commands.get(), bytes_read: bytes_read.get(), bytes_written: bytes_written.get() })
}

/// Polls the parts of a session in turn, as far as its pace allows in one poll: PDUs first, so that responses leave together.
async fn drive<D>(
    session: &Session<'_, D>,
    reader: impl Future<Output = Result<End, IscsiError>>,
    tasks: &RefCell<FuturesUnordered<impl Future<Output = ()>>>,
    writer: impl Future<Output = std::io::Result<()>>,
    mut stop: Pin<&mut impl FusedFuture<Output = ()>>,
) -> Result<End, IscsiError> {
    let mut reader = pin!(Some(reader));
    let mut writer = pin!(Some(writer));
    let mut result = Ok(End::Stopped);
    poll_fn(|context| {
        session.pace.renew();
        if !stop.is_terminated() && stop.as_mut().poll(context).is_ready() {
            reader.set(None);
        }
        if let Some(unit) = session.unit {
            unit.nexus.register(context.waker());
            session.obey();
            if reader.is_some() && unit.nexus.has_ended() {
                // Whoever logged in again does not read here any more.
                result = Ok(End::Replaced);
                reader.set(None);
                writer.set(None);
            }
        }
        if writer.is_some() && session.share.is_overdue(context) {
            result = Err(IscsiError::Overdue);
            writer.set(None);
            reader.set(None);
        }
        for _ in 0..ROUNDS_MAX {
            if let Some(running) = reader.as_mut().as_pin_mut()
                && let Poll::Ready(end) = running.poll(context)
            {
                result = end;
                reader.set(None);
            }
            if reader.is_none() {
                session.leave();
            }
            while !tasks.borrow().is_empty()
                && session.pace.may_end()
                && let Poll::Ready(Some(())) = tasks.borrow_mut().poll_next_unpin(context)
            {
                session.pace.note_ended();
            }
            if reader.is_none() && tasks.borrow().is_empty() {
                session.end_replies();
            }
            if let Some(running) = writer.as_mut().as_pin_mut()
                && let Poll::Ready(end) = running.poll(context)
            {
                if let Err(source) = end
                    && result.is_ok()
                {
                    result = Err(IscsiError::Io(source));
                }
                writer.set(None);
                reader.set(None);
            }
            // Without an initiator, what it asked for is still finished: a write must not stop halfway.
            if writer.is_none() && tasks.borrow().is_empty() {
                return Poll::Ready(());
            }
            if !session.take_changed() {
                if session.pace.has_put_off() || writer.is_some() && session.share.is_overdue(context) {
                    context.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    result
}

/// Sends replies until there will be no more.
async fn write_replies<D>(session: &Session<'_, D>, writer: &mut impl WriteHalf) -> std::io::Result<()> {
    while let Some(batch) = session.next_batch().await {
        let turn = session.share.turn(Turn::Replies, batch.bytes());
        let (result, emptied) = writer.write_all(batch.pieces).await;
        drop(turn);
        result?;
        session.sent(batch.settles, emptied);
    }
    Ok(())
}

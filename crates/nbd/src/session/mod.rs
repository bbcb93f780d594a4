//! The transmission phase: it receives requests and sends replies in the order in which requests are done.

mod check;
mod reader;
mod state;
mod status;

use crate::errno::NbdErrno;
use crate::error::NbdError;
use crate::handshake::Negotiated;
use crate::link::Link;
use crate::protocol::Request;
use crate::server::ServerOptions;
use crate::transport::{ReadHalf, WriteHalf};
use check::Action;
use futures_util::FutureExt as _;
use futures_util::future::{Either, FusedFuture};
use nitro_frontend::{Cost, Disk, DiskError, Tasks, Work, drive, leave};
use nitro_port::yielding::yield_now;
use reader::{Started, read_requests};
use state::Session;
use std::future::Future;
use std::pin::Pin;

/// How a connection ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The client aborted the handshake (`NBD_OPT_ABORT`).
    Aborted,
    /// The client disconnected (`NBD_CMD_DISC`).
    Disconnected,
    /// The client closed the stream between two messages.
    HungUp,
    /// The server was stopped.
    Stopped,
}

/// Bytes of a step of `NBD_CMD_CACHE`.
const CACHE_STEP_BYTES: u64 = 4 << 20;
/// Bytes of a step of other commands whose length does not fit into 32 bits.
const LONG_STEP_BYTES: u64 = 1 << 31;

/// Serves requests until the client disconnects or `stop` completes; then finishes those in flight, and sends their
/// replies as long as the client receives them.
pub(crate) async fn transmit<E: Disk, R: ReadHalf, W: WriteHalf>(
    link: Link<R, W>,
    negotiated: &Negotiated<E>,
    options: &ServerOptions,
    stop: Pin<&mut impl FusedFuture<Output = ()>>,
) -> (Result<End, NbdError>, Work) {
    let Link { receiver, writer } = link;
    let session = Session::new(negotiated, options);
    let tasks = Tasks::default();
    let reader = async {
        let end = read_requests(&session, receiver, |started| tasks.start(execute(&session, started))).await;
        if !matches!(end, Ok(End::Disconnected)) {
            leave(&*negotiated.disk, negotiated.requester).await;
        }
        end
    };
    drive(&session, reader, &tasks, writer, stop).await
}

/// Runs one request and queues its reply. Requests other than reads run in a boxed future: unboxed, the largest of them
/// would determine the size of this future, also for reads.
fn execute<E: Disk>(session: &Session<'_, E>, started: Started) -> impl Future<Output = ()> {
    match started.action {
        Action::Read { .. } => Either::Left(read(session, started.request, started.cost)),
        _ => Either::Right(change(session, started).boxed_local()),
    }
}

/// Runs a read and queues its reply.
#[expect(clippy::manual_async_fn, reason = "the future of an async fn contains its arguments twice")]
fn read<E: Disk>(session: &Session<'_, E>, request: Request, cost: Cost) -> impl Future<Output = ()> {
    async move {
        let Negotiated { disk, requester, .. } = session.negotiated;
        let result = disk.read(*requester, request.offset, request.len as u32).await;
        session.reply_read(cost, &request, result.map_err(NbdErrno::from));
    }
}

/// Runs a request other than a read and queues its reply.
async fn change<E: Disk>(session: &Session<'_, E>, started: Started) {
    let Started { request, action, payload, cost } = started;
    let (disk, from) = (&*session.negotiated.disk, session.negotiated.requester);
    let result = match action {
        Action::BlockStatus { one, .. } => return status::block_status(session, cost, &request, one).await,
        Action::Cache { offset, len } => {
            let step = async |at, len| disk.cache(from, at, len).await;
            return session.reply_done(cost, &request, in_steps(session, CACHE_STEP_BYTES, offset, len, step).await);
        }
        Action::Trim { offset, len, fua } => {
            let step = async |at, len| disk.trim(from, at, len, fua).await;
            return session.reply_done(cost, &request, in_steps(session, step_bytes(len), offset, len, step).await);
        }
        Action::WriteZeroes { offset, len, flags } => {
            let step = async |at, len| disk.write_zeroes(from, at, len, flags).await;
            return session.reply_done(cost, &request, in_steps(session, step_bytes(len), offset, len, step).await);
        }
        Action::Write { offset, fua, .. } => disk.write(from, offset, payload, fua).await,
        Action::Flush => disk.flush(from).await,
        // `execute` runs reads itself, and the reader answers the others.
        Action::Read { .. } | Action::Nothing { .. } | Action::Disconnect => Ok(()),
    };
    session.reply_done(cost, &request, result.map_err(NbdErrno::from));
}

/// Bytes of a step of a command that is passed on whole if its length fits into 32 bits.
fn step_bytes(len: u64) -> u64 {
    if u32::try_from(len).is_ok() { u64::MAX } else { LONG_STEP_BYTES }
}

/// Runs a command over a range in steps. After the client has disconnected, no further step begins.
async fn in_steps<E: Disk>(
    session: &Session<'_, E>,
    step_bytes: u64,
    offset: u64,
    len: u64,
    step: impl AsyncFn(u64, u32) -> Result<(), DiskError>,
) -> Result<(), NbdErrno> {
    let (mut at, end) = (offset, offset + len);
    while at < end {
        if at > offset && session.connection.is_leaving() {
            return Err(NbdErrno::Shutdown);
        }
        // Steps end at multiples of their size, which are extent boundaries: no extent is read twice.
        let next = (at / step_bytes + 1).saturating_mul(step_bytes).min(end);
        step(at, (next - at) as u32).await?;
        at = next;
        if at < end {
            yield_now().await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use nitro_frontend::{DiskInfo, Pieces, Requester, Run, StatusOf, ZeroFlags};
    use std::future::ready;
    use std::task::Poll;

    /// A disk whose reads take [`READ_BYTES`] and whose other futures are large.
    struct Large;

    const READ_BYTES: usize = 432;
    type Done = Result<(), DiskError>;

    /// A future that contains an array of `WORDS` words.
    async fn of_words<const WORDS: usize, T>(result: T) -> T {
        let words = [0_u64; WORDS];
        ready(()).await;
        std::hint::black_box(&words);
        result
    }

    impl Disk for Large {
        fn info(&self) -> DiskInfo {
            DiskInfo::new(1)
        }
        fn read(&self, _: Requester, _: u64, _: u32) -> impl Future<Output = Result<Pieces, DiskError>> {
            Fixed([0; READ_BYTES / 8])
        }
        fn write(&self, _: Requester, _: u64, _: Bytes, _: bool) -> impl Future<Output = Done> {
            of_words::<1000, _>(Ok(()))
        }
        fn flush(&self, _: Requester) -> impl Future<Output = Done> {
            of_words::<1000, _>(Ok(()))
        }
        fn trim(&self, _: Requester, _: u64, _: u32, _: bool) -> impl Future<Output = Done> {
            of_words::<1000, _>(Ok(()))
        }
        fn write_zeroes(&self, _: Requester, _: u64, _: u32, _: ZeroFlags) -> impl Future<Output = Done> {
            of_words::<1000, _>(Ok(()))
        }
        fn cache(&self, _: Requester, _: u64, _: u32) -> impl Future<Output = Done> {
            of_words::<1000, _>(Ok(()))
        }
        fn status(&self, _: StatusOf, _: u64, _: u32) -> impl Future<Output = Result<Vec<Run>, DiskError>> {
            of_words::<1000, _>(Ok(Vec::new()))
        }
    }

    /// A future of [`READ_BYTES`] bytes.
    struct Fixed([u64; READ_BYTES / 8]);

    impl Future for Fixed {
        type Output = Result<Pieces, DiskError>;
        fn poll(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<Self::Output> {
            std::hint::black_box(&self.0);
            Poll::Pending
        }
    }

    fn size<A, B, F>(_: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_of_a_request_is_hardly_larger_than_a_read_of_the_disk() {
        let bytes = size(|session: &'static Session<'static, Large>, started| execute(session, started));
        assert!(bytes <= READ_BYTES + 80, "{bytes} bytes are allocated and moved for each request");
    }
}

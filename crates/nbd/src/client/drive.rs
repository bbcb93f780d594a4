//! Keeps the connections of a client: makes them, moves bytes, and makes them anew when they end.

use super::core::{BUFFER_BYTES_MAX, Core};
use super::counters::NbdMetrics;
use super::error::ClientError;
use super::export::Export;
use super::handshake::{Stream, negotiate};
use super::inbox::Inbox;
use super::receive::receive;
use super::remote::RemoteDisk;
use super::stream::Security;
use crate::link::Link;
use crate::transport::{ReadHalf, WriteHalf};
use futures_util::future::{Either, FutureExt as _, LocalBoxFuture, join_all, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use nitro_port::Clock;
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a server may take for a connection and the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long it may take for a further connection, which can be done without.
const FURTHER: Duration = Duration::from_secs(2);
/// Pauses between attempts: they double from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How often it is looked for whether the server answers.
const WATCH_EVERY: Duration = Duration::from_secs(5);
/// A client that ends waits so long for the requests that are under way.
const LEAVE: Duration = Duration::from_secs(5);
const LEAVE_TURN: Duration = Duration::from_millis(10);

/// How a client gets at a server.
pub trait Connect {
    /// The reading half of a stream.
    type Read: ReadHalf;
    /// The writing half.
    type Write: WriteHalf;

    /// Connects once more. May be dropped at any time.
    fn connect(&self) -> impl Future<Output = io::Result<(Self::Read, Self::Write)>>;
}

/// The options of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The name of the export.
    pub export: String,
    /// What log lines call the server and its export.
    pub label: String,
    /// Whether connections are encrypted.
    pub security: Security,
    /// The most connections, if the server lets a client have several.
    pub connections_max: usize,
    /// The most RAM for what has to be sent again if the server is lost, in bytes.
    pub buffer_bytes_max: u64,
    /// After this time without any answer, a connection is given up if the server answers on a new one. Doubles each time.
    pub patience: Duration,
}

impl ClientOptions {
    /// The usual ones.
    #[must_use]
    pub fn new(export: &str, label: &str, security: Security) -> Self {
        Self {
            export: export.to_owned(),
            label: label.to_owned(),
            security,
            connections_max: 4,
            buffer_bytes_max: BUFFER_BYTES_MAX,
            patience: Duration::from_secs(60),
        }
    }

    /// The RAM that a client takes at most, in bytes, besides the data of requests.
    fn ram_bytes(&self) -> u64 {
        self.buffer_bytes_max + self.connections_max as u64 * crate::RECEIVE_BYTES as u64
    }
}

/// Connections to one export.
struct Session<R, W> {
    links: Vec<Stream<R, W>>,
    export: Export,
}

/// The part of a client that does the work: it has to be [run](Self::run) as long as the [`RemoteDisk`] is used.
pub struct Driver<C: Connect, K> {
    core: RefCell<Core>,
    inbox: Arc<Inbox>,
    options: ClientOptions,
    connect: C,
    clock: K,
    first: Option<Session<C::Read, C::Write>>,
}

/// Connects to a server, and makes a device of its export.
///
/// # Errors
/// There is no connection within 10 s, or the server refuses the export, or the export cannot be a device.
pub async fn open<C: Connect, K: Clock>(
    options: ClientOptions,
    connect: C,
    clock: K,
) -> Result<(RemoteDisk, Driver<C, K>), ClientError> {
    let first = establish(&options, &connect, &clock).await?;
    let geometry = first.export.geometry()?;
    let inbox = Arc::new(Inbox::default());
    let metrics = Arc::new(NbdMetrics::default());
    let core = RefCell::new(Core::new(first.export, options.buffer_bytes_max, Arc::clone(&metrics)));
    let disk = RemoteDisk::new(Arc::clone(&inbox), first.export, geometry, options.ram_bytes(), metrics);
    Ok((disk, Driver { core, inbox, options, connect, clock, first: Some(first) }))
}

/// Connects as often as the server allows.
async fn establish<C: Connect, K: Clock>(
    options: &ClientOptions,
    connect: &C,
    clock: &K,
) -> Result<Session<C::Read, C::Write>, ClientError> {
    let one = |limit: Duration| async move {
        let negotiated = async {
            let (reader, writer) = connect.connect().await?;
            negotiate(reader, writer, &options.export, &options.security).await
        };
        match select(pin!(negotiated), pin!(clock.sleep(limit))).await {
            Either::Left((negotiated, _)) => negotiated,
            Either::Right(_) => Err(ClientError::Late(limit)),
        }
    };
    let (link, export) = one(HANDSHAKE).await?;
    let mut links = vec![link];
    if export.takes_connections() {
        let further = join_all((1..options.connections_max).map(|_| one(FURTHER))).await;
        for found in further {
            match found {
                Ok((link, other)) if other == export => links.push(link),
                Ok(_) => tracing::debug!("{}: a further connection has another export", options.label),
                Err(error) => tracing::debug!(%error, "{}: no further connection", options.label),
            }
        }
    }
    Ok(Session { links, export })
}

impl<C: Connect, K: Clock> Driver<C, K> {
    /// Carries out requests until the [`RemoteDisk`] is dropped.
    pub async fn run(mut self) {
        let (mut next, mut pause) = (self.first.take(), PAUSE_MIN);
        let mut is_first = true;
        loop {
            let Some(session) = next.take() else {
                match self.reconnect(&mut pause).await {
                    Some(session) => next = Some(session),
                    None => return,
                }
                continue;
            };
            let replies = self.core.borrow().replies;
            let instead = RefCell::new(None);
            let ended = self.serve(session, is_first, &instead).await;
            is_first = false;
            let Err(why) = ended else { return };
            let is_lost = {
                let mut core = self.core.borrow_mut();
                core.down();
                core.dispatch();
                if core.replies > replies {
                    pause = PAUSE_MIN;
                }
                core.is_lost()
            };
            if is_lost {
                // What arrives fails.
                return self.arrivals().await;
            }
            tracing::warn!("{}: the connection has ended ({why}); connecting again", self.options.label);
            next = instead.take();
        }
    }

    fn count(&self, counted: impl FnOnce(&NbdMetrics)) {
        counted(&self.core.borrow().metrics);
    }

    /// Connects until there is a connection; `None`: the client ends.
    async fn reconnect(&self, pause: &mut Duration) -> Option<Session<C::Read, C::Write>> {
        let attempts = async {
            let mut said = String::new();
            loop {
                self.clock.sleep(*pause).await;
                *pause = (*pause * 2).min(PAUSE_MAX);
                match establish(&self.options, &self.connect, &self.clock).await {
                    Ok(session) => return session,
                    Err(error) => {
                        self.count(|metrics| metrics.failed_connects.add(1));
                        let why = error.to_string();
                        if why != said {
                            tracing::warn!("{}: no connection: {why}", self.options.label);
                            said = why;
                        }
                    }
                }
            }
        };
        match select(pin!(attempts), pin!(self.arrivals())).await {
            Either::Left((session, _)) => Some(session),
            Either::Right(_) => None,
        }
    }

    /// Carries out requests on the connections of a session until one of them ends. What takes its place may be in
    /// `instead` then.
    async fn serve(
        &self,
        session: Session<C::Read, C::Write>,
        is_first: bool,
        instead: &RefCell<Option<Session<C::Read, C::Write>>>,
    ) -> Result<(), ClientError> {
        let Session { links, export } = session;
        let lanes = links.len();
        let came = self.core.borrow_mut().up(&export, lanes);
        match came {
            Err(why) => return Err(ClientError::Unusable(why.to_string())),
            Ok(_) if is_first => {}
            Ok(bytes) => {
                self.count(|metrics| {
                    metrics.reconnections.add(1);
                    metrics.resent_bytes.add(bytes);
                });
                tracing::info!("{}: connected again; {bytes} bytes are sent again", self.options.label);
            }
        }
        let structured = export.structured;
        let mut parts: FuturesUnordered<LocalBoxFuture<'_, Result<(), ClientError>>> = FuturesUnordered::new();
        for (lane, Link { receiver, writer }) in links.into_iter().enumerate() {
            parts.push(receive(&self.core, lane, structured, receiver).map(|ended| ended.map(never)).boxed_local());
            parts.push(self.send(lane, writer).boxed_local());
        }
        parts.push(self.closing().map(|closed| match closed {}).boxed_local());
        parts.push(self.watch(instead).map(Err).boxed_local());
        let mut left = 0;
        while let Some(ended) = parts.next().await {
            let core = self.core.borrow();
            match ended {
                Err(_) if core.is_leaving() => return Ok(()),
                Err(error) => return Err(error),
                Ok(()) => left += 1,
            }
            if left == lanes {
                break;
            }
        }
        Ok(())
    }

    /// Sends what there is for a connection.
    async fn send(&self, lane: usize, mut writer: impl WriteHalf) -> Result<(), ClientError> {
        while let Some(pieces) = poll_fn(|context| self.core.borrow_mut().poll_out(lane, context)).await {
            writer.write_all(pieces).await.0?;
        }
        writer.shutdown().await;
        Ok(())
    }

    /// Takes requests as they arrive, until the disk is dropped.
    async fn arrivals(&self) {
        poll_fn(|context| {
            self.inbox.poll(context, |jobs| {
                let mut core = self.core.borrow_mut();
                jobs.into_iter().for_each(|job| core.take(job));
                core.dispatch();
            })
        })
        .await;
    }

    /// Takes requests as they arrive; then waits for those under way, and takes leave.
    async fn closing(&self) -> Infallible {
        self.arrivals().await;
        let begun = self.clock.now();
        while !self.core.borrow().is_idle() && self.clock.now().saturating_sub(begun) < LEAVE {
            self.clock.sleep(LEAVE_TURN).await;
        }
        self.core.borrow_mut().leave();
        pending().await
    }

    /// Ends when the server has not answered for long, and a new connection is answered, which is then in `instead`. A server that is
    /// stopped answers none; it goes on where it was. So does one that is slow, unless it lets a client have another connection.
    async fn watch(&self, instead: &RefCell<Option<Session<C::Read, C::Write>>>) -> ClientError {
        let (mut silent, mut patience) = (Duration::ZERO, self.options.patience);
        let mut seen = 0;
        loop {
            self.clock.sleep(WATCH_EVERY).await;
            let (replies, is_waiting) = {
                let core = self.core.borrow();
                (core.replies, core.is_waiting_for_replies())
            };
            silent = if is_waiting && replies == seen { silent + WATCH_EVERY } else { Duration::ZERO };
            seen = replies;
            if silent < patience {
                continue;
            }
            if let Ok(session) = establish(&self.options, &self.connect, &self.clock).await
                && self.core.borrow().replies == seen
            {
                instead.replace(Some(session));
                return ClientError::Silent(silent);
            }
            patience *= 2;
        }
    }
}

fn never(never: Infallible) {
    match never {}
}

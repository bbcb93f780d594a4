//! Actions: the few changes that the holder of the token can make. They are commands of the control socket, and the
//! main thread carries them out as it does those.

use super::answer::Answer;
use super::token::{Gate, Token, Verdict, bearer};
use crate::control::protocol::{Command, Outcome};
use crate::control::server::execute;
use crate::serve::Served;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, StatusCode, header};
use nitro_console::error::Error;
use nitro_device::net::Peer;
use nitro_device::spawn_local;
use nitro_engine::WriteMode;
use serde::Deserialize;
use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

/// The longest body of a request, in bytes, and the time limit for it.
const BODY_BYTES_MAX: usize = 4096;
const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// Actions in progress; more are refused.
const ACTIONS_MAX: usize = 8;
/// The time after which an action is answered although it goes on: destage may take long.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// The content of a request.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
enum Action {
    /// Only checks the token.
    Check,
    /// Brings a volume's origin up to date.
    Flush { volume: String },
    /// Changes a volume's mode.
    Mode { volume: String, mode: WriteMode },
    /// Pauses or resumes the caching of a volume's read misses.
    Fill { volume: String, paused: bool },
}

impl Action {
    /// The command of the control socket.
    fn command(self) -> Option<Command> {
        let set = |volume, mode, pause_fill| Command::VolumeSet {
            volume,
            mode,
            dirty_share_min: None,
            dirty_share_max: None,
            write_policy: None,
            pause_fill,
        };
        match self {
            Self::Check => None,
            Self::Flush { volume } => Some(Command::Flush { volume, wait: true }),
            Self::Mode { volume, mode } => Some(set(volume, Some(mode), None)),
            Self::Fill { volume, paused } => Some(set(volume, None, Some(paused))),
        }
    }
}

/// A command on its way to the main thread.
struct Job {
    command: Command,
    answer: oneshot::Sender<Result<Outcome, Error>>,
    room: OwnedSemaphorePermit,
}

impl Job {
    async fn run(self, served: Arc<Served>) {
        let done = execute(self.command, &served).await;
        match &done {
            Ok(outcome) => tracing::info!("HTTP action: {}", outcome.message),
            Err(error) => tracing::warn!("HTTP action: {error}"),
        }
        // The client may have left.
        let _ = self.answer.send(done);
        drop(self.room);
    }
}

/// The main thread's end: carries out the actions.
pub(super) struct Jobs(RefCell<mpsc::Receiver<Job>>);

impl Jobs {
    /// Carries out actions, as long as it is polled; those that have begun go on.
    pub(super) async fn run(&self, served: &Arc<Served>) {
        while let Some(job) = poll_fn(|context| self.0.borrow_mut().poll_recv(context)).await {
            spawn_local(job.run(Arc::clone(served)));
        }
    }
}

/// The HTTP thread's end: checks requests and passes them on.
pub(super) struct Actions {
    gate: Gate,
    jobs: mpsc::Sender<Job>,
    room: Arc<Semaphore>,
}

/// Both ends. Without a token there are no actions.
pub(super) fn ends(token: Option<Token>, served: &Arc<Served>) -> (Option<Actions>, Jobs) {
    let (jobs, arriving) = mpsc::channel(ACTIONS_MAX);
    let with_token = |token| Actions {
        gate: Gate::new(token, Arc::clone(served)),
        jobs,
        room: Arc::new(Semaphore::new(ACTIONS_MAX)),
    };
    (token.map(with_token), Jobs(RefCell::new(arriving)))
}

impl Actions {
    /// The answer to a request, whose origin was checked.
    pub(super) async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Answer {
        match self.carry_out(request, peer).await {
            Ok(answer) | Err(answer) => answer,
        }
    }

    async fn carry_out(&self, request: Request<Incoming>, peer: Peer) -> Result<Answer, Answer> {
        self.authorize(request.headers(), peer)?;
        if !is_json(request.headers()) {
            return Err(Answer::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json\n"));
        }
        let body = body(request).await?;
        let action = serde_json::from_slice::<Action>(&body)
            .map_err(|error| Answer::text(StatusCode::BAD_REQUEST, format!("malformed action: {error}\n")))?;
        match action.command() {
            None => Ok(Answer::text(StatusCode::OK, "the token is right\n")),
            Some(command) => self.pass_on(command).await,
        }
    }

    fn authorize(&self, headers: &HeaderMap, peer: Peer) -> Result<(), Answer> {
        let Some(given) = bearer(headers) else {
            let why = "actions need the token: Authorization: Bearer TOKEN\n";
            return Err(Answer::text(StatusCode::UNAUTHORIZED, why));
        };
        match self.gate.check(given, peer) {
            Verdict::Right => Ok(()),
            Verdict::Wrong => Err(Answer::text(StatusCode::UNAUTHORIZED, "the token is wrong\n")),
            Verdict::WrongAgain => {
                let why = "the token is wrong, as the one before; wait for a second before you try another one\n";
                Err(Answer::text(StatusCode::TOO_MANY_REQUESTS, why))
            }
        }
    }

    async fn pass_on(&self, command: Command) -> Result<Answer, Answer> {
        let busy =
            |_| Answer::text(StatusCode::SERVICE_UNAVAILABLE, "other actions are in progress; try again later\n");
        let gone = || Answer::text(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n");
        let room = Arc::clone(&self.room).try_acquire_owned().map_err(busy)?;
        let (answer, done) = oneshot::channel();
        self.jobs.try_send(Job { command, answer, room }).map_err(|_| gone())?;
        match timeout(ANSWER_TIME_MAX, done).await {
            Ok(Ok(Ok(outcome))) => Ok(Answer::text(StatusCode::OK, format!("{}\n", outcome.message))),
            Ok(Ok(Err(error))) => Err(Answer::text(StatusCode::CONFLICT, format!("{error}\n"))),
            Ok(Err(_)) => Err(gone()),
            Err(_) => {
                let what = "it takes longer than 30 seconds, and goes on; the server's log tells how it ends\n";
                Ok(Answer::text(StatusCode::ACCEPTED, what))
            }
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    given.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The body of a request, within its limits.
async fn body(request: Request<Incoming>) -> Result<Bytes, Answer> {
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX);
    match timeout(BODY_TIME_MAX, body.collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(Answer::text(StatusCode::PAYLOAD_TOO_LARGE, "the body must have 4096 bytes or less\n"))
        }
        Ok(Err(_)) => Err(Answer::text(StatusCode::BAD_REQUEST, "the body is incomplete\n")),
        Err(_) => Err(Answer::text(StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 10 seconds\n")),
    }
}

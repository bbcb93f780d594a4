//! One connection, from its login to its end.

use crate::access::Access;
use crate::error::IscsiError;
use crate::groups::Groups;
use crate::limits::Limits;
use crate::link::Link;
use crate::login::{Answer, Login, Refusal, Status, Step};
use crate::scsi::Facts;
use crate::session::{self, Scene, Unit};
use crate::target::{Port, Target, Targets};
use futures_util::future::{Either, FusedFuture, FutureExt as _, select};
use nitro_frontend::transport::{ReadHalf, WriteHalf};
use nitro_frontend::{Caller, Disk, Disks, Opened, RequestMemory, Work};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;

/// The options of a server's connections.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// The limits of each connection.
    pub limits: Limits,
    /// The memory that the commands of all connections share.
    pub memory: Arc<RequestMemory>,
    /// Access control of logins.
    pub access: Arc<Access>,
    /// The state that sessions share.
    pub targets: Arc<Targets>,
    /// The classes of group numbers.
    pub groups: Arc<Groups>,
}

/// How a connection ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The initiator logged out.
    LoggedOut,
    /// The initiator closed the stream between two PDUs.
    HungUp,
    /// Another session of the same initiator and ISID replaced this one (session reinstatement).
    Replaced,
    /// The server was stopped.
    Stopped,
}

/// A summary of a connection that ended without an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionSummary {
    /// How it ended.
    pub end: End,
    /// The initiator's name.
    pub initiator: String,
    /// The target's name; `None`: a discovery session, or no session.
    pub target: Option<String>,
    /// Commands that were answered.
    pub commands: u64,
    /// Data bytes read by the initiator.
    pub bytes_read: u64,
    /// Data bytes written by the initiator.
    pub bytes_written: u64,
}

/// The two addresses of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    /// The initiator's address, if there is one.
    pub peer: Option<IpAddr>,
    /// The address to which the initiator connected; discovery reports it.
    pub portal: Option<SocketAddr>,
}

/// Serves one connection: the login, then commands until the initiator disconnects, an error occurs or `stop`
/// completes. Then it finishes the commands in flight, sends their responses and shuts the stream down. It has no
/// timeout for an initiator that neither sends nor receives; the caller sets timeouts. The future may be dropped at any
/// time.
///
/// # Errors
/// [`IscsiError`]: the transport failed, the login was refused, the initiator violated the protocol in a way that has
/// no error response, or it was disconnected because others waited for its memory.
pub async fn serve<X: Disks, R: ReadHalf, W: WriteHalf>(
    reader: R,
    writer: W,
    ends: Ends,
    disks: &X,
    options: &ServerOptions,
    stop: impl Future<Output = ()>,
) -> Result<ConnectionSummary, IscsiError> {
    let mut stop = pin!(stop.fuse());
    let mut link = Link::new(reader, writer);
    let logged_in = match until(stop.as_mut(), log_in(&mut link, ends, disks, options)).await {
        None => Ok(Err((End::Stopped, String::new()))),
        Some(Ok(None)) => Ok(Err((End::HungUp, String::new()))),
        Some(Ok(Some(logged_in))) => Ok(Ok(logged_in)),
        Some(Err(error)) => Err(error),
    };
    let LoggedIn { scene, unit, stat_sn, cmd_sn } = match logged_in {
        Ok(Ok(logged_in)) => logged_in,
        other => {
            link.writer.shutdown().await;
            let (end, initiator) = other.map(|left| left.err().unwrap_or((End::HungUp, String::new())))?;
            return Ok(ConnectionSummary {
                end,
                initiator,
                target: None,
                commands: 0,
                bytes_read: 0,
                bytes_written: 0,
            });
        }
    };
    tracing::debug!(
        initiator = scene.initiator,
        target = unit.as_ref().map(|unit| &unit.facts.identity.target),
        "a session begins"
    );
    let (end, work) = session::run(link, &scene, unit.as_ref(), disks, options, (stat_sn, cmd_sn), stop).await;
    let Work { requests: commands, bytes_read, bytes_written } = work;
    let target = unit.as_ref().map(|unit| unit.facts.identity.target.clone());
    Ok(ConnectionSummary { end: end?, initiator: scene.initiator, target, commands, bytes_read, bytes_written })
}

struct LoggedIn<D> {
    scene: Scene,
    /// The logical unit; `None` in a discovery session.
    unit: Option<Unit<D>>,
    stat_sn: u32,
    cmd_sn: u32,
}

/// The login phase. `None`: the initiator closed the stream.
async fn log_in<X: Disks, R: ReadHalf, W: WriteHalf>(
    link: &mut Link<R, W>,
    ends: Ends,
    disks: &X,
    options: &ServerOptions,
) -> Result<Option<LoggedIn<X::Disk>>, IscsiError> {
    let limits = &options.limits;
    let mut login = Login::new(&options.access, limits, ends.peer);
    let mut opened = None;
    let mut stat_sn = None;
    for _ in 0..limits.login_requests_max {
        let Some((request, text)) = link.receive(limits.text_bytes_max.min(64 << 10)).await? else { return Ok(None) };
        let number = *stat_sn.get_or_insert(request.word(28));
        let last = request.word(24);
        let find = |login: &Login<'_>| match &login.target {
            Some(name) if opened.is_none() => {
                opened = Some(find(name, login.caller(), disks, options)?);
                Ok(())
            }
            _ => Ok(()),
        };
        let claim = login.claim(&request, &text);
        if let Some(claim) = &claim {
            disks.before_secret(claim).await;
        }
        let Answer { header, text, step } = login.answer(&request, &text, find);
        if claim.is_some() {
            disks.note_secret(login.is_authenticated());
        }
        let is_refused = matches!(step, Step::Refused(_));
        let handle = if step == Step::Done { options.targets.session_handle() } else { 0 };
        let window = if is_refused { 0 } else { limits.tasks_max };
        let mut header = header.with(24, number).with(28, last).with(32, last.wrapping_add(window).wrapping_sub(1));
        header.0[14..16].copy_from_slice(&handle.to_be_bytes());
        if step == Step::Done
            && let Some(Found { opened, .. }) = &opened
        {
            // Called before the response is sent: with it, the login is over for the initiator.
            disks.begin(&opened.disk);
        }
        let unit = if step == Step::Done { opened.take().map(|found| found.enter(&login)) } else { None };
        link.send(&header, &text).await?;
        stat_sn = Some(number.wrapping_add(1));
        match step {
            Step::More | Step::Entered => {}
            Step::Refused(reason) => return Err(IscsiError::Refused { initiator: login.initiator, reason }),
            Step::Done => {
                let account = login.account().map(str::to_owned);
                let scene = Scene { initiator: login.initiator, account, params: login.params, ends };
                return Ok(Some(LoggedIn { scene, unit, stat_sn: number.wrapping_add(1), cmd_sn: last }));
            }
        }
    }
    Err(IscsiError::Refused { initiator: login.initiator, reason: "its login took too many requests" })
}

/// The target that an initiator requested.
struct Found<D> {
    opened: Opened<D>,
    target: Arc<Target>,
    facts: Facts,
}

impl<D> Found<D> {
    fn enter(self, login: &Login<'_>) -> Unit<D> {
        let nexus = self.target.enter(Port::new(&login.initiator, login.isid));
        let Opened { disk, requester } = self.opened;
        Unit { disk, requester, target: self.target, nexus, facts: self.facts }
    }
}

fn find<X: Disks>(
    name: &str,
    caller: Caller<'_>,
    disks: &X,
    options: &ServerOptions,
) -> Result<Found<X::Disk>, Refusal> {
    const UNKNOWN: Refusal = (Status::NOT_FOUND, "the target does not exist");
    let identity = disks.units().into_iter().find(|unit| unit.is_target(name)).ok_or(UNKNOWN)?;
    if !disks.admits(&identity.disk, caller) {
        return Err((Status::NOT_AUTHORIZED, "its name, account or address may not log in to this target"));
    }
    let opened = disks.open(&identity.disk).ok_or(UNKNOWN)?;
    let target = options.targets.open(&identity.target).map_err(|error| {
        tracing::error!("target {}: {error}", identity.target);
        (Status::NO_RESOURCES, "the stored reservations of the target cannot be loaded")
    })?;
    let info = opened.disk.info();
    let block_bytes = info.block_bytes;
    let physical = info.block_preferred_bytes.clamp(block_bytes, 1 << 20);
    let facts = Facts {
        identity,
        block_bytes,
        blocks: info.size_bytes / u64::from(block_bytes),
        read_only: info.read_only,
        rotational: info.rotational,
        can_unmap: info.can_trim && !info.read_only,
        physical_bytes: if physical.is_power_of_two() { physical } else { 4096 },
        transfer_blocks_max: options.limits.transfer_bytes_max.min(info.block_max_bytes) / block_bytes,
        keeps_reservations: options.targets.keeps(),
    };
    Ok(Found { opened, target, facts })
}

/// Runs `work` until it is done or `stop` completes; `None` in the latter case.
async fn until<T>(stop: Pin<&mut impl FusedFuture<Output = ()>>, work: impl Future<Output = T>) -> Option<T> {
    match select(stop, pin!(work)).await {
        Either::Left(_) => None,
        Either::Right((done, _)) => Some(done),
    }
}

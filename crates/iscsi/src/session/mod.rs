//! The full feature phase: it receives commands and sends responses in the order in which commands are done.

mod command;
mod data;
mod execute;
mod manage;
mod order;
mod reader;
mod reply;
mod state;

use crate::error::IscsiError;
use crate::link::Link;
use crate::login::Params;
use crate::scsi::Facts;
use crate::server::{End, Ends, ServerOptions};
use crate::target::{Nexus, Target};
use execute::execute;
use futures_util::future::FusedFuture;
use nitro_frontend::transport::{ReadHalf, WriteHalf};
use nitro_frontend::{Caller, Disks, Requester, Tasks, Work, drive, leave};
use reader::read_pdus;
use state::Session;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;

/// The result of the login.
pub(crate) struct Scene {
    pub(crate) initiator: String,
    /// The account as which the initiator has authenticated.
    pub(crate) account: Option<String>,
    pub(crate) params: Params,
    pub(crate) ends: Ends,
}

impl Scene {
    /// The initiator, for access control.
    pub(crate) fn caller(&self) -> Caller<'_> {
        Caller::Initiator { name: &self.initiator, account: self.account.as_deref(), address: self.ends.peer }
    }
}

/// The logical unit of a session that is not for discovery. The target forgets the session when this is dropped.
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

/// Serves commands until the initiator disconnects or `stop` completes; then finishes those in flight, and sends their
/// responses as long as the initiator receives them. `numbers`: the next StatSN and the next CmdSN.
pub(crate) async fn run<X: Disks, R: ReadHalf, W: WriteHalf>(
    link: Link<R, W>,
    scene: &Scene,
    unit: Option<&Unit<X::Disk>>,
    disks: &X,
    options: &ServerOptions,
    numbers: (u32, u32),
    stop: Pin<&mut impl FusedFuture<Output = ()>>,
) -> (Result<End, IscsiError>, Work) {
    let Link { receiver, writer } = link;
    let session = Session::new(scene, unit, options, numbers);
    let tasks = Tasks::default();
    let start = |started| tasks.start(execute(&session, started));
    let reader = async {
        let mut reading = pin!(read_pdus(&session, disks, receiver, start));
        let end = poll_fn(|context| {
            session.release(start);
            reading.as_mut().poll(context)
        })
        .await;
        if let Some(unit) = unit.filter(|_| !matches!(end, Ok(End::LoggedOut))) {
            leave(&*unit.disk, unit.requester).await;
        }
        end
    };
    drive(&session, reader, &tasks, writer, stop).await
}

//! The control connection of a vhost-user-blk device, and a monitor that sends it any messages with any files.

use crate::nbd::OneExport;
use arbitrary::Arbitrary;
use nitro_device::guarded::Guard;
use nitro_frontend::{RequestMemory, Requester};
use nitro_vhost::{Control, Host, Incarnation, LocalTask, MmapRegion, Options, converse};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::future::pending;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Most messages of a conversation: they and their answers fit into the buffers of the sockets.
const MESSAGES_MAX: usize = 48;
/// Most files in a message, as in crate `vhost`.
const FILES_MAX: usize = 32;
/// Most bytes of the payload of a message.
const PAYLOAD_MAX: usize = 1024;

/// One message.
#[derive(Arbitrary, Debug)]
pub struct Message<'a> {
    code: u8,
    /// The flags if they are not those of a message that wants a reply.
    odd_flags: Option<u32>,
    /// The announced length if it is not that of the payload.
    odd_len: Option<u32>,
    payload: &'a [u8],
    files: Vec<Sent>,
}

/// A file that is sent with a message.
#[derive(Arbitrary, Debug, Clone, Copy)]
enum Sent {
    /// Memory that cannot shrink.
    Memory {
        pages: u8,
    },
    /// Memory that can.
    Shrinkable {
        pages: u8,
    },
    /// Memory of huge pages, of which there may be none: an access to it then fails.
    Huge {
        pages: u8,
    },
    Event,
    Null,
}

impl Sent {
    fn open(self) -> io::Result<OwnedFd> {
        let memory = |pages: u8| {
            let file = memfd_create("fuzz", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            ftruncate(&file, u64::from(pages) * 4096)?;
            Ok::<_, io::Error>(file)
        };
        match self {
            Self::Memory { pages } => {
                let file = memory(pages)?;
                fcntl_add_seals(&file, SealFlags::SHRINK)?;
                Ok(file)
            }
            Self::Shrinkable { pages } => memory(pages),
            Self::Huge { pages } => {
                let file = memfd_create("fuzz", MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB)?;
                ftruncate(&file, u64::from(pages) << 21)?;
                Ok(file)
            }
            Self::Event => Ok(eventfd(0, EventfdFlags::CLOEXEC)?),
            Self::Null => Ok(std::fs::File::open("/dev/null")?.into()),
        }
    }
}

/// Runs no queue: the control connection is what is tested.
#[derive(Clone)]
struct Idle;

impl Host for Idle {
    fn spawn(&self, _: usize, _: LocalTask) -> bool {
        false
    }

    async fn wait(&self, _: &Arc<OwnedFd>) -> io::Result<()> {
        pending().await
    }

    async fn ring(&self, _: &Arc<OwnedFd>) -> io::Result<()> {
        Ok(())
    }

    fn guard(&self, map: &Arc<MmapRegion>, lost: &Arc<AtomicBool>) -> io::Result<nitro_vhost::Guard> {
        Ok(Arc::new(Guard::new(map, lost)?))
    }
}

fn send(socket: &UnixStream, message: &Message<'_>) -> io::Result<()> {
    let payload = &message.payload[..message.payload.len().min(PAYLOAD_MAX)];
    // Version 1, and a reply is wanted.
    let flags = message.odd_flags.unwrap_or(1 | 1 << 3);
    let len = message.odd_len.unwrap_or(payload.len() as u32);
    let header = [u32::from(message.code), flags, len].map(u32::to_ne_bytes).concat();
    let files: Vec<_> = message.files.iter().take(FILES_MAX).map(|file| file.open()).collect::<io::Result<_>>()?;
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
    }
    sendmsg(socket, &[IoSlice::new(&header), IoSlice::new(payload)], &mut ancillary, SendFlags::DONTWAIT)?;
    Ok(())
}

/// Serves a disk to a client that sends these messages and hangs up.
pub fn talk(messages: &[Message<'_>]) {
    let Ok((client, server)) = UnixStream::pair() else { return };
    for message in messages.iter().take(MESSAGES_MAX) {
        if send(&client, message).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Write);
    let control = Arc::new(Control::new(server.into(), || {}).expect("the socket can block"));
    let options = Options {
        serial: "disk".into(),
        memory: Arc::new(RequestMemory::new(1 << 20, 1)),
        incarnation: Incarnation::new(),
        busy_poll_max: Duration::ZERO,
    };
    // A message that is refused ends the connection.
    let _ = converse(&control, OneExport::new().disk(), Requester::default(), &Idle, &options);
}

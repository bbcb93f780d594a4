//! The control device.

use super::code;
use io_uring::{IoUring, cqueue, opcode::UringCmd80, squeue, types};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, retry_on_intr};
use std::io;

/// The control device of the driver.
pub const CONTROL_PATH: &str = "/dev/ublk-control";

/// Bytes of `struct ublksrv_ctrl_cmd`.
const COMMAND_BYTES: u32 = 32;
/// No queue is meant (`queue_id`).
const NO_QUEUE: u16 = u16::MAX;

/// A command to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// The features that the driver has (Linux 6.5).
    Features,
    /// The properties and the state of a device.
    Info,
    /// Makes a device that is not started yet.
    Add,
    /// Sets the parameters of a device that is not started yet.
    SetParameters,
    /// Makes the block device appear; answered when all queues have asked for requests.
    Start,
    /// Removes the block device; answered when its requests have ended.
    Stop,
    /// Removes the device; answered when nobody has it open any more.
    Delete,
    /// As [`Delete`](Self::Delete), but answered at once (Linux 6.9).
    DeleteLater,
    /// Prepares a device whose server has ended for another server.
    BeginRecovery,
    /// Lets requests go to the new server; answered when all queues have asked for requests.
    EndRecovery,
}

impl Command {
    /// The code of `linux/ublk_cmd.h`.
    const fn code(self) -> u32 {
        let (is_read_only, number) = match self {
            Self::Features => (true, 0x13),
            Self::Info => (true, 0x02),
            Self::Add => (false, 0x04),
            Self::SetParameters => (false, 0x08),
            Self::Start => (false, 0x06),
            Self::Stop => (false, 0x07),
            Self::Delete => (false, 0x05),
            Self::DeleteLater => (true, 0x14),
            Self::BeginRecovery => (false, 0x10),
            Self::EndRecovery => (false, 0x11),
        };
        code(is_read_only, number, COMMAND_BYTES)
    }
}

/// The open control device, with a ring of its own.
pub struct Control {
    device: OwnedFd,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    /// A command was not submitted, but is still in the ring.
    is_broken: bool,
}

impl Control {
    /// Opens [`CONTROL_PATH`].
    ///
    /// # Errors
    /// The driver is not there, or may not be used; or io_uring may not.
    pub fn open() -> io::Result<Self> {
        let device = retry_on_intr(|| open(CONTROL_PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()))?;
        let ring = IoUring::builder().dontfork().build(2)?;
        Ok(Self { device, ring, is_broken: false })
    }

    /// Carries a command out on device `number`, and blocks the thread meanwhile. The driver reads and writes `buffer`; `data` is
    /// the command's number, if it has one.
    ///
    /// # Errors
    /// The driver's error.
    pub fn run(&mut self, command: Command, number: u32, data: u64, buffer: &mut [u8]) -> io::Result<()> {
        let len = u16::try_from(buffer.len()).map_err(|_| Errno::INVAL)?;
        if self.is_broken {
            return Err(Errno::IO.into());
        }
        let mut cmd = [0; 80];
        cmd[0..4].copy_from_slice(&number.to_ne_bytes());
        cmd[4..6].copy_from_slice(&NO_QUEUE.to_ne_bytes());
        cmd[6..8].copy_from_slice(&len.to_ne_bytes());
        let address = if buffer.is_empty() { 0 } else { buffer.as_mut_ptr() as u64 };
        cmd[8..16].copy_from_slice(&address.to_ne_bytes());
        cmd[16..24].copy_from_slice(&data.to_ne_bytes());
        let entry = UringCmd80::new(types::Fd(self.device.as_raw_fd()), command.code()).cmd(cmd).build();
        self.submit(&entry)
    }

    #[expect(unsafe_code, reason = "the kernel accesses the buffer of the command")]
    fn submit(&mut self, entry: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: the driver accesses `len` bytes from the address in the entry, which `run` borrows until this returns; and this
        // returns only when the command has ended, or was not submitted and never will be (`is_broken`).
        unsafe { self.ring.submission().push(entry) }.map_err(|_| Errno::BUSY)?;
        loop {
            let waited = self.ring.submit_and_wait(1);
            let done = self.ring.completion().next();
            match (done.map(|done| done.result()), waited) {
                (Some(result), _) if result < 0 => return Err(io::Error::from_raw_os_error(-result)),
                (Some(_), _) => return Ok(()),
                (None, Err(error)) if self.ring.submission().is_empty() || is_passing(&error) => {
                    tracing::debug!(%error, "a command to ublk is waited for");
                }
                (None, Err(error)) => {
                    self.is_broken = true;
                    return Err(error);
                }
                (None, Ok(_)) => {}
            }
        }
    }
}

/// Whether a call may succeed if it is repeated.
fn is_passing(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INTR | Errno::AGAIN | Errno::BUSY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_kernels_header() {
        // As a C compiler prints them.
        let codes = [
            (Command::Features, 0x8020_7513),
            (Command::Info, 0x8020_7502),
            (Command::Add, 0xc020_7504),
            (Command::SetParameters, 0xc020_7508),
            (Command::Start, 0xc020_7506),
            (Command::Stop, 0xc020_7507),
            (Command::Delete, 0xc020_7505),
            (Command::DeleteLater, 0x8020_7514),
            (Command::BeginRecovery, 0xc020_7510),
            (Command::EndRecovery, 0xc020_7511),
        ];
        for (command, code) in codes {
            assert_eq!(command.code(), code, "{command:?}");
        }
    }
}

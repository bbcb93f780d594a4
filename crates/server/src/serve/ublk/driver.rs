//! The kernel's driver. All of this blocks, and belongs on threads [aside](crate::origins::aside).

use crate::control::client::is_running;
use nitro_console::error::Error;
use nitro_device::ublk::{CONTROL_PATH, Command, Control, block_path, char_path};
use nitro_ublk::abi::{FEATURES_BYTES, Info, Parameters, State, feature};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fsync, open};
use rustix::io::{Errno, retry_on_intr};
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The folder in which the kernel lists the devices.
const LIST: &str = "/sys/class/ublk-char";
/// How long the kernel may take to release a device whose server was killed, and the interval of attempts.
const RELEASE_MAX: Duration = Duration::from_secs(15);
const RELEASE_TURN: Duration = Duration::from_millis(50);
/// The way out where there is no driver.
const NBD_INSTEAD: &str = "otherwise attach the volume over NBD: nitro serve --listen unix:PATH, then nbd-client -unix PATH -N VOLUME /dev/nbd0";

/// Whether a device that is in use is removed all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    IfUnused,
    /// Who uses it gets errors.
    Forced,
}

/// Opens the control device.
fn control() -> Result<Control, Error> {
    Control::open().map_err(|error| {
        let (why, way_out) = match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NXIO | Errno::NODEV) => (
                format!("the kernel has no ublk driver, or it is not loaded ({CONTROL_PATH} is missing)"),
                "run modprobe ublk_drv, which Linux 6.5 and later have if they were built with CONFIG_BLK_DEV_UBLK",
            ),
            Some(Errno::ACCESS | Errno::PERM) => (
                format!("{CONTROL_PATH} may not be used"),
                "run the server as root, or give its service the rights that docs/guide/mounting.md lists",
            ),
            _ => (format!("{CONTROL_PATH}: {error}"), "see that io_uring is allowed"),
        };
        Error::new("block device", why).or(format_args!("{way_out}; {NBD_INSTEAD}"))
    })
}

fn failed(what: &str, error: &io::Error) -> Error {
    let way_out = match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => "the server needs CAP_SYS_ADMIN: see docs/guide/mounting.md",
        _ => "see the kernel's log (dmesg)",
    };
    Error::new("block device", format_args!("the kernel's ublk driver cannot {what}: {error}")).or(way_out)
}

/// Checks that the kernel can make devices for this process.
pub(in super::super) fn check() -> Result<(), Error> {
    check_by(&mut control()?)
}

fn check_by(control: &mut Control) -> Result<(), Error> {
    let mut features = [0; FEATURES_BYTES];
    let asked = control.run(Command::Features, 0, 0, &mut features);
    if asked.is_err() || u64::from_ne_bytes(features) & feature::USER_COPY == 0 {
        return Err(Error::new("block device", "the kernel's ublk driver is too old")
            .or(format_args!("use Linux 6.5 or later; {NBD_INSTEAD}")));
    }
    Ok(())
}

/// Makes a device that is not started yet; returns its properties, and its open file for the server.
pub(super) fn make(wanted: &Info, parameters: &Parameters) -> Result<(Info, Arc<OwnedFd>), Error> {
    let mut control = control()?;
    check_by(&mut control)?;
    let mut bytes = wanted.encode();
    control.run(Command::Add, wanted.number, 0, &mut bytes).map_err(|e| failed("make a device", &e))?;
    let info = Info::decode(&bytes);
    let set = control
        .run(Command::SetParameters, info.number, 0, &mut parameters.encode())
        .map_err(|e| failed("set the parameters of a device", &e));
    match set.and_then(|()| open_char(info.number)) {
        Ok(file) => Ok((info, file)),
        Err(error) => {
            // The first error is the one to report.
            let _ = delete_by(&mut control, info.number);
            Err(error)
        }
    }
}

fn open_char(number: u32) -> Result<Arc<OwnedFd>, Error> {
    let path = char_path(number);
    match retry_on_intr(|| open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())) {
        Ok(file) => Ok(Arc::new(file)),
        Err(error) => Err(Error::new(path, error).or(
            "see that /dev is the kernel's (devtmpfs), and that the server's user may open the device (udev rules)",
        )),
    }
}

/// Makes the block device appear. All its queues must have been begun.
pub(super) fn start(number: u32) -> Result<(), Error> {
    let pid = u64::from(std::process::id());
    control()?.run(Command::Start, number, pid, &mut []).map_err(|e| failed("start the device", &e))
}

/// Prepares a device whose server has ended for this one; returns its open file.
pub(super) fn take_over(number: u32) -> Result<Arc<OwnedFd>, Error> {
    let (mut control, begun) = (control()?, Instant::now());
    loop {
        match control.run(Command::BeginRecovery, number, 0, &mut []) {
            Ok(()) => return open_char(number),
            // The last server's process is still ending.
            Err(e) if Errno::from_io_error(&e) == Some(Errno::BUSY) && begun.elapsed() < RELEASE_MAX => {
                std::thread::sleep(RELEASE_TURN);
            }
            Err(error) => return Err(failed("give the device to this server", &error)),
        }
    }
}

/// Lets requests go to this server. All queues must have been begun.
pub(super) fn resume(number: u32) -> Result<(), Error> {
    let pid = u64::from(std::process::id());
    control()?.run(Command::EndRecovery, number, pid, &mut []).map_err(|e| failed("resume the device", &e))
}

/// Removes the block device. What the page cache holds for it is written first, unless that is forced.
pub(super) fn stop(number: u32, manner: Manner) -> Result<(), Error> {
    // Nobody can mount it as long as this is open.
    let claimed = if manner == Manner::IfUnused { claim(number)? } else { None };
    let stopped = control()?.run(Command::Stop, number, 0, &mut []).map_err(|e| failed("stop the device", &e));
    drop(claimed);
    stopped
}

/// Opens an unused block device, and writes what the page cache holds for it. `None`: there is none any more.
fn claim(number: u32) -> Result<Option<OwnedFd>, Error> {
    let path = block_path(number);
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    match retry_on_intr(|| open(&path, flags, Mode::empty())) {
        Ok(file) => match retry_on_intr(|| fsync(&file)) {
            Ok(()) => Ok(Some(file)),
            Err(error) => Err(Error::new(path, format_args!("its last data cannot be written: {error}"))),
        },
        Err(Errno::NOENT | Errno::NXIO) => Ok(None),
        Err(Errno::BUSY) => Err(Error::new(path, "it is in use: mounted, or held by another program or device")
            .or("unmount it first (findmnt, lsblk and fuser -v name who uses it)")),
        Err(error) => Err(Error::new(path, error)),
    }
}

/// Removes the rest of a device whose block device was removed.
pub(super) fn delete(number: u32) -> Result<(), Error> {
    delete_by(&mut control()?, number).map_err(|e| failed("delete the device", &e))
}

fn delete_by(control: &mut Control, number: u32) -> io::Result<()> {
    // Otherwise it would be waited for until who has it open has closed it.
    match control.run(Command::DeleteLater, number, 0, &mut []) {
        Err(e) if matches!(Errno::from_io_error(&e), Some(Errno::INVAL | Errno::OPNOTSUPP)) => {
            control.run(Command::Delete, number, 0, &mut [])
        }
        deleted => deleted,
    }
}

/// The devices that the kernel has and this process may control.
pub(super) fn all() -> Vec<Info> {
    let numbers: Vec<u32> = fs::read_dir(LIST)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("ublkc")?.parse().ok())
        .collect();
    if numbers.is_empty() {
        return Vec::new();
    }
    let Ok(mut control) = Control::open() else { return Vec::new() };
    numbers.into_iter().filter_map(|number| info_by(&mut control, number)).collect()
}

/// The properties of a device, if this process may control it.
pub(super) fn info(number: u32) -> Option<Info> {
    info_by(&mut Control::open().ok()?, number)
}

fn info_by(control: &mut Control, number: u32) -> Option<Info> {
    let mut bytes = [0; Info::BYTES];
    control.run(Command::Info, number, 0, &mut bytes).ok()?;
    Some(Info::decode(&bytes))
}

/// Waits until the process that served a device has ended. Returns the device's present properties.
pub(super) fn released(mut info: Info) -> Result<Info, Error> {
    let (mut control, begun) = (control()?, Instant::now());
    while is_served_elsewhere(&info) {
        if begun.elapsed() > RELEASE_MAX {
            return Err(
                Error::new("block device", format_args!("process {} serves it", info.server)).or("end that process")
            );
        }
        std::thread::sleep(RELEASE_TURN);
        info = info_by(&mut control, info.number).unwrap_or(Info { state: State::Dead, ..info });
    }
    Ok(info)
}

/// Whether a device is served by another process, which runs.
pub(super) fn is_served_elsewhere(info: &Info) -> bool {
    info.state == State::Live && info.server.cast_unsigned() != std::process::id() && is_running(info.server)
}

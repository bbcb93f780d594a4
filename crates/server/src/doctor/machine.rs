//! Checks the machine: kernel, limits, memory, clock.

use super::{Finding, State};
use nitro_console::size::Size;
use nitro_device::Reactor;
use rustix::process::{Resource, getrlimit};
use std::fs;

const SUBJECT: &str = "this machine";
/// The oldest kernel with all io_uring features that the server uses.
const KERNEL_MIN: (u32, u32) = (5, 19);
/// Locked memory that rings and registered buffers may take.
const MEMLOCK_MIN: u64 = 64 << 20;
/// Descriptors: a client takes one, a device up to two.
const FILES_MIN: u64 = 1024;
/// RAM for the smallest server, in addition to the needs of the machine.
const RAM_MIN: u64 = 512 << 20;

/// Checks this machine.
#[must_use]
pub fn look() -> Vec<Finding> {
    vec![program(), kernel(), io_uring(), locked_memory(), files(), memory(), huge_pages(), clock(), user()]
}

fn of(check: &'static str, state: State, found: impl ToString) -> Finding {
    Finding::new(SUBJECT, check, state, found)
}

fn program() -> Finding {
    of("nitro", State::Ok, env!("CARGO_PKG_VERSION"))
}

fn kernel() -> Finding {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
    let state = match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= KERNEL_MIN => State::Ok,
        (Some(_), Some(_)) => State::Warn,
        _ => State::Unknown,
    };
    of("kernel", state, release).or("Linux 5.19 or later has all of io_uring that the server uses")
}

fn io_uring() -> Finding {
    let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    let remedy = "sysctl kernel.io_uring_disabled=0; in a container, a seccomp profile that allows io_uring_setup, io_uring_enter and \
                  io_uring_register";
    match Reactor::new() {
        Ok(reactor) if reactor.is_io_uring() => of("io_uring", State::Ok, "allowed"),
        Ok(_) => {
            let why =
                if matches!(disabled.trim(), "1" | "2") { "forbidden by kernel.io_uring_disabled" } else { "refused" };
            of("io_uring", State::Warn, format!("{why}: requests use slower helper threads")).or(remedy)
        }
        Err(error) => of("io_uring", State::Fail, error).or(remedy),
    }
}

fn locked_memory() -> Finding {
    let limit = getrlimit(Resource::Memlock).current;
    let (state, found) = match limit {
        None => (State::Ok, "unlimited".to_owned()),
        Some(bytes) if bytes >= MEMLOCK_MIN => (State::Ok, Size(bytes).to_string()),
        Some(bytes) => (State::Warn, Size(bytes).to_string()),
    };
    of("locked memory", state, found).or("LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited")
}

fn files() -> Finding {
    let limit = getrlimit(Resource::Nofile).current;
    let state = if limit.is_none_or(|files| files >= FILES_MIN) { State::Ok } else { State::Warn };
    let found = limit.map_or_else(|| "unlimited".to_owned(), |files| files.to_string());
    of("open files", state, found).or("LimitNOFILE=65536 in the unit, or ulimit -n 65536")
}

fn memory() -> Finding {
    match crate::serve::available_ram_bytes() {
        Some(bytes) if bytes >= RAM_MIN => of("available RAM", State::Ok, Size(bytes)),
        Some(bytes) => of("available RAM", State::Warn, Size(bytes))
            .or("smaller --ram, --request-memory and --fingerprint-index-ratio, or an index on the SSD (--fingerprint-index)"),
        None => of("available RAM", State::Unknown, "/proc/meminfo does not contain it"),
    }
}

fn huge_pages() -> Finding {
    // The choice stands in brackets: always [madvise] never.
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = text.split(['[', ']']).nth(1).unwrap_or_default().to_owned();
    match chosen.as_str() {
        "" => of("huge pages", State::Unknown, "the kernel does not report it"),
        "never" => of("huge pages", State::Warn, "never: look-ups in large indexes miss the TLB")
            .or("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
        chosen => of("huge pages", State::Ok, chosen),
    }
}

fn clock() -> Finding {
    let source =
        fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default();
    match source.trim() {
        "" => of("clock", State::Unknown, "the kernel does not report it"),
        slow @ ("hpet" | "acpi_pm" | "jiffies") => {
            of("clock", State::Warn, format!("{slow}: each read of it takes microseconds"))
                .or("clocksource=tsc on the kernel's command line, or the hypervisor's own clock")
        }
        fine => of("clock", State::Ok, fine),
    }
}

fn user() -> Finding {
    let uid = rustix::process::geteuid();
    let found = if uid.is_root() { "root".to_owned() } else { format!("user {}", uid.as_raw()) };
    of("user", State::Ok, found)
}

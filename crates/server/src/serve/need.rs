//! The maximum RAM of the server: it is computed here, printed before the start, and shown by `nitro status`.

use super::Served;
use super::detect;
use super::jobs::Jobs;
use super::limits;
use super::plan::available_ram_bytes;
use crate::control::protocol::{Ram, RamPart};
use crate::http;
use crate::origins;
use crate::spans;
use nitro_config::Config;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_port::Origin;
use nitro_port::buf::{POOLED_BYTES_MAX, held_bytes};
use std::fs;

/// The program's code and tables, its configuration, and the buffers of the control socket.
const PROGRAM_BYTES: u64 = 48 << 20;
/// A thread: the part of its stack that is used, its ring, and its part of the allocator.
const THREAD_BYTES: u64 = 2 << 20;
/// A thread that makes blocking calls for a device.
const BLOCKING_THREAD_BYTES: u64 = 256 << 10;
const BLOCKING_THREADS: u64 = 4;
/// Threads besides those that serve clients and those of insertion: the main one, commits, indexes on flash, destage, recording.
const OTHER_THREADS: u64 = 5;
/// A connection: its task, the headers of replies, TLS.
const CONNECTION_BYTES: u64 = 96 << 10;
/// A request holds the extents that it touches, and the same amount again while they are read, decoded or merged.
const REQUEST_COPIES: u64 = 2;
/// The allocator takes this fraction in addition to the memory in use, because of fragmentation.
const SLACK_PART: u64 = 8;

/// The limits of the RAM that clients can take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) threads: usize,
    /// Threads of insertion.
    pub(super) insert_threads: usize,
    pub(super) connections: usize,
    /// Bytes of request data held over all connections.
    pub(super) request_bytes: u64,
    /// HTTP is served.
    pub(super) http: bool,
    /// Spans of requests are exported.
    pub(super) spans: bool,
}

/// The maximum RAM of the server, and its present RAM.
pub fn need(served: &Served) -> Ram {
    let limits = &served.limits;
    let devices = 2 * served.caches.len() + served.all().len();
    let blocking = devices as u64 * BLOCKING_THREADS * BLOCKING_THREAD_BYTES;
    let mut parts = vec![
        part("program", PROGRAM_BYTES),
        part("threads", ((limits.threads + limits.insert_threads) as u64 + OTHER_THREADS) * THREAD_BYTES + blocking),
        part("connections", limits.connections as u64 * (CONNECTION_BYTES + held_bytes(nitro_nbd::RECEIVE_BYTES))),
        part("data of requests: request_memory", limits.request_bytes),
        part(
            "copies of these data while they are read and merged",
            request_bytes(served).saturating_sub(limits.request_bytes),
        ),
        part("pooled buffers", POOLED_BYTES_MAX as u64),
    ];
    if limits.http {
        parts.push(part("HTTP, with its history", http::ram_bytes(served.all().len()) + THREAD_BYTES));
    }
    if limits.spans {
        parts.push(part("spans of requests", spans::RAM_BYTES + THREAD_BYTES));
    }
    for entry in served.caches.values().filter(|entry| entry.path.is_some()) {
        let of = |name| format!("cache {}: {name}", entry.name);
        parts.extend(entry.cache.ram_parts().iter().map(|p| part(of(p.name), p.bytes)));
        parts.extend(entry.flash_index.as_ref().map(|index| part(of("index on the SSD"), index.ram_bytes())));
    }
    for export in served.all() {
        let detection = export.detector.as_ref().map_or(0, |_| detect::ram_bytes_max(export.volume.size_bytes()));
        let settings = export.volume.cache().settings();
        let own = settings.volume_ram_bytes(export.volume.origin().unit_bytes());
        parts.push(part(format!("volume {}", export.name), own + detection));
        if let Some((bytes, threads)) = export.volume.origin().ram() {
            parts.push(part(format!("volume {}: its origin", export.name), bytes + threads * THREAD_BYTES));
        }
        // Contents that waited for insertion when a point was frozen.
        let points = export.volume.point_status().map(|_| settings.dirty_queue_bytes);
        parts.extend(points.map(|bytes| part(format!("volume {}: frozen writes", export.name), bytes)));
        let counters = settings.counters_ram_bytes(export.volume.size_bytes());
        parts.extend((counters > 0).then(|| part(format!("volume {}: counters of accesses", export.name), counters)));
    }
    let stores = origins::open_stores();
    if !stores.is_empty() {
        parts.push(part("operations on stores", Jobs::ram_bytes_max(THREAD_BYTES)));
    }
    for (path, store) in stores {
        parts.push(part(format!("store {}", path.display()), store.ram_need_bytes()));
    }
    let sum = parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add);
    parts.push(part("allocator", sum / SLACK_PART));
    let need_bytes = sum.saturating_add(sum / SLACK_PART);
    Ram { need_bytes, parts, resident_bytes: resident_bytes().unwrap_or(0) }
}

/// RAM of the data of requests and of their copies, in buffers that may be as small as an extent: at least the configured memory.
fn request_bytes(served: &Served) -> u64 {
    let extents = served.caches.values().map(|entry| entry.cache.settings().manager.extent_bytes);
    let extent_bytes = u64::from(extents.min().unwrap_or(1 << 12));
    let bytes = u128::from(served.limits.request_bytes) * u128::from(REQUEST_COPIES);
    u64::try_from(bytes * u128::from(held_bytes(extent_bytes as usize)) / u128::from(extent_bytes)).unwrap_or(u64::MAX)
}

fn part(name: impl Into<String>, bytes: u64) -> RamPart {
    RamPart { name: name.into(), bytes }
}

/// What a configuration needs without its caches and volumes.
pub(super) fn fixed_bytes(config: &Config) -> u64 {
    let (server, connections) = (&config.server, config.server.connections_max() as u64);
    let parts = [
        PROGRAM_BYTES,
        ((server.threads.unwrap_or(1) + server.insert_threads.unwrap_or(1)) as u64 + OTHER_THREADS) * THREAD_BYTES,
        connections * (CONNECTION_BYTES + held_bytes(nitro_nbd::RECEIVE_BYTES)),
        server.request_memory_bytes().saturating_mul(REQUEST_COPIES),
        POOLED_BYTES_MAX as u64,
    ];
    parts.into_iter().fold(0, u64::saturating_add)
}

/// Prints the maximum RAM, and warns if the machine has less.
///
/// # Errors
/// A limit of the process is lower.
pub(super) fn announce(served: &Served) -> Result<(), Error> {
    let need = need(served);
    nitro_console::output::note!("{}", text(&need).trim_end());
    limits::check_ram(need.need_bytes)?;
    if let Some(available) = available_ram_bytes().filter(|&available| available < need.need_bytes) {
        tracing::warn!(
            "the server may need up to {} of RAM, and {} are available: use fewer connections, less request memory, a \
             smaller cache, a lean index, larger extents, a lower fingerprint index ratio or a smaller RAM cache",
            Size(need.need_bytes),
            Size(available)
        );
    }
    Ok(())
}

/// A line for the total, and one for each part.
pub fn text(need: &Ram) -> String {
    let mut text = format!("RAM: at most {}\n", Size(need.need_bytes));
    for RamPart { name, bytes } in &need.parts {
        text += &format!("  {:>10}  {name}\n", Size(*bytes).to_string());
    }
    text
}

/// Resident memory of this process.
fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

/// Addresses that this process has reserved without using them: mapped files, stacks, the allocator's areas.
pub(super) fn reserved_bytes() -> u64 {
    let (size, resident) = (status_bytes("VmSize:"), resident_bytes());
    size.unwrap_or(0).saturating_sub(resident.unwrap_or(0))
}

/// A size in this process's status (proc(5)).
fn status_bytes(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

//! Limits of the process that are too low for its configuration: they are refused before anything is served, with figures,
//! instead of a failure later on.

use super::need;
use super::plan;
use nitro_config::{Config, ServerConfig};
use nitro_console::error::Error;
use nitro_console::size::Size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::path::{Path, PathBuf};

/// Descriptors besides those of clients, devices and threads: sockets, HTTP, the control socket, files that are open for a
/// moment.
const OTHER_FILES: u64 = 160;
/// Descriptors of a device that is open, and opened again after it has grown; those of a thread with its ring.
const DEVICE_FILES: u64 = 3;
const THREAD_FILES: u64 = 4;

/// A limit of memory.
struct Limit {
    name: String,
    bytes: u64,
    /// Memory counts that is reserved and not in use.
    of_addresses: bool,
}

/// All limits of memory of this process.
fn limits() -> Vec<Limit> {
    let of = |resource, name: &str, of_addresses| {
        let bytes = getrlimit(resource).current?;
        Some(Limit { name: name.to_owned(), bytes, of_addresses })
    };
    let own = [
        of(Resource::As, "the limit of address space (ulimit -v, LimitAS=)", true),
        of(Resource::Data, "the limit of data (ulimit -d, LimitDATA=)", true),
    ];
    let groups = control_groups(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default());
    let of_group = |file: PathBuf| {
        // Without a limit, the file has the word `max`, or a number that is larger than any memory.
        let bytes = fs::read_to_string(&file).ok()?.trim().parse().ok()?;
        let name = format!("the limit of the control group (MemoryMax=, {})", file.display());
        Some(Limit { name, bytes, of_addresses: false })
    };
    own.into_iter().flatten().chain(groups.into_iter().filter_map(of_group)).collect()
}

/// The files of the limits of memory of a process's control groups and of those that they are in (cgroups(7)), from the
/// content of `/proc/self/cgroup`.
fn control_groups(text: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|one| one == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let folders = Path::new(path).ancestors().filter_map(|folder| folder.strip_prefix("/").ok());
        files.extend(folders.map(|folder| Path::new(root).join(folder).join(file)));
    }
    files
}

/// Refuses to take so much RAM if a limit of the process is lower.
///
/// # Errors
/// The lowest limit, and what needs less.
pub(super) fn check_ram(need_bytes: u64) -> Result<(), Error> {
    let reserved = need::reserved_bytes();
    check_ram_within(need_bytes, reserved, limits())
}

fn check_ram_within(need_bytes: u64, reserved_bytes: u64, limits: Vec<Limit>) -> Result<(), Error> {
    let wanted = |limit: &Limit| need_bytes.saturating_add(if limit.of_addresses { reserved_bytes } else { 0 });
    let exceeded = limits.into_iter().filter(|limit| limit.bytes < wanted(limit));
    let Some(limit) = exceeded.min_by_key(|limit| limit.bytes) else { return Ok(()) };
    let reserved = match limit.of_addresses {
        true => format!(" and {} of reserved addresses", Size(reserved_bytes)),
        false => String::new(),
    };
    let why = format!("it may need up to {}{reserved}, and {} is {}", Size(need_bytes), limit.name, Size(limit.bytes));
    Err(Error::new("RAM", why).or(
        "raise the limit, or use fewer connections (max_connections), less request_memory, a smaller cache, larger \
         extents, a lower fingerprint_index_ratio or a smaller ram",
    ))
}

/// The RAM that a configuration needs at least: what is known without its caches and origins.
pub(super) fn least_bytes(config: &Config) -> u64 {
    let caches = config.caches.values().filter_map(|cache| {
        let size = cache.size.filter(|_| !cache.path.paths().is_empty())?;
        let settings = plan::settings("cache", cache, size.0 / cache.path.paths().len() as u64).ok()?;
        Some(settings.ram_parts(settings.manager.cache_bytes).iter().map(|part| part.bytes).sum::<u64>())
    });
    caches.fold(need::fixed_bytes(config), u64::saturating_add)
}

/// Checks the limits of memory for a configuration that is not served yet.
///
/// # Errors
/// A limit is too low.
pub fn check(config: &Config) -> Result<(), Error> {
    check_ram(least_bytes(config))
}

/// Raises the number of descriptors that the process may have, as far as it is allowed to. If they are too few for the configured
/// clients and devices, there is a warning: further clients wait then.
pub(super) fn raise_files(config: &Config, threads: usize) {
    let need = files_needed(config, threads);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| maximum.is_none_or(|maximum| current < maximum)) {
        // If it is refused, the present limit is what counts.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < need => {
            let clients = config.server.connections_max();
            tracing::warn!(
                "open files: the limit is {limit}, and {need} may be needed for {clients} clients, caches and volumes: further clients \
                 wait; raise it (ulimit -n, LimitNOFILE=), or allow fewer clients (max_connections)"
            );
        }
        _ => {}
    }
}

fn files_needed(config: &Config, threads: usize) -> u64 {
    let ServerConfig { listen, .. } = &config.server;
    let devices = config.caches.values().map(|cache| cache.path.paths().len() + usize::from(cache.write_log.is_some()));
    let devices = devices.sum::<usize>() + config.volumes.len();
    let sockets = listen.len().max(1) * config.volumes.len().max(1);
    let clients = config.server.connections_max() as u64;
    OTHER_FILES + clients + sockets as u64 + DEVICE_FILES * devices as u64 + THREAD_FILES * threads as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(bytes: u64, of_addresses: bool) -> Limit {
        Limit { name: "the limit".to_owned(), bytes, of_addresses }
    }

    #[test]
    fn a_limit_below_the_need_is_refused_with_figures() {
        let check = |limits| check_ram_within(1 << 30, 1 << 28, limits).map_err(|error| error.to_string());
        assert_eq!(check(vec![limit(1 << 30, false), limit(5 << 28, true)]), Ok(()));
        let error = check(vec![limit(1 << 29, false), limit(3 << 28, false)]).unwrap_err();
        assert!(error.contains(&format!("up to {}, and the limit is {}", Size(1 << 30), Size(1 << 29))), "{error}");
        let error = check(vec![limit(1 << 30, true)]).unwrap_err();
        let told = format!("up to {} and {} of reserved addresses, and the limit is {0}", Size(1 << 30), Size(1 << 28));
        assert!(error.contains(&told), "{error}");
    }

    #[test]
    fn control_groups_of_both_versions_are_found() {
        let files = control_groups("4:memory:/a/b\n3:cpuset:/\n0::/system.slice/nitro.service\n");
        let shown: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        assert_eq!(
            shown,
            [
                "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/system.slice/nitro.service/memory.max",
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/memory.max",
            ]
        );
    }
}

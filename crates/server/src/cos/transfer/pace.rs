//! How much of the machine an operation uses.

/// Threads at most: each fills a container of its own.
const THREADS_MAX: usize = 6;
/// Threads at most in a server, whose clients need the processors, too.
const SERVER_THREADS_MAX: usize = 2;

/// How much of the machine an operation uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Threads that store or read.
    pub(super) threads: usize,
    /// Concurrent operations of each: while a container is being written, all threads wait for the device, but can hash
    /// and compress.
    pub(super) at_once: usize,
    /// Bytes of a stream that one thread stores at a time.
    pub(super) part_bytes: usize,
}

impl Pace {
    /// The RAM in bytes that one operation of a server takes at most: its threads and the data that they hold, 10 parts of
    /// a stream or 16 segments of an export, once more while they are compressed or decompressed.
    pub const SERVER_RAM_BYTES: u64 = 40 << 20;

    /// The pace of a command; `threads`: those that were asked for.
    #[must_use]
    pub fn of_command(threads: Option<u8>) -> Self {
        Self { threads: count(threads, THREADS_MAX), at_once: 4, part_bytes: 4 << 20 }
    }

    /// The pace in a server.
    #[must_use]
    pub fn of_server(threads: Option<u8>) -> Self {
        Self { threads: count(threads, SERVER_THREADS_MAX).min(SERVER_THREADS_MAX), at_once: 2, part_bytes: 1 << 20 }
    }
}

/// As many threads as were asked for, or one for each processor.
fn count(wanted: Option<u8>, max: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    wanted.map_or(cores.min(max), usize::from).max(1)
}

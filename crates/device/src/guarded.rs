//! Mappings of files that belong to other processes, which may shrink them.
//!
//! An access to a mapped page that the file does not have any more, or for which its file system or the pool of huge
//! pages has no room, raises SIGBUS (mmap(2)), which would end the process. In a guarded mapping, the signal's handler
//! replaces the whole mapping by zeroes, and notes that in a flag; the access then succeeds. Whoever uses the mapping
//! checks the flag after an access, and before the bytes have any effect. Accesses that do not fail cost nothing.
//!
//! All other signals have the effect that they would have without the handler, also those of hardware memory errors.

use libc::{c_int, c_void, siginfo_t};
use parking_lot::Mutex;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use vm_memory::MmapRegion;

/// A guarded mapping. It stays mapped while this exists.
#[derive(Debug)]
pub struct Guard {
    slot: &'static Slot,
    _map: Arc<MmapRegion>,
    _lost: Arc<AtomicBool>,
}

impl Guard {
    /// Guards a mapping, which begins and ends at pages of its file. An access that fails sets `lost`.
    ///
    /// # Errors
    /// The handler of SIGBUS cannot be set.
    pub fn new(map: &Arc<MmapRegion>, lost: &Arc<AtomicBool>) -> io::Result<Self> {
        set_handler()?;
        let slot = FREE.lock().pop().unwrap_or_else(Slot::publish);
        let start = map.as_ptr().addr();
        slot.change(start, start + map.size(), Arc::as_ptr(lost).cast_mut());
        Ok(Self { slot, _map: Arc::clone(map), _lost: Arc::clone(lost) })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.slot.change(0, 0, ptr::null_mut());
        FREE.lock().push(self.slot);
    }
}

/// The entry of a guarded mapping, which the handler finds without a lock. Entries are never freed, but used again.
#[derive(Debug)]
struct Slot {
    /// Odd while the entry changes.
    version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicPtr<AtomicBool>,
    next: Option<&'static Slot>,
}

/// The entry that was published last.
static FIRST: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());
/// Entries that are not in use.
static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

/// A mapping that contains the address of a failed access.
struct Found {
    start: usize,
    bytes: usize,
    lost: *const AtomicBool,
}

impl Slot {
    /// Makes an entry that the handler finds.
    fn publish() -> &'static Self {
        let mut first = FIRST.load(Ordering::SeqCst);
        let slot = Box::leak(Box::new(Self {
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            lost: AtomicPtr::new(ptr::null_mut()),
            next: published(first),
        }));
        while let Err(other) = FIRST.compare_exchange(first, slot, Ordering::SeqCst, Ordering::SeqCst) {
            first = other;
            slot.next = published(first);
        }
        slot
    }

    /// Only the owner of the entry calls this.
    fn change(&self, start: usize, end: usize, lost: *mut AtomicBool) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.start.store(start, Ordering::SeqCst);
        self.end.store(end, Ordering::SeqCst);
        self.lost.store(lost, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The entry's mapping, if it contains an address. The mapping existed at some moment of the call.
    fn find(&self, address: usize) -> Option<Found> {
        let version = self.version.load(Ordering::SeqCst);
        let (start, end) = (self.start.load(Ordering::SeqCst), self.end.load(Ordering::SeqCst));
        let lost = self.lost.load(Ordering::SeqCst);
        let is_whole = version.is_multiple_of(2) && self.version.load(Ordering::SeqCst) == version;
        (is_whole && (start..end).contains(&address)).then(|| Found { start, bytes: end - start, lost })
    }
}

#[expect(unsafe_code, reason = "entries are shared with a signal's handler")]
fn published(slot: *mut Slot) -> Option<&'static Slot> {
    // SAFETY: the pointer is null, or of an entry that was published, is never freed and has no mutable reference.
    unsafe { slot.as_ref() }
}

/// Replaces the guarded mapping that contains an address. `false`: there is none, or it cannot be replaced.
///
/// The thread that failed has a guard of the mapping, which therefore stays mapped and keeps its entry. The entries of
/// other mappings may change meanwhile. A mapping that is found in one of them existed during the call, at the same time
/// as that of the address, and so does not contain the address.
#[expect(unsafe_code, reason = "the mapping has no safe wrapper")]
fn replace(address: usize) -> bool {
    let mut next = published(FIRST.load(Ordering::SeqCst));
    while let Some(slot) = next {
        if let Some(found) = slot.find(address) {
            // SAFETY: the guard of the mapping has the flag, too. It is set first: another thread that reads zeroes
            // finds it set.
            unsafe { &*found.lost }.store(true, Ordering::SeqCst);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: it replaces exactly a guarded mapping, to which no references exist (`MmapRegion` has volatile
            // accesses only), and which is unmapped by its owner as before. mmap(2) is called directly: it changes
            // nothing of this process beside the mapping, and `errno` only if it fails.
            let made =
                unsafe { libc::mmap(ptr::without_provenance_mut(found.start), found.bytes, access, flags, -1, 0) };
            return made != libc::MAP_FAILED;
        }
        next = slot.next;
    }
    false
}

/// What was done on SIGBUS before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

#[expect(unsafe_code, reason = "signals have no safe wrapper")]
fn set_handler() -> io::Result<()> {
    static IS_SET: Mutex<bool> = Mutex::new(false);
    let mut is_set = IS_SET.lock();
    if *is_set {
        return Ok(());
    }
    // SAFETY: all-zero bytes are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes `action`.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut action) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let before = BEFORE.get_or_init(|| action);
    action.sa_sigaction = on_bus_error as *const () as usize;
    // On the stack that threads have for signals; nothing else is held back meanwhile.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    action.sa_mask = before.sa_mask;
    // SAFETY: the handler has the type that SA_SIGINFO requires, and calls only what a handler may call.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    *is_set = true;
    Ok(())
}

#[expect(unsafe_code, reason = "a signal's handler")]
extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid pointer.
    let told = unsafe { &*info };
    // SAFETY: a SIGBUS of this code has an address.
    let is_mended = told.si_code == libc::BUS_ADRERR && replace(unsafe { told.si_addr() }.addr());
    if !is_mended {
        pass_on(signal, told.si_code, info, context);
    }
}

/// Lets a signal have the effect that it would have without the handler.
#[expect(unsafe_code, reason = "a signal's handler")]
fn pass_on(signal: c_int, code: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // A failed access fails again after the handler; a signal that was sent does not come again.
    let was_sent = code <= 0 || code == libc::BUS_MCEERR_AO;
    let before = BEFORE.get();
    let handler = before.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    if was_sent && handler == libc::SIG_IGN {
        return;
    }
    if !was_sent && handler != libc::SIG_DFL && handler != libc::SIG_IGN {
        let has_info = before.is_some_and(|action| action.sa_flags & libc::SA_SIGINFO != 0);
        // SAFETY: the address is that of a handler of SIGBUS, whose type is told by SA_SIGINFO.
        unsafe {
            if has_info {
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(handler);
                handler(signal, info, context);
            } else {
                let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
        return;
    }
    // SAFETY: all-zero bytes are the default action; both calls may be made in a handler.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &raw const default, ptr::null_mut());
        if was_sent {
            libc::raise(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::fs::File;
    use std::os::unix::process::ExitStatusExt as _;
    use vm_memory::mmap::MmapRegionBuilder;
    use vm_memory::{Bytes, FileOffset, VolatileMemory};

    const BYTES: usize = 4 << 20;

    fn memfd(flags: MemfdFlags) -> File {
        let file = memfd_create("guarded", MemfdFlags::CLOEXEC | flags).unwrap();
        ftruncate(&file, BYTES as u64).unwrap();
        file.into()
    }

    fn map(file: &File) -> Arc<MmapRegion> {
        let map = MmapRegionBuilder::new(BYTES)
            .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
            .with_mmap_flags(libc::MAP_SHARED | libc::MAP_NORESERVE)
            .with_file_offset(FileOffset::new(file.try_clone().unwrap(), 0));
        Arc::new(map.build().unwrap())
    }

    fn byte(map: &MmapRegion, at: usize) -> u8 {
        map.as_volatile_slice().read_obj(at).unwrap()
    }

    fn put(map: &MmapRegion, at: usize, byte: u8) {
        map.as_volatile_slice().write_obj(byte, at).unwrap();
    }

    #[test]
    fn a_file_that_shrinks_becomes_zeroes_and_others_stay() {
        let (file, other) = (memfd(MemfdFlags::empty()), memfd(MemfdFlags::empty()));
        let (map, neighbour) = (map(&file), map(&other));
        let (lost, unharmed) = (Arc::default(), Arc::default());
        let guard = Guard::new(&map, &lost).unwrap();
        let _other_guard = Guard::new(&neighbour, &unharmed).unwrap();
        for at in [0, BYTES - 1] {
            put(&map, at, 7);
            put(&neighbour, at, 9);
        }
        ftruncate(&file, 4096).unwrap();
        assert_eq!((byte(&map, 0), lost.load(Ordering::SeqCst)), (7, false), "this page exists");
        assert_eq!((byte(&map, BYTES - 1), lost.load(Ordering::SeqCst)), (0, true));
        // The mapping is memory of the process now, also for writes that span pages.
        map.as_volatile_slice().write_slice(&[5; 10_000], 2000).unwrap();
        assert_eq!((byte(&map, 0), byte(&map, 11_999)), (0, 5));
        assert_eq!((byte(&neighbour, 0), byte(&neighbour, BYTES - 1)), (9, 9));
        assert!(!unharmed.load(Ordering::SeqCst));
        // A guard that comes later may use the entry again.
        drop((guard, map));
        let (file, again) = (memfd(MemfdFlags::empty()), Arc::default());
        let map = self::map(&file);
        let _guard = Guard::new(&map, &again).unwrap();
        ftruncate(&file, 0).unwrap();
        put(&map, 4096, 1);
        assert!(again.load(Ordering::SeqCst));
    }

    #[test]
    fn a_pool_of_huge_pages_without_room_ends_nothing() {
        let Ok(file) = memfd_create("guarded", MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB) else {
            return eprintln!("skipped: the kernel has no huge pages");
        };
        ftruncate(&file, BYTES as u64).unwrap();
        let (file, lost) = (File::from(file), Arc::<AtomicBool>::default());
        let map = map(&file);
        let _guard = Guard::new(&map, &lost).unwrap();
        put(&map, BYTES - 1, 3);
        ftruncate(&file, 0).unwrap();
        // Lost at the first access if the pool is empty, else now.
        put(&map, 0, 3);
        assert!(lost.load(Ordering::SeqCst));
    }

    #[test]
    fn many_threads_lose_many_mappings_at_once() {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                std::thread::spawn(move || {
                    for round in 0..50 {
                        let (file, lost) = (memfd(MemfdFlags::empty()), Arc::default());
                        let map = map(&file);
                        let _guard = Guard::new(&map, &lost).unwrap();
                        put(&map, 8192 * seed, 1);
                        assert!(!lost.load(Ordering::SeqCst));
                        if round % 2 == 0 {
                            ftruncate(&file, 0).unwrap();
                            assert_eq!((byte(&map, 8192 * seed), lost.load(Ordering::SeqCst)), (0, true));
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    /// The part of the next test that ends its process.
    #[test]
    fn ends_where_it_is_told_to() {
        let Ok(told) = std::env::var("NITRO_TEST_BUS_ERROR") else { return };
        let file = memfd(MemfdFlags::empty());
        let (map, unguarded) = (map(&file), map(&file));
        let _guard = Guard::new(&map, &Arc::default()).unwrap();
        if told == "unguarded" {
            ftruncate(&file, 0).unwrap();
            put(&unguarded, 0, 1);
        } else {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::BUS).unwrap();
        }
    }

    #[test]
    fn other_bus_errors_end_the_process() {
        for told in ["unguarded", "sent"] {
            let ended = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "guarded::tests::ends_where_it_is_told_to"])
                .env("NITRO_TEST_BUS_ERROR", told)
                .output()
                .unwrap();
            assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{told}: {ended:?}");
        }
    }
}

//! What the C library's allocator may keep for itself.

/// Arenas: threads share them, so that what is free in one is not out of reach for most threads.
const ARENAS: i32 = 8;
/// Memory from this size on is given back to the system as soon as it is free. Without this the limit grows to 32 MiB.
const GIVEN_BACK_BYTES: i32 = 1 << 20;

/// Bounds what the allocator keeps beyond what is in use. To be called before other threads start; other allocators than glibc's are
/// left as they are.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "no safe wrapper exists")]
pub fn limit_allocator() {
    // SAFETY: mallopt(3) takes two integers and changes the allocator's own parameters. One that is refused stays as it is.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, GIVEN_BACK_BYTES);
    }
}

/// Does nothing: the allocator is not glibc's.
#[cfg(not(target_env = "gnu"))]
pub fn limit_allocator() {}

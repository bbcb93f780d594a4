//! Limits the free memory that the C library's allocator keeps.

/// Number of arenas: threads share them, so that most threads can use the free memory of an arena.
const ARENAS: i32 = 8;
/// Memory from this size on is returned to the system as soon as it is free. Without this setting, the limit grows to
/// 32 MiB.
const GIVEN_BACK_BYTES: i32 = 1 << 20;

/// Limits the unused memory that the allocator keeps. To be called before other threads start; allocators other than
/// glibc's are not changed.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "no safe wrapper exists")]
pub fn limit_allocator() {
    // SAFETY: mallopt(3) takes two integers and changes the allocator's own parameters. A refused parameter stays
    // unchanged.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, GIVEN_BACK_BYTES);
    }
}

/// Does nothing: the allocator is not glibc's.
#[cfg(not(target_env = "gnu"))]
pub fn limit_allocator() {}

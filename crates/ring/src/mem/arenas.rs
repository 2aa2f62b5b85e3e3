//! Arenas of the C library's allocator.

/// Has threads that are started from now on share so many arenas: each takes 64 MiB of address space, whatever it holds,
/// and there may be eight for a core. For a process whose address space is limited.
pub fn limit_arenas(most: u8) {
    // SAFETY: it takes two numbers, and sets one of the allocator's own variables under its lock. What it answers says
    // whether it knows the parameter, which glibc does.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, i32::from(most));
    }
}

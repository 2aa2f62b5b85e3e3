//! The limit on address space.

use rustix::process::{Resource, getrlimit};

/// What a process takes besides its cores: caches of metadata, the journal, threads.
const BASE_BYTES: u64 = 512 << 20;

/// What a core may take: its buffers (256 MiB), those to receive into, its stack and heap.
const CORE_BYTES: u64 = 384 << 20;

/// Arenas of the allocator within a limit: those of all threads would take most of what is left beside the cores.
const ARENAS_MAX: u8 = 2;

/// What `cores` cores may need; the error is the limit that does not bear it. Within too small a
/// limit some allocation fails in the middle of the work, and most of those end the process.
pub(crate) fn check(cores: u16) -> Result<(), (u64, u64)> {
    let limit = getrlimit(Resource::As).current;
    match limit.filter(|limit| *limit < needed(cores)) {
        Some(limit) => return Err((limit, needed(cores))),
        None if limit.is_some() => ring::limit_arenas(ARENAS_MAX),
        None => {}
    }
    Ok(())
}

/// What that limit leaves beside `cores` cores; `None` without one.
pub(crate) fn left(cores: u16) -> Option<u64> {
    getrlimit(Resource::As).current.map(|limit| limit.saturating_sub(needed(cores)))
}

fn needed(cores: u16) -> u64 {
    BASE_BYTES + CORE_BYTES * u64::from(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_core_has_its_share_and_no_limit_is_enough() {
        assert_eq!(needed(2) - needed(1), CORE_BYTES);
        assert_eq!(check(1), Ok(()), "tests run without a limit");
        assert_eq!(left(1), None, "tests run without a limit");
    }
}

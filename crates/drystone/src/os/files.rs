//! The limit on open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard one: each connection and each disk is one.
/// Gives the limit now in force; `None` is no limit.
pub(crate) fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!("the limit on open files stays at {current:?}: {error}");
            current
        }
    }
}

/// How many connections the control socket may have: few enough that they leave some for hosts.
pub(crate) fn control_connections(most: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    most.min(usize::try_from(limit / 16).unwrap_or(usize::MAX)).max(CONTROL_MIN)
}

/// As many commands can always be under way.
const CONTROL_MIN: usize = 8;

/// How many connections of hosts the limit on open files has room for, besides what is open now,
/// the control socket, and `more` files that are about to be opened.
pub(crate) fn connections(more: usize, control: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let left = usize::try_from(limit).unwrap_or(usize::MAX);
    left.saturating_sub(open + more + control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_left_for_commands() {
        assert!(control_connections(256) <= 256 && control_connections(1) >= CONTROL_MIN);
        assert!(connections(0, 0) > connections(100, 8));
        assert_eq!(connections(usize::MAX / 2, 8), 0);
    }

    #[test]
    fn the_soft_limit_reaches_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise_limit(), hard);
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
    }
}

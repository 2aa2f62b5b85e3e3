//! The line that tells that a disk can be used.
//!
//! Scripts wait for it, so its form stays: the word `attached`, then `key=value` pairs. New pairs may
//! come before `at=`, which may hold blanks, as a path may.

use crate::attach::report::Identity;
use block::Geometry;
use member::spec::size;
use std::fmt;

/// A disk that can be used.
#[derive(Debug)]
pub(crate) struct Ready<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) geometry: Geometry,
    pub(crate) sessions: usize,
}

impl fmt::Display for Ready<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { pid, name, volume, place, policy } = self.identity;
        let name = if name.is_empty() { String::new() } else { format!(" name={name}") };
        let size = size::short(self.geometry.size_bytes());
        let access = if self.geometry.read_only { "ro" } else { "rw" };
        write!(
            f,
            "attached pid={pid}{name} volume={volume} size={size} block={} access={access} sessions={} policy={policy} at={}",
            self.geometry.block_bytes,
            self.sessions,
            place.escape_debug()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::report::tests::identity;

    /// This line is an interface: this test changes only together with the changelog.
    #[test]
    fn the_line_keeps_its_form() {
        let geometry = Geometry { read_only: true, ..Geometry::new(4096, 1 << 18) };
        let line = Ready { identity: &identity(), geometry, sessions: 2 }.to_string();
        assert_eq!(
            line,
            "attached pid=4711 volume=iscsi://192.0.2.1/iqn.2026-11.com.example:a/0 size=1G block=4096 access=ro sessions=2 policy=least-queue-depth at=unix:/run/a.sock"
        );
        let named = Identity { name: "db".to_owned(), ..identity() };
        let line = Ready { identity: &named, geometry, sessions: 2 }.to_string();
        assert!(line.starts_with("attached pid=4711 name=db volume=iscsi://"), "{line}");
    }
}

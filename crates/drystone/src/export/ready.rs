//! The lines that tell what is served, once it is.
//!
//! Scripts wait for them, so their form stays: a first word that says what the line is about,
//! then `key=value` pairs. New pairs may come at the end of `portal` lines, and before `from=`
//! in `lun` lines; `from=` is last because a path may hold blanks.

use member::spec::{Cache, size};
use std::fmt;
use std::net::SocketAddr;

/// One LUN as served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lun {
    /// Its number.
    pub(crate) number: usize,
    /// Capacity.
    pub(crate) size_bytes: u64,
    /// Logical block size.
    pub(crate) block_bytes: u32,
    /// Unit serial number.
    pub(crate) serial: String,
    /// When writes are answered.
    pub(crate) cache: Cache,
    /// Writes are refused.
    pub(crate) read_only: bool,
    /// The SPEC without its options.
    pub(crate) name: String,
}

impl fmt::Display for Lun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = size::short(self.size_bytes);
        let cache = self.cache.word();
        let access = if self.read_only { "ro" } else { "rw" };
        write!(
            f,
            "lun number={} size={size} block={} serial={} cache={cache} access={access} from={}",
            self.number,
            self.block_bytes,
            self.serial,
            self.name.escape_debug()
        )
    }
}

/// One portal as bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Portal<'a> {
    /// Address with its real port.
    pub(crate) address: SocketAddr,
    /// Name of the target.
    pub(crate) iqn: &'a str,
}

impl fmt::Display for Portal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "portal address={} iqn={}", self.address, self.iqn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These lines are an interface: this test changes only together with the changelog.
    #[test]
    fn the_lines_keep_their_form() {
        let lun = Lun {
            number: 1,
            size_bytes: 10 << 30,
            block_bytes: 4096,
            serial: "DS-1".to_owned(),
            cache: Cache::Volatile,
            read_only: true,
            name: "file:/srv/my disk\n.img:10G".to_owned(),
        };
        assert_eq!(
            lun.to_string(),
            "lun number=1 size=10G block=4096 serial=DS-1 cache=volatile access=ro from=file:/srv/my disk\\n.img:10G"
        );
        let portal = Portal { address: "[::1]:3260".parse().unwrap(), iqn: "iqn.2026-11.a:b" };
        assert_eq!(portal.to_string(), "portal address=[::1]:3260 iqn=iqn.2026-11.a:b");
    }
}

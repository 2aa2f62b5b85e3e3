//! Which hosts may use a volume, as operators are told.

/// Whom volumes without an access list are for: what the server of the member was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlisted {
    /// Those that rules or a secret of the start let in.
    Rule,
    /// All that reach the member, as was said at its start.
    Everybody,
    /// Those on the machine of the member.
    Loopback,
    /// Nobody.
    Nobody,
}

/// Which hosts may use a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// Those on its access list.
    Listed,
    /// It has no list: those that rules or a secret of the start let in.
    Rule,
    /// It has no list: all that reach the member, as was said at its start.
    Everybody,
    /// It has no list: those on the machine of the member.
    Loopback,
    /// None.
    Nobody,
}

impl From<Unlisted> for Hosts {
    fn from(unlisted: Unlisted) -> Self {
        match unlisted {
            Unlisted::Rule => Self::Rule,
            Unlisted::Everybody => Self::Everybody,
            Unlisted::Loopback => Self::Loopback,
            Unlisted::Nobody => Self::Nobody,
        }
    }
}

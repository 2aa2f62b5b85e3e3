//! How many connections hosts may have to the members of a group, and which of them that leaves to one member.
//!
//! [`ConnectionLimits`] is what an operator sets. [`Allowance`] is what a member may have of it: what the limits leave
//! beside what the others have told last ([`Roll::allowance_of`](crate::membership::Roll::allowance_of)). [`Crowding`] says
//! when most of a limit is taken, and [`Refusals`] what is told of logins that were refused for it. None of it reads a clock
//! or the store: it is given what it goes by.
//!
//! A connection is one TCP connection of a session of a host to a volume or snapshot. Sessions in which hosts ask for
//! targets last for moments and are not counted; what members ask of each other goes another way and is none.

mod crowding;
mod refusals;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::mutants::{self, Mutant};
use crate::record::Setting;

pub use crowding::{Crowding, Turn};
pub use refusals::{Refusals, RefusedLogins};

/// A limit, at most: what 64 members can be asked to bear, each with more sessions than their numbers allow for.
pub const LIMIT_MAX: u32 = 4_194_304;

/// How many connections there may be. Invariant: one of 1 to [`LIMIT_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct ConnectionLimit(u32);

/// A number that is no limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no limit on connections: write a number from 1 to {LIMIT_MAX}")]
pub struct ConnectionLimitError(String);

impl ConnectionLimit {
    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Display for ConnectionLimit {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, out)
    }
}

impl TryFrom<u32> for ConnectionLimit {
    type Error = ConnectionLimitError;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        let is_one = (1..=LIMIT_MAX).contains(&number);
        is_one.then_some(Self(number)).ok_or_else(|| ConnectionLimitError(number.to_string()))
    }
}

impl From<ConnectionLimit> for u32 {
    fn from(limit: ConnectionLimit) -> Self {
        limit.0
    }
}

impl FromStr for ConnectionLimit {
    type Err = ConnectionLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<u32>().ok().filter(|_| is_number);
        number.ok_or_else(|| ConnectionLimitError(text.to_owned())).and_then(Self::try_from)
    }
}

/// The limits of a group and of its pools. Those of pools lie beside that of the group, and not in the records of pools:
/// the default pool has no record, and members of earlier versions would write one without what they do not know.
///
/// The default is no limit at all, and is what a group has that was founded before there were limits: an upgrade must not
/// shut out hosts that were let in before anybody could say how many there may be. A group that is founded is given
/// [`usual`](Self::usual) ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionLimits {
    /// Of all members together; `None` where there is no such limit.
    #[serde(default)]
    pub group: Option<ConnectionLimit>,
    /// Of the members of each pool that has none of its own; `None` where there is no such limit.
    #[serde(default)]
    pub pool: Option<ConnectionLimit>,
    /// Of pools that have one of their own, by name. One of a pool that there is none of counts for nothing.
    #[serde(default)]
    pub pools: BTreeMap<String, ConnectionLimit>,
}

impl ConnectionLimits {
    /// Of the group and of a pool: for arrays of usual size, and what a new group has.
    pub const USUAL: (ConnectionLimit, ConnectionLimit) =
        (ConnectionLimit(4096), ConnectionLimit(1024));

    /// For small ones.
    pub const SMALL: (ConnectionLimit, ConnectionLimit) =
        (ConnectionLimit(512), ConnectionLimit(256));

    /// Those that a new group has.
    #[must_use]
    pub fn usual() -> Self {
        let (group, pool) = Self::USUAL;
        Self { group: Some(group), pool: Some(pool), pools: BTreeMap::new() }
    }

    /// That of a pool; `None` where there is none.
    #[must_use]
    pub fn of_pool(&self, name: &str) -> Option<ConnectionLimit> {
        self.pools.get(name).copied().or(self.pool)
    }
}

impl Setting for ConnectionLimits {
    const WHAT: &'static str = "how many connections the group takes";
}

/// What an operator sets for the whole group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupLimit {
    /// Of all members together; those of pools stay.
    Number(ConnectionLimit),
    /// [`ConnectionLimits::USUAL`], for the group and for pools without one of their own.
    Usual,
    /// [`ConnectionLimits::SMALL`], for both as well.
    Small,
    /// No limit, for both as well; pools keep one of their own.
    None,
}

/// How many connections hosts have to a member, as it has told the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectionCount {
    pub(crate) hosts: u32,
}

impl Setting for ConnectionCount {
    const WHAT: &'static str = "how many connections a member has";
}

/// Which limit it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// That of the group.
    Group,
    /// That of the pool of this name.
    Pool(String),
}

/// How much of a limit is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// How many there may be; `None` where there is no limit.
    pub limit: Option<u32>,
    /// How many members other than this one have.
    pub others: u64,
}

impl Taken {
    /// How many this member may have; `None` where there is no limit.
    #[must_use]
    pub fn left_to_own(self) -> Option<u32> {
        let others = if mutants::is(Mutant::OthersUncounted) { 0 } else { self.others };
        Some(self.limit?.saturating_sub(u32::try_from(others).unwrap_or(u32::MAX)))
    }

    /// How many there are with the member's own.
    #[must_use]
    pub fn with_own(self, own: u32) -> u64 {
        self.others.saturating_add(u64::from(own))
    }
}

/// What a member may have, by what it knows of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// The limit of the group.
    pub group: Taken,
    /// The name of the member's pool.
    pub pool_name: String,
    /// The limit of that.
    pub pool: Taken,
}

impl Allowance {
    /// How many connections hosts may have to this member; `None` where there is no limit.
    #[must_use]
    pub fn own_max(&self) -> Option<u32> {
        let left = [self.group.left_to_own(), self.pool.left_to_own()];
        left.into_iter().flatten().min()
    }

    /// How many of those may come from one address: half of the lower limit, so that nobody alone takes all that there is;
    /// `None` where there is no limit.
    #[must_use]
    pub fn of_one_max(&self) -> Option<u32> {
        let limits = [self.group.limit, self.pool.limit];
        limits.into_iter().flatten().min().map(|limit| limit.div_ceil(2))
    }

    /// The limit that is reached first, and how many it is; `None` where there is none.
    #[must_use]
    pub fn bound(&self) -> Option<(Bound, u32)> {
        let group = self.group.limit.zip(self.group.left_to_own());
        let pool = self.pool.limit.zip(self.pool.left_to_own());
        let of_pool = |limit| (Bound::Pool(self.pool_name.clone()), limit);
        match (group, pool) {
            (Some((limit, left)), Some((_, left_in_pool))) if left < left_in_pool => {
                Some((Bound::Group, limit))
            }
            (_, Some((limit, _))) => Some(of_pool(limit)),
            (Some((limit, _)), None) => Some((Bound::Group, limit)),
            (None, None) => None,
        }
    }

    /// What this much is without the others: what a member goes by that knows the limits and not the others yet.
    #[must_use]
    pub fn alone(limits: &ConnectionLimits, pool: &str) -> Self {
        let number = |limit: Option<ConnectionLimit>| limit.map(ConnectionLimit::get);
        let of = |limit| Taken { limit: number(limit), others: 0 };
        let (group, pool_name) = (of(limits.group), pool.to_owned());
        Self { group, pool_name, pool: of(limits.of_pool(pool)) }
    }
}

#[cfg(test)]
mod tests;

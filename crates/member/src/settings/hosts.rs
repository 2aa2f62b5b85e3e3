//! Which hosts may use a volume, as operators are told and as targets ask.

use group::access::{Object, Record};
use group::settings::Known;
use serde::{Deserialize, Serialize};
use target::{Access, AccessRule};

/// Whom volumes without an access list are for: what the server of the member was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// Records as a target asks them.
pub(super) fn access_of(records: &[Record], object: Object, shared: bool, known: &Known) -> Access {
    let parts = records.iter().map(Record::parts).filter(|parts| parts.scope.includes(object));
    let rule = |parts: &group::access::Parts| AccessRule {
        chap_user: parts.chap.clone(),
        initiator: parts.iqn.clone(),
        from: parts.address.clone(),
    };
    let rules: Vec<AccessRule> = parts.map(rule).collect();
    let is_named = |user: &str| rules.iter().any(|rule| rule.chap_user.as_deref() == Some(user));
    let users = known.users.iter().filter(|user| is_named(user.user())).cloned().collect();
    Access { rules, users, mutual: known.mutual.clone(), shared }
}

//! Who may use a volume, its snapshots, or both: what access records mean. Pure.
//!
//! A record names a CHAP user, an iSCSI name, addresses, or several of these, and is for hosts of which
//! all of that holds. One record that holds is enough to be let in, and without one nobody is. Names
//! and addresses are what a host says of itself: only a CHAP user is proved.

mod list;
mod record;

pub use iscsi::address::{AddressError, AddressPattern};
pub use list::{
    AccessList, ENTRIES_MAX, Entry, POLICY_NAME_BYTES_MAX, POLICY_RECORDS_MAX, Policies, Policy,
    check_policy_name,
};
pub use record::{Host, Object, Parts, Record, Scope, check_user};

use std::collections::BTreeSet;

/// Why a record, or a change of a list, is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// A record that would let everybody in.
    #[error("an access record needs at least one of a CHAP user, an iSCSI name and an address")]
    NoPart,
    /// A CHAP user that cannot be.
    #[error(
        "a CHAP user has 1 to {} bytes without blanks and control characters",
        iscsi::chap::USER_LEN_BYTES_MAX
    )]
    User,
    /// An iSCSI name that cannot be.
    #[error("'{iqn}' is not an iSCSI name: {error}")]
    Iqn {
        /// As written.
        iqn: String,
        /// What is wrong.
        error: iscsi::text::NameError,
    },
    /// An address that cannot be.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Neither a volume nor its snapshots.
    #[error("'{0}' is nothing that a record can be for: write volume, snapshot or both")]
    Scope(String),
    /// A word of a record that means nothing.
    #[error(
        "'{0}' means nothing in an access record: write chap=USER, iqn=NAME, ip=ADDRESS or for=volume"
    )]
    Word(String),
    /// A part that is there twice.
    #[error("'{0}' is there twice: make it two records if one of them is enough")]
    Twice(String),
    /// It is on the list.
    #[error("the same is there already, as number {0}")]
    ThereAlready(u32),
    /// The list has all it may have.
    #[error(
        "there are {0} already, which is the most: remove one, or put records that belong together into a policy"
    )]
    Full(usize),
    /// Nothing has this number.
    #[error("there is no number {0} on the list")]
    NoSuchRecord(u32),
    /// A name that a policy cannot have.
    #[error(
        "'{0}' cannot be the name of a policy: write 1 to {POLICY_NAME_BYTES_MAX} letters, digits, '-', '.' and '_'"
    )]
    PolicyName(String),
}

/// What a host must prove before it may use something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand<'a> {
    /// There is nothing that would let it in.
    Refusal,
    /// Nothing: a record that names no CHAP user lets it in.
    Nothing,
    /// That it is one of these CHAP users.
    User(BTreeSet<&'a str>),
}

/// What a host must prove before `records` let it in.
#[must_use]
pub fn demand<'a>(records: &'a [Record], object: Object, host: Host<'_>) -> Demand<'a> {
    let mut users = BTreeSet::new();
    for record in records.iter().filter(|record| record.is_for(object, host)) {
        match &record.parts().chap {
            None => return Demand::Nothing,
            Some(user) => users.insert(user.as_str()),
        };
    }
    if users.is_empty() { Demand::Refusal } else { Demand::User(users) }
}

/// Whether `records` let a host in that proved to be this CHAP user, or none. To be asked again whenever
/// records change: a session that it says no to has to end.
#[must_use]
pub fn admits(records: &[Record], object: Object, host: Host<'_>, proved: Option<&str>) -> bool {
    match demand(records, object, host) {
        Demand::Refusal => false,
        Demand::Nothing => true,
        Demand::User(users) => proved.is_some_and(|user| users.contains(user)),
    }
}

#[cfg(test)]
mod tests;

//! Why a group or its members are not changed.

use std::net::{IpAddr, SocketAddr};

use super::applicant::{CLOCKS_SECONDS_MAX, NAME_BYTES_MAX, PORT_MAX, PORTS, WORD_BYTES_MAX};
use super::names::VOLUME_NAME_BYTES_MAX;
use super::{DEFAULT_POOL, LIFETIME_DAYS_MAX, MEMBERS_MAX, POOLS_MAX, TOKENS_MAX};
use crate::address::GroupAddress;
use crate::record::SettingError;
use crate::store::StoreError;
use crate::words::counted;

/// Why a group or its members are not changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MembershipError {
    /// The store does not do it; nothing was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is in the store cannot be read.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The system has no randomness.
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// The store failed while it made a change, and does not say since whether it is made.
    #[error(
        "it is not known whether the group was changed, so look at it before you try again: {0}"
    )]
    Unknown(StoreError),
    /// Others change the group all the time.
    #[error("others changed the group at the same time: try again")]
    Contended,
    /// What is in the store breaks a rule that every change keeps.
    #[error(
        "what the configuration store says of the group cannot be, so nothing of it is changed: {0}"
    )]
    Unsound(String),
    /// The store has no group.
    #[error("there is no group in the configuration store")]
    NoGroup,
    /// The store has a group.
    #[error("there is a group '{0}' in the configuration store already")]
    GroupExists(String),
    /// A name that neither a group nor a member nor a pool can have.
    #[error(
        "'{0}' cannot be the name of a group, a member or a pool: write 1 to {NAME_BYTES_MAX} letters, digits, '-', \
         '.' and '_', and more than dots"
    )]
    Name(String),
    /// A member has this name, whatever the case of its letters.
    #[error("the group has a member '{0}' already: choose another name for this server")]
    NameTaken(String),
    /// A member has this array.
    #[error(
        "the array of this server is that of the member '{member}' already: a copy of a member cannot join beside it; \
         if that member is gone for good, remove it first"
    )]
    ArrayKnown {
        /// Its name.
        member: String,
    },
    /// An address at which nobody else reaches a server.
    #[error(
        "{0} cannot be the address of a member: name one address of this server that the others reach it at"
    )]
    Address(IpAddr),
    /// A port that leaves no room for all that a member needs.
    #[error(
        "{0} cannot be the port of a member, which needs {PORTS} in a row: choose one from 1 to {PORT_MAX}"
    )]
    Port(u16),
    /// A member has one of the ports.
    #[error(
        "the member '{member}' has {door} and the {} ports behind it: choose another address, or a port that is at \
         least {PORTS} away from it",
        PORTS - 1
    )]
    AddressTaken {
        /// Its name.
        member: String,
        /// Where it answers members.
        door: SocketAddr,
    },
    /// The address of the group is one that a member has for itself.
    #[error(
        "{address} is an address of the member '{member}': the group needs one that no server has, so choose another"
    )]
    AddressOfMember {
        /// Which address.
        address: IpAddr,
        /// Whose it is.
        member: String,
    },
    /// No member is in the network of that address.
    #[error(
        "no member has an interface in the network of {0}, as far as this one knows: choose an address of a network in \
         which members have theirs, with the prefix of that network"
    )]
    AddressNowhere(GroupAddress),
    /// A server wants to join with the address that is the group's.
    #[error("{0} is the address of the group: name an address that is this server's own")]
    AddressOfGroup(IpAddr),
    /// A server says something of itself that no version of drystone says.
    #[error("the server does not say its {0} in at most {WORD_BYTES_MAX} visible ASCII characters")]
    Applicant(&'static str),
    /// There are as many members as there may be.
    #[error("the group has {MEMBERS_MAX} members already: remove one first")]
    Full,
    /// Each number was given to a member once.
    #[error("the group has had as many members as there are numbers for: make a new one")]
    NumbersUsedUp,
    /// The clocks of the two servers differ.
    #[error(
        "the clock of the server that wants to join is {seconds} s {} that of the group, and {CLOCKS_SECONDS_MAX} s \
         are the most: set it, best by NTP",
        if *.is_ahead { "ahead of" } else { "behind" }
    )]
    Clock {
        /// By how much.
        seconds: u64,
        /// That of the applicant is the later one.
        is_ahead: bool,
    },
    /// It runs another major version.
    #[error(
        "the server runs drystone {theirs} and the group runs {ours}, which do not go together: let both run the same \
         major version"
    )]
    Version {
        /// That of the applicant.
        theirs: String,
        /// That of a member.
        ours: String,
    },
    /// The token is wrong, has expired, or was used: who presents one is not told which.
    #[error(
        "the token does not let this server in: it is wrong, was used or has expired; make a new one on a member"
    )]
    Token,
    /// There are as many tokens as there may be.
    #[error(
        "there are {TOKENS_MAX} tokens to join with already; use or revoke one, or wait until one expires"
    )]
    TooManyTokens,
    /// A token that would be worth nothing at once, or for too long.
    #[error("a token to join with lasts from one second to {LIFETIME_DAYS_MAX} days")]
    Lifetime,
    /// No token has this identifier.
    #[error("there is no token '{0}' to join with")]
    NoSuchToken(String),
    /// No member has this name.
    #[error("the group has no member '{0}'")]
    NoSuchMember(String),
    /// The only member.
    #[error("'{0}' is the last member, which cannot be removed: delete the group instead")]
    LastMember(String),
    /// No pool has this name.
    #[error("the group has no pool '{0}'")]
    NoSuchPool(String),
    /// A pool has this name, whatever the case of its letters.
    #[error("the group has a pool '{0}' already: choose another name")]
    PoolTaken(String),
    /// There are as many pools as there may be.
    #[error("the group has {POOLS_MAX} pools beside '{DEFAULT_POOL}' already: delete one first")]
    TooManyPools,
    /// A pool that is to be deleted has members.
    #[error(
        "the pool '{pool}' has {}: move them to another pool first, or merge this one into it",
        counted(*.members as u64, "member")
    )]
    PoolNotEmpty {
        /// Its name.
        pool: String,
        /// How many.
        members: usize,
    },
    /// The pool of who is in no other one.
    #[error(
        "the pool '{DEFAULT_POOL}' is that of all members that are in no other one, and always there"
    )]
    DefaultPool,
    /// A pool that is to be merged into itself.
    #[error("'{0}' cannot be merged into itself: name two pools")]
    SamePool(String),
    /// A name that no volume can have.
    #[error(
        "{0:?} cannot be the name of a volume: take 1 to {VOLUME_NAME_BYTES_MAX} letters, digits, '-', '.', '_' or ':'"
    )]
    VolumeName(String),
    /// A volume of another member has this name, or one that differs from it only in the case of letters, or in what of
    /// `-`, `_` and `:` stands where.
    #[error(
        "the name '{name}' is that of a volume on the member '{member_name}': names of volumes are unique in the group"
    )]
    VolumeNameTaken {
        /// As that member writes it.
        name: String,
        /// The member.
        member_name: String,
    },
    /// A volume is to stay where it is, and its name is neither that member's nor was given away by the move.
    #[error(
        "the name '{0}' is not this member's in the group, and the move of its volume has not given it away: see with \
         'drystone volume list' which member has it"
    )]
    NameNotHeld(String),
    /// Who wants to delete the group is not alone in it.
    #[error("the group has {} beside this one: remove those first", counted(*.0 as u64, "member"))]
    NotAlone(usize),
    /// The member is no longer in the group.
    #[error("this member was removed from the group")]
    Removed,
    /// What speaks for the member is of an earlier start of it.
    #[error("this member was started once more since, and only that start speaks for it")]
    OtherLife,
}

//! What may be changed of a group, and how: each rule changes a copy of the roll, or refuses and says why.
//!
//! ```text
//!              found / admit                 enter                    appear
//!   (none) ───────────────────▶ admitted ───────────▶ entered ───────────────────▶ present
//!      ▲                         │    │               │  ▲  ▲   its lease ends       │
//!      │   admit, of the same    │    │               │  │  ╰───────────────────────╯
//!      │   name and array        │    │     remove    │  ╰── enter, of each start
//!      ╰─────────────────────────╯◀───┴───────────────╯
//! ```

use std::net::SocketAddr;

use super::applicant::{check_name, check_word, overlap};
use super::{
    About, Applicant, DEFAULT_POOL, GroupId, JoinToken, MEMBERS_MAX, MemberRecord, MembershipError,
    POOLS_MAX, Pool, Roll, TOKENS_MAX,
};
use crate::accounts::TokenHash;
use crate::address::GroupAddress;
use crate::connections::{ConnectionLimit, ConnectionLimits, GroupLimit};
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;

/// Whoever made the group: the only member that nobody has admitted.
const FOUNDER: MemberId = MemberId(1);

/// What an applicant shows.
pub(super) struct ShownToken<'a> {
    pub(super) id: &'a str,
    pub(super) hash: TokenHash,
}

/// The group, where there is none.
pub(super) fn found(
    roll: &mut Roll,
    name: &str,
    id: &GroupId,
    founder: &Applicant,
    now_unix_seconds: u64,
) -> Result<MemberId, MembershipError> {
    if let Some(about) = &roll.about {
        return Err(MembershipError::GroupExists(about.name.clone()));
    }
    check_name(name)?;
    founder.check()?;
    roll.about = Some(About {
        id: id.clone(),
        name: name.to_owned(),
        created_unix_seconds: now_unix_seconds,
        last_member: FOUNDER.0,
    });
    // One that is there already, and knows none, goes on without.
    if !mutants::is(Mutant::FoundUnlimited) {
        roll.limits = ConnectionLimits::usual();
    }
    roll.members.insert(FOUNDER, founder.record(now_unix_seconds));
    Ok(FOUNDER)
}

pub(super) fn rename(roll: &mut Roll, name: &str) -> Result<(), MembershipError> {
    check_name(name)?;
    name.clone_into(&mut about(roll)?.name);
    Ok(())
}

/// A token, in place of those that have expired.
pub(super) fn add_token(
    roll: &mut Roll,
    id: &str,
    token: &JoinToken,
) -> Result<(), MembershipError> {
    about(roll)?;
    roll.tokens.retain(|_, other| !is_expired(other, token.created_unix_seconds));
    if roll.tokens.len() >= TOKENS_MAX {
        return Err(MembershipError::TooManyTokens);
    }
    // Of 2^32 identifiers a few dozen are in use: who draws one of those tries again.
    if roll.tokens.contains_key(id) {
        return Err(MembershipError::Contended);
    }
    roll.tokens.insert(id.to_owned(), token.clone());
    Ok(())
}

pub(super) fn revoke_token(roll: &mut Roll, id: &str) -> Result<(), MembershipError> {
    about(roll)?;
    match roll.tokens.remove(id) {
        Some(_) => Ok(()),
        None => Err(MembershipError::NoSuchToken(id.to_owned())),
    }
}

/// A new member, in exchange for a token. The token is judged before all else: who has none learns nothing of the
/// group.
pub(super) fn admit(
    roll: &mut Roll,
    shown: &ShownToken<'_>,
    applicant: &Applicant,
    now_unix_seconds: u64,
) -> Result<MemberId, MembershipError> {
    about(roll)?;
    if !is_good(roll.tokens.get(shown.id), shown, now_unix_seconds) {
        return Err(MembershipError::Token);
    }
    applicant.check()?;
    applicant.check_clock(now_unix_seconds)?;
    check_version(roll, applicant)?;
    if let Some(lost) = lost_admission(roll, applicant) {
        roll.forget(lost);
    }
    let record = applicant.record(now_unix_seconds);
    check_beside(roll, &record)?;
    if !mutants::is(Mutant::TokenTwice) {
        roll.tokens.remove(shown.id);
    }
    let number = next_number(roll)?;
    let former = roll.members.insert(number, record);
    debug_assert!(former.is_none() || mutants::is(Mutant::NumberAgain), "a number is given once");
    Ok(number)
}

/// The start of a member's life.
pub(super) fn enter(
    roll: &mut Roll,
    member: MemberId,
    incarnation: u64,
    version: &str,
) -> Result<(), MembershipError> {
    debug_assert_ne!(incarnation, 0, "0 is the one before the first");
    let Some(record) = roll.members.get_mut(&member) else { return Err(roll.missing()) };
    check_word("version", version)?;
    record.incarnation = incarnation;
    version.clone_into(&mut record.version);
    Ok(())
}

/// The end of a membership that is not the last one.
pub(super) fn remove(roll: &mut Roll, name: &str) -> Result<MemberId, MembershipError> {
    about(roll)?;
    let found = roll.find(name).map(|(number, _)| number);
    let number = found.ok_or_else(|| MembershipError::NoSuchMember(name.to_owned()))?;
    if roll.members.len() == 1 {
        return Err(MembershipError::LastMember(name.to_owned()));
    }
    roll.forget(number);
    Ok(number)
}

/// The end of a group whose last member asks for it.
pub(super) fn delete(roll: &mut Roll) -> Result<(), MembershipError> {
    about(roll)?;
    let others = roll.members.len().saturating_sub(1);
    if others > 0 {
        return Err(MembershipError::NotAlone(others));
    }
    roll.about = None;
    roll.members.clear();
    roll.tokens.clear();
    roll.pools.clear();
    roll.address = None;
    roll.limits = ConnectionLimits::default();
    roll.present.clear();
    roll.inventories.clear();
    roll.connections.clear();
    Ok(())
}

/// Another address, or none. `is_here` says whether the member that is asked has an interface in its network; of the others
/// it is known where hosts and members reach them.
pub(super) fn set_address(
    roll: &mut Roll,
    address: Option<GroupAddress>,
    is_here: bool,
) -> Result<(), MembershipError> {
    about(roll)?;
    let Some(wanted) = address else {
        roll.address = None;
        return Ok(());
    };
    // Each host has that network, and no other one reaches it there.
    let mut is_reached = is_here && !wanted.ip().is_loopback();
    for (number, record) in &roll.members {
        let portals = roll.inventories.get(number).map(|inventory| &inventory.portals);
        let portals = portals.into_iter().flatten().map(SocketAddr::ip);
        for own in portals.chain([record.address]).map(|own| own.to_canonical()) {
            if own == wanted.ip() {
                let member = record.name.clone();
                return Err(MembershipError::AddressOfMember { address: own, member });
            }
            is_reached |= wanted.is_beside(own);
        }
    }
    if !is_reached {
        return Err(MembershipError::AddressNowhere(wanted));
    }
    roll.address = Some(wanted);
    Ok(())
}

/// How many connections the group takes.
pub(super) fn set_connections(roll: &mut Roll, limit: GroupLimit) -> Result<(), MembershipError> {
    about(roll)?;
    let limits = &mut roll.limits;
    let both = |(group, pool)| (Some(group), Some(pool));
    (limits.group, limits.pool) = match limit {
        GroupLimit::Number(number) => (Some(number), limits.pool),
        GroupLimit::Usual => both(ConnectionLimits::USUAL),
        GroupLimit::Small => both(ConnectionLimits::SMALL),
        GroupLimit::None => (None, None),
    };
    Ok(())
}

/// How many a pool takes; `None` as pools do that have no limit of their own.
pub(super) fn set_pool_connections(
    roll: &mut Roll,
    name: &str,
    limit: Option<ConnectionLimit>,
) -> Result<(), MembershipError> {
    about(roll)?;
    pool(roll, name)?;
    match limit {
        Some(limit) => roll.limits.pools.insert(name.to_owned(), limit),
        None => roll.limits.pools.remove(name),
    };
    Ok(())
}

/// A pool, without members.
pub(super) fn create_pool(roll: &mut Roll, name: &str) -> Result<(), MembershipError> {
    about(roll)?;
    check_name(name)?;
    if let Some(taken) = roll.pool_names().iter().find(|other| other.eq_ignore_ascii_case(name)) {
        return Err(MembershipError::PoolTaken((*taken).to_owned()));
    }
    if roll.pools.len() >= POOLS_MAX {
        return Err(MembershipError::TooManyPools);
    }
    roll.pools.insert(name.to_owned(), Pool::default());
    // An earlier version, which knows no limits, may have deleted one of this name.
    roll.limits.pools.remove(name);
    Ok(())
}

pub(super) fn delete_pool(roll: &mut Roll, name: &str) -> Result<(), MembershipError> {
    about(roll)?;
    let members = pool(roll, name)?.len();
    if name == DEFAULT_POOL {
        return Err(MembershipError::DefaultPool);
    }
    if members > 0 {
        return Err(MembershipError::PoolNotEmpty { pool: name.to_owned(), members });
    }
    roll.pools.remove(name);
    roll.limits.pools.remove(name);
    Ok(())
}

/// The end of a pool whose members go to another one.
pub(super) fn merge_pool(roll: &mut Roll, from: &str, into: &str) -> Result<(), MembershipError> {
    about(roll)?;
    let moved = pool(roll, from)?;
    pool(roll, into)?;
    if from == into {
        return Err(MembershipError::SamePool(from.to_owned()));
    }
    if from == DEFAULT_POOL {
        return Err(MembershipError::DefaultPool);
    }
    roll.pools.remove(from);
    roll.limits.pools.remove(from);
    // Who is in no pool any more is in the default one.
    if let Some(pool) = roll.pools.get_mut(into) {
        pool.members.extend(moved);
    }
    Ok(())
}

/// Another pool for a member; its volumes stay where they are.
pub(super) fn move_member(roll: &mut Roll, name: &str, to: &str) -> Result<(), MembershipError> {
    about(roll)?;
    let found = roll.find(name).map(|(number, _)| number);
    let number = found.ok_or_else(|| MembershipError::NoSuchMember(name.to_owned()))?;
    pool(roll, to)?;
    if !mutants::is(Mutant::PoolForgotten) {
        roll.leave_pool(number);
    }
    if let Some(pool) = roll.pools.get_mut(to) {
        pool.members.insert(number);
    }
    debug_assert!(roll.pool_of(number) == to || mutants::is(Mutant::PoolForgotten));
    Ok(())
}

impl Roll {
    /// Without this member, and all that it has said.
    fn forget(&mut self, member: MemberId) {
        self.members.remove(&member);
        self.present.remove(&member);
        self.inventories.remove(&member);
        self.connections.remove(&member);
        if !mutants::is(Mutant::GoneInPool) {
            self.leave_pool(member);
        }
    }

    /// The member is in the default pool from now on.
    fn leave_pool(&mut self, member: MemberId) {
        for pool in self.pools.values_mut() {
            pool.members.remove(&member);
        }
    }
}

/// Who is in the pool of this name.
fn pool(roll: &Roll, name: &str) -> Result<Vec<MemberId>, MembershipError> {
    roll.members_of_pool(name).ok_or_else(|| MembershipError::NoSuchPool(name.to_owned()))
}

fn about(roll: &mut Roll) -> Result<&mut About, MembershipError> {
    roll.about.as_mut().ok_or(MembershipError::NoGroup)
}

/// Whether what the store has under the identifier that was shown, if anything, lets in who shows this.
pub(super) fn is_good(
    token: Option<&JoinToken>,
    shown: &ShownToken<'_>,
    now_unix_seconds: u64,
) -> bool {
    token.is_some_and(|token| token.hash.is(&shown.hash) && !is_expired(token, now_unix_seconds))
}

fn is_expired(token: &JoinToken, now_unix_seconds: u64) -> bool {
    token.expires_unix_seconds <= now_unix_seconds && !mutants::is(Mutant::TokenForever)
}

/// While a group goes from one major version to the next it has members of both, and takes in either.
fn check_version(roll: &Roll, applicant: &Applicant) -> Result<(), MembershipError> {
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    let theirs = major(&applicant.version);
    if roll.members.values().any(|record| major(&record.version) == theirs) {
        return Ok(());
    }
    let ours = roll.members.values().next().map(|record| record.version.clone());
    Err(MembershipError::Version {
        theirs: applicant.version.clone(),
        ours: ours.unwrap_or_default(),
    })
}

/// The member that this applicant was admitted as before, of which it has not heard: the connection was cut between. It
/// never entered, so nothing relies on it; were it alive after all, it would hear that it was removed.
fn lost_admission(roll: &Roll, applicant: &Applicant) -> Option<MemberId> {
    let is_same = |record: &MemberRecord| {
        record.incarnation == 0 && record.name == applicant.name && record.array == applicant.array
    };
    let mut admitted = roll.members.iter().filter(|(number, _)| **number != FOUNDER);
    admitted.find(|&(_, record)| is_same(record)).map(|(number, _)| *number)
}

/// Refuses a member that the others leave no room for.
fn check_beside(roll: &Roll, record: &MemberRecord) -> Result<(), MembershipError> {
    if roll.members.len() >= MEMBERS_MAX {
        return Err(MembershipError::Full);
    }
    if roll.address.is_some_and(|address| address.ip() == record.address) {
        return Err(MembershipError::AddressOfGroup(record.address));
    }
    for other in roll.members.values() {
        // First, as a copy of a member has its name and address as well.
        if other.array == record.array {
            return Err(MembershipError::ArrayKnown { member: other.name.clone() });
        }
        if other.name.eq_ignore_ascii_case(&record.name) {
            return Err(MembershipError::NameTaken(other.name.clone()));
        }
        if overlap(other, record) {
            let (member, door) = (other.name.clone(), other.door());
            return Err(MembershipError::AddressTaken { member, door });
        }
    }
    Ok(())
}

/// A number that no member ever had.
fn next_number(roll: &mut Roll) -> Result<MemberId, MembershipError> {
    let highest = roll.members.keys().next_back().map_or(0, |number| number.0);
    let about = about(roll)?;
    let last = if mutants::is(Mutant::NumberAgain) { highest } else { about.last_member };
    let number = last.checked_add(1).ok_or(MembershipError::NumbersUsedUp)?;
    about.last_member = about.last_member.max(number);
    Ok(MemberId(number))
}

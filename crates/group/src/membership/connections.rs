//! How many connections the group takes, what each member tells of its own, and what that leaves to one.

use super::names::is_member;
use super::roll::{CONNECTIONS, HOLDER, connections_key};
use super::{DEFAULT_POOL, Membership, MembershipError, Roll, rules};
use crate::connections::{Allowance, Bound, ConnectionCount, ConnectionLimit, GroupLimit};
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;
use crate::record::Setting;
use crate::store::{Batch, LeaseId, Op, Transaction};

impl Membership {
    /// Changes how many connections all members take together.
    ///
    /// # Errors
    /// There is no group.
    pub async fn set_connections(&self, limit: GroupLimit) -> Result<(), MembershipError> {
        self.change(|roll| rules::set_connections(roll, limit)).await?;
        Ok(())
    }

    /// Changes how many the members of a pool take; with `None` it has no limit of its own any more.
    ///
    /// # Errors
    /// There is no such pool.
    pub async fn set_pool_connections(
        &self,
        pool: &str,
        limit: Option<ConnectionLimit>,
    ) -> Result<(), MembershipError> {
        self.change(|roll| rules::set_pool_connections(roll, pool, limit)).await?;
        Ok(())
    }

    /// A member says how many connections hosts have to it, which is forgotten with the lease of its presence.
    ///
    /// # Errors
    /// As [`enter`](Self::enter), and where the lease is over.
    pub async fn tell_connections(
        &self,
        member: MemberId,
        hosts: u32,
        lease: LeaseId,
    ) -> Result<(), MembershipError> {
        let (key, value) = (connections_key(member), ConnectionCount { hosts }.encode());
        let put = Op::Put { key: key.into(), value, lease: Some(lease) };
        let told = Transaction::when(vec![is_member(member)], vec![put]);
        if self.store.commit(told).await?.succeeded {
            return Ok(());
        }
        Err(self.why_missing().await)
    }
}

/// Whether nothing is in it but what members write all the time: how many connections they have, and that one has the
/// address.
#[must_use]
pub fn is_routine(batch: &Batch) -> bool {
    let is_often = |key: &[u8]| key.starts_with(CONNECTIONS.as_bytes()) || key == HOLDER.as_bytes();
    batch.events.iter().all(|event| is_often(event.key()))
}

impl Roll {
    /// What a member may have beside the others that are present.
    #[must_use]
    pub fn allowance_of(&self, me: MemberId) -> Allowance {
        let name = self.pool_of(me);
        let mut allowance = Allowance::alone(&self.limits, name);
        for (id, count) in self.connections.iter().filter(|(id, _)| **id != me) {
            if !self.is_present(*id) && !mutants::is(Mutant::CountForever) {
                continue;
            }
            allowance.group.others += u64::from(*count);
            if self.pool_of(*id) == name {
                allowance.pool.others += u64::from(*count);
            }
        }
        debug_assert!(allowance.pool.others <= allowance.group.others, "a pool is of the group");
        allowance
    }

    /// Whether it is for this member to tell of what becomes of a limit: for the first of those under it that is present and
    /// has told how many connections it has. One of an earlier version tells nothing of either. Each is present to itself.
    #[must_use]
    pub fn tells_of(&self, me: MemberId, bound: &Bound) -> bool {
        let is_under = |id: MemberId| match bound {
            Bound::Group => true,
            Bound::Pool(name) => self.pool_of(id) == name,
        };
        let mut before = self.members.range(..me).map(|(id, _)| *id);
        let has_told =
            |id: MemberId| self.connections.contains_key(&id) || mutants::is(Mutant::OlderTells);
        !before.any(|id| self.is_present(id) && has_told(id) && is_under(id))
    }

    /// The pool of the member `to`, its limit, and how many connections that leaves, where hosts of `from` would come to it as
    /// to another pool; `None` where it is the same one, or one without a limit. That of the group is that of both.
    #[must_use]
    pub fn room_for_hosts(&self, from: MemberId, to: MemberId) -> Option<(&str, u32, u64)> {
        let pool = self.pool_of(to);
        if pool == self.pool_of(from) {
            return None;
        }
        let limit = self.limits.of_pool(pool)?.get();
        let is_in = |id: MemberId| self.is_present(id) && self.pool_of(id) == pool;
        let there = self.connections.iter().filter(|(id, _)| is_in(**id));
        let taken = there.map(|(_, count)| u64::from(*count)).sum();
        Some((pool, limit, u64::from(limit).saturating_sub(taken)))
    }

    /// The limit of a pool, if it has one, and whether that is its own; `None` where there is no such pool.
    #[must_use]
    pub fn limit_of_pool(&self, name: &str) -> Option<(Option<ConnectionLimit>, bool)> {
        let is_there = name == DEFAULT_POOL || self.pools.contains_key(name);
        is_there.then(|| (self.limits.of_pool(name), self.limits.pools.contains_key(name)))
    }
}

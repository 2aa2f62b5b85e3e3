//! How many connections hosts have to this member, what the others hear of that, and how many it may have.
//!
//! ```text
//!   the target counts ──▶ set_connections ──▶ keep: told to the store, once in a second at most
//!   the target admits ◀── allowance ◀── the limits and what the others have told, as they were heard last
//! ```
//!
//! While the store is silent all goes on with what was heard last. A member that has started and heard nothing yet goes
//! by the limits that it knew before, which lie in its file, and by its own connections alone.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use group::connections::{Allowance, Bound, ConnectionLimit, GroupLimit};
use group::membership::Roll;
use group::ownership::MemberId;
use group::store::LeaseId;
use ring::wait::Bell;

use super::files::KnownLimits;
use super::joined::Joined;
use super::trouble::Trouble;
use super::{GroupError, InGroup};
use crate::group_request::ConnectionsShown;

/// Between two words about how many there are: hosts that log in by the hundred cost the store one write.
const TELL_PAUSE: Duration = Duration::from_secs(1);

/// The connections of hosts to this member.
#[derive(Debug, Default)]
pub(super) struct OwnConnections {
    count: Cell<u32>,
    changed: Bell,
}

impl InGroup {
    /// Hosts have so many connections to this member now.
    pub(crate) fn set_connections(&self, count: u32) {
        if self.connections.count.replace(count) != count {
            self.connections.changed.ring();
        }
    }

    /// How many they may have; `None` where no group limits it.
    pub(crate) fn allowance(&self) -> Option<Allowance> {
        let joined = self.in_one().filter(|joined| !joined.is_leaving())?;
        let me = joined.me();
        let heard = joined.with_roll(|roll| roll.allowance_of(me));
        heard.or_else(|| {
            let known = joined.file().limits.clone()?;
            Some(Allowance::alone(&known.limits, &known.pool))
        })
    }

    /// Whether it has heard how many the others have, in this life.
    pub(crate) fn hears_others(&self) -> bool {
        self.in_one().is_some_and(|joined| joined.with_roll(|_| ()).is_some())
    }

    /// Whether it is for this member to tell of what becomes of that limit.
    pub(crate) fn tells_of(&self, bound: &Bound) -> bool {
        self.in_one().is_some_and(|joined| {
            let me = joined.me();
            joined.with_roll(|roll| roll.tells_of(me, bound)).unwrap_or(true)
        })
    }

    /// The name of the group, for sentences about it.
    pub(crate) fn name(&self) -> String {
        self.in_one().map_or_else(String::new, |joined| joined.group_name())
    }

    /// The roll with the connections of this member as they are here.
    pub(super) fn count_own(&self, roll: &mut Roll, me: MemberId) {
        if roll.members.contains_key(&me) {
            roll.connections.insert(me, self.connections.count.get());
        }
    }

    /// The group takes so many from now on.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn limit_connections(&self, limit: GroupLimit) -> Result<(), GroupError> {
        let joined = self.joined()?;
        joined.membership().set_connections(limit).await?;
        self.refresh(&joined).await;
        Ok(())
    }

    /// A pool takes so many from now on, or as many as pools without a limit of their own.
    ///
    /// # Errors
    /// There is no such pool, or the store does not answer.
    pub(super) async fn limit_pool(
        &self,
        pool: &str,
        limit: Option<ConnectionLimit>,
    ) -> Result<(), GroupError> {
        let joined = self.joined()?;
        joined.membership().set_pool_connections(pool, limit).await?;
        self.refresh(&joined).await;
        Ok(())
    }
}

/// How many connections these members have, of as many as this, as `me` sees it; `is_known` says whether it hears who is
/// present.
pub(super) fn connections_of(
    roll: &Roll,
    members: &[MemberId],
    limit: Option<ConnectionLimit>,
    me: MemberId,
) -> ConnectionsShown {
    let is_counted = |id: &&MemberId| **id == me || roll.is_present(**id);
    let counted = members.iter().filter(is_counted).filter_map(|id| {
        let (record, count) = (roll.members.get(id)?, roll.connections.get(id)?);
        Some((record.name.clone(), *count))
    });
    let members: BTreeMap<String, u32> = counted.collect();
    let taken = members.values().map(|count| u64::from(*count)).sum();
    ConnectionsShown { limit: limit.map(ConnectionLimit::get), taken, members }
}

/// Tells the store how many there are whenever that is another number. The lease is that of the member's presence.
pub(super) async fn keep(here: &InGroup, joined: &Joined, lease: LeaseId) -> Trouble {
    let (own, mut told) = (&here.connections, None);
    loop {
        own.changed.until(|| Some(own.count.get()) != told).await;
        let count = own.count.get();
        if let Err(error) = joined.membership().tell_connections(joined.me(), count, lease).await {
            return error.into();
        }
        told = Some(count);
        ring::sleep(TELL_PAUSE).await;
    }
}

/// Keeps the limits for the next start, where they are others than those that are kept. `failed` are those that could not
/// be kept: a disk that is full is not written to with each change of the group.
pub(super) async fn note_limits(joined: &Joined, failed: &mut Option<KnownLimits>) {
    let me = joined.me();
    let heard = joined.with_roll(|roll| KnownLimits {
        limits: roll.limits.clone(),
        pool: roll.pool_of(me).to_owned(),
    });
    let Some(heard) = heard else { return };
    if joined.file().limits.as_ref() == Some(&heard) || failed.as_ref() == Some(&heard) {
        return;
    }
    let kept = heard.clone();
    *failed = None;
    if let Err(error) = joined.change_file(|file| file.limits = Some(kept)).await {
        tracing::warn!("the limits on connections are not kept for the next start: {error}");
        *failed = Some(heard);
    }
}

//! Pools: the members among which one is chosen for a new volume.

use group::connections::ConnectionLimit;
use group::membership::{MembershipError, Roll};
use group::ownership::MemberId;

use super::connections::connections_of;
use super::joined::Joined;
use super::requests::state_of;
use super::{GroupError, InGroup};
use crate::group_request::{MemberState, PoolShown};
use crate::reply::Answer;

impl InGroup {
    /// All pools, the default one first.
    ///
    /// # Errors
    /// Nothing is known of the group.
    pub(super) fn pools(&self) -> Result<Answer, GroupError> {
        let joined = self.joined()?;
        let roll = self.roll_here(&joined)?;
        let standing = (joined.me(), joined.fault().is_none());
        let names = roll.pool_names().into_iter();
        Ok(Answer::Pools(names.filter_map(|name| shown(&roll, name, standing)).collect()))
    }

    /// One of them.
    ///
    /// # Errors
    /// There is none of this name, or nothing is known of the group.
    pub(super) fn pool(&self, name: &str) -> Result<Answer, GroupError> {
        let joined = self.joined()?;
        let roll = self.roll_here(&joined)?;
        let shown = shown(&roll, name, (joined.me(), joined.fault().is_none()));
        let missing = || MembershipError::NoSuchPool(name.to_owned());
        Ok(Answer::Pool(Box::new(shown.ok_or_else(missing)?)))
    }

    /// A pool without members.
    ///
    /// # Errors
    /// The name cannot be one, or is one already.
    pub(super) async fn create_pool(&self, name: &str) -> Result<Answer, GroupError> {
        let joined = self.joined()?;
        joined.membership().create_pool(name).await?;
        self.shown_anew(&joined, name).await
    }

    /// Ends a pool without members.
    ///
    /// # Errors
    /// It has some, or there is none of this name.
    pub(super) async fn delete_pool(&self, name: &str) -> Result<Answer, GroupError> {
        let joined = self.joined()?;
        joined.membership().delete_pool(name).await?;
        self.refresh(&joined).await;
        Ok(Answer::Done)
    }

    /// Makes two pools one.
    ///
    /// # Errors
    /// There are no two of these names, or the first one stays.
    pub(super) async fn merge_pool(&self, from: &str, into: &str) -> Result<Answer, GroupError> {
        let joined = self.joined()?;
        joined.membership().merge_pool(from, into).await?;
        self.shown_anew(&joined, into).await
    }

    /// Puts a member into a pool.
    ///
    /// # Errors
    /// There is no such member, or no such pool.
    pub(super) async fn move_member(&self, member: &str, pool: &str) -> Result<Answer, GroupError> {
        let joined = self.joined()?;
        joined.membership().move_member(member, pool).await?;
        self.refresh(&joined).await;
        Ok(Answer::Done)
    }

    /// A pool that was just changed, of which the roll that was heard need not know yet.
    async fn shown_anew(&self, joined: &Joined, name: &str) -> Result<Answer, GroupError> {
        self.refresh(joined).await;
        self.pool(name)
    }

    /// Changes how many connections a pool takes.
    ///
    /// # Errors
    /// There is no such pool.
    pub(super) async fn set_pool_limit(
        &self,
        name: &str,
        limit: Option<ConnectionLimit>,
    ) -> Result<Answer, GroupError> {
        self.limit_pool(name, limit).await?;
        self.pool(name)
    }

    /// The roll that was heard last, with what is served here.
    pub(super) fn roll_here(&self, joined: &Joined) -> Result<Roll, GroupError> {
        let mut roll = joined.roll()?;
        let me = joined.me();
        if let Some(own) = self.announcer.own().filter(|_| roll.members.contains_key(&me)) {
            roll.inventories.insert(me, own);
        }
        self.count_own(&mut roll, me);
        Ok(roll)
    }
}

/// A pool, as the member `me` sees it; `is_known` says whether it hears who is present.
fn shown(roll: &Roll, name: &str, (me, is_known): (MemberId, bool)) -> Option<PoolShown> {
    let all = roll.members_of_pool(name)?;
    let named = all.iter().filter_map(|id| roll.members.get(id));
    let (limit, is_own_limit) = roll.limit_of_pool(name)?;
    let mut pool = PoolShown {
        name: name.to_owned(),
        members: named.map(|record| record.name.clone()).collect(),
        present: 0,
        volumes: 0,
        free_bytes: 0,
        capacity_bytes: 0,
        connections: connections_of(roll, &all, limit, me),
        has_own_limit: is_own_limit,
    };
    for id in &all {
        let is_present = state_of(*id, roll, (me, is_known)) == MemberState::Present;
        pool.present += usize::from(is_present);
        let Some(inventory) = roll.inventories.get(id) else { continue };
        pool.volumes += inventory.volumes.len();
        pool.capacity_bytes = pool.capacity_bytes.saturating_add(inventory.capacity_bytes);
        if is_present {
            pool.free_bytes = pool.free_bytes.saturating_add(inventory.free_bytes);
        }
    }
    debug_assert!(pool.present <= all.len(), "who is present is a member");
    Some(pool)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use group::membership::{DEFAULT_POOL, Inventory, ListedVolume, Pool};

    use super::*;
    use crate::membership::tests::roll_of;

    #[test]
    fn a_pool_has_the_room_of_who_is_present() {
        let mut roll = roll_of(&[(1, true), (2, false), (3, true), (4, true)]);
        let members = [2, 3].map(MemberId).into();
        roll.pools.insert("fast".to_owned(), Pool { members });
        roll.pools.insert("empty".to_owned(), Pool::default());
        for (id, free_bytes) in [(1, 10), (2, 20), (3, 40)] {
            let volumes = vec![ListedVolume::default(); usize::from(id)];
            let inventory =
                Inventory { volumes, free_bytes, capacity_bytes: 100, ..Inventory::default() };
            roll.inventories.insert(MemberId(id), Arc::new(inventory));
        }
        let of = |name: &str, is_known| shown(&roll, name, (MemberId(1), is_known));
        let fast = of("fast", true).expect("it is there");
        assert_eq!(fast.members, ["m2", "m3"]);
        assert_eq!((fast.present, fast.volumes), (1, 5));
        assert_eq!((fast.free_bytes, fast.capacity_bytes), (40, 200), "m2 takes no volume now");
        let default = of(DEFAULT_POOL, true).expect("it is always there");
        assert_eq!(default.members, ["m1", "m4"]);
        assert_eq!((default.free_bytes, default.capacity_bytes), (10, 100), "m4 has said nothing");
        let unheard = of(DEFAULT_POOL, false).expect("it is there");
        assert_eq!((unheard.present, unheard.free_bytes), (1, 10), "itself");
        let empty = of("empty", true).expect("it is there");
        assert_eq!((empty.members.len(), empty.capacity_bytes), (0, 0));
        assert_eq!(of("none", true), None);
    }
}

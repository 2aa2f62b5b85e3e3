//! What this member serves, and what other threads of it are told of the group.

use std::cell::RefCell;
use std::sync::Arc;

use group::membership::Inventory;
use ring::wait::Bell;

use crate::group_request::{CurrentRoll, RollNow};

/// Invariant: what is told has the member itself among the members, and its own inventory as it is here.
pub(super) struct Announcer {
    current: CurrentRoll,
    /// What the member serves; `None` before it was looked at.
    own: RefCell<Option<Arc<Inventory>>>,
    /// Rings when that has changed.
    own_changed: Bell,
}

impl Announcer {
    pub(super) fn new(current: CurrentRoll) -> Self {
        Self { current, own: RefCell::default(), own_changed: Bell::default() }
    }

    /// What the member serves.
    pub(super) fn own(&self) -> Option<Arc<Inventory>> {
        self.own.borrow().clone()
    }

    /// It serves this from now on. Says whether that is something else than before.
    pub(super) fn set_own(&self, own: Inventory) -> bool {
        if self.own.borrow().as_deref() == Some(&own) {
            return false;
        }
        self.own.replace(Some(Arc::new(own)));
        self.own_changed.ring();
        true
    }

    /// What the member serves, once it is something else than was said.
    pub(super) async fn own_beside(&self, said: Option<&Inventory>) -> Arc<Inventory> {
        loop {
            self.own_changed.until(|| self.own.borrow().as_deref() != said).await;
            if let Some(own) = self.own() {
                return own;
            }
            // Nothing is known, and something was said before: a life before this one has.
            self.own_changed.until(|| self.own.borrow().is_some()).await;
        }
    }

    /// The group is so now. A roll without this member is none of its own: it is about to leave.
    pub(super) fn announce(&self, mut now: RollNow) {
        if !now.roll.members.contains_key(&now.me) {
            return self.withdraw();
        }
        if let Some(own) = self.own() {
            now.roll.inventories.insert(now.me, own);
        }
        self.current.replace(Some(now));
    }

    /// The member has no group to tell of.
    pub(super) fn withdraw(&self) {
        if self.current.now().is_some() {
            self.current.replace(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use group::membership::Roll;
    use group::ownership::MemberId;

    use super::*;
    use crate::group_request::SecretWord;
    use crate::membership::tests::roll_of;

    fn now(me: u16, roll: &Roll) -> RollNow {
        RollNow {
            me: MemberId(me),
            name: format!("m{me}"),
            roll: roll.clone(),
            store_fault: None,
            authority: String::new(),
            certificate: String::new(),
            key: SecretWord(String::new().into()),
        }
    }

    fn inventory(free_bytes: u64) -> Inventory {
        Inventory { free_bytes, ..Inventory::default() }
    }

    #[test]
    fn what_is_told_has_the_member_and_what_it_serves_as_it_is_here() {
        let current = CurrentRoll::default();
        let announcer = Announcer::new(current.clone());
        let mut roll = roll_of(&[(1, true), (2, true)]);
        roll.inventories.insert(MemberId(1), Arc::new(inventory(1)));
        roll.inventories.insert(MemberId(2), Arc::new(inventory(2)));
        let free = |member: u16| {
            let now = current.now().expect("it is told");
            now.roll.inventories[&MemberId(member)].free_bytes
        };
        announcer.announce(now(1, &roll));
        assert_eq!((free(1), free(2)), (1, 2), "what was said before, as nothing else is known");
        assert!(announcer.set_own(inventory(7)) && !announcer.set_own(inventory(7)));
        announcer.announce(now(1, &roll));
        assert_eq!((free(1), free(2)), (7, 2));
        // Who was removed asks no others.
        announcer.announce(now(3, &roll));
        assert!(current.now().is_none());
    }

    #[test]
    fn what_is_served_is_said_when_it_is_something_else() {
        ring::block_on(&ring::CoreConfig::default(), async {
            let announcer = Announcer::new(CurrentRoll::default());
            let soon = std::time::Duration::from_millis(50);
            let said = inventory(1);
            assert!(ring::timeout(soon, announcer.own_beside(None)).await.is_none());
            assert!(ring::timeout(soon, announcer.own_beside(Some(&said))).await.is_none());
            announcer.set_own(inventory(1));
            assert!(ring::timeout(soon, announcer.own_beside(Some(&said))).await.is_none());
            assert_eq!(*announcer.own_beside(None).await, said);
            announcer.set_own(inventory(2));
            assert_eq!(announcer.own_beside(Some(&said)).await.free_bytes, 2);
        })
        .unwrap();
    }
}

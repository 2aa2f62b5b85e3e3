//! What the other threads of a member know of its group.

use std::sync::Arc;

use super::node::{Node, on_a_core, remove, until};
use super::*;
use crate::group_request::{GroupRequest, RollNow};

fn now(node: &Node) -> Option<Arc<RollNow>> {
    node.of_group.roll.now()
}

#[test]
fn the_roll_is_known_while_the_member_is_in_a_group_and_says_when_it_may_be_old() {
    on_a_core(async {
        let (one, two) = (Node::new(93, "one").await, Node::new(94, "two").await);
        assert!(now(&one).is_none(), "it is in none");
        one.create().await;
        let first = now(&one).expect("it is in one");
        assert_eq!((first.me, first.name.as_str()), (MemberId(1), "one"));
        assert!(first.authority.contains("BEGIN CERTIFICATE"));
        assert!(first.certificate.contains("BEGIN CERTIFICATE"));
        assert!(first.key.0.contains("PRIVATE KEY"));
        assert_eq!(first.store_fault, None);

        // What is served here is known at once, whoever has heard of it by then.
        one.here.set_own(Inventory { free_bytes: 1 << 30, ..Inventory::default() });
        let own = |node: &Node| now(node).map(|now| now.roll.inventories[&now.me].free_bytes);
        assert_eq!(own(&one), Some(1 << 30));
        two.join_at(&one).await;
        until("both know both", async || {
            [&one, &two].iter().all(|node| now(node).is_some_and(|it| it.roll.members.len() == 2))
        })
        .await;
        until("two knows what one serves", async || {
            let seen = now(&two).and_then(|it| it.roll.inventories.get(&MemberId(1)).cloned());
            seen.is_some_and(|it| it.free_bytes == 1 << 30)
        })
        .await;

        let two = two.restart().await;
        until("it is known after a start", async || now(&two).is_some()).await;
        one.ask(remove("two")).await;
        let left = now(&one).map(|it| it.roll.members.len());
        assert_eq!(left, Some(1), "who is removed is not known any more at once");
        until("it leaves", async || now(&two).is_none()).await;

        // The store is away: what was heard last is known, and that it may be old.
        one.here.in_one().expect("it is in one").part().end().await;
        until("that is told", async || now(&one).is_some_and(|it| it.store_fault.is_some())).await;
        assert_eq!(now(&one).map(|it| it.roll.members.len()), Some(1));
        let one = one.restart().await;
        until("it is back", async || now(&one).is_some_and(|it| it.store_fault.is_none())).await;
        one.ask(GroupRequest::Delete).await;
        assert!(now(&one).is_none());
        one.create().await;
        let current = one.of_group.roll.clone();
        assert!(current.now().is_some());
        one.end().await;
        assert!(current.now().is_none(), "it has ended");
        two.end().await;
    });
}

//! Pools, as they are asked for at any member.

use super::node::{Node, on_a_core, until};
use super::*;
use crate::group_request::{GroupRequest, PoolShown};
use crate::reply::Answer;

async fn pools(node: &Node) -> Vec<(String, Vec<String>)> {
    match node.here.answer(GroupRequest::Pools).await {
        Ok(Answer::Pools(all)) => all.into_iter().map(|pool| (pool.name, pool.members)).collect(),
        _ => Vec::new(),
    }
}

fn are(pools: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    pools.iter().map(|(name, members)| ((*name).to_owned(), owned(members))).collect()
}

fn named(name: &str) -> String {
    name.to_owned()
}

async fn pool(node: &Node, request: GroupRequest) -> PoolShown {
    let answer = node.ask(request).await;
    let Answer::Pool(pool) = answer else { panic!("{answer:?}") };
    *pool
}

#[test]
fn members_are_grouped_into_pools_from_any_of_them() {
    on_a_core(async {
        let (one, two) = (Node::new(91, "one").await, Node::new(92, "two").await);
        let refused = one.refused(GroupRequest::Pools).await;
        assert_eq!(refused, "this member is in no group");
        one.create().await;
        two.join_at(&one).await;
        let both = are(&[("default", &["one", "two"])]);
        until("both see it", async || pools(&one).await == both && pools(&two).await == both).await;

        let made = pool(&two, GroupRequest::CreatePool { name: named("fast") }).await;
        assert_eq!((made.name.as_str(), made.members.len()), ("fast", 0));
        one.ask(GroupRequest::MoveMember { member: named("two"), pool: named("fast") }).await;
        let parted = are(&[("default", &["one"]), ("fast", &["two"])]);
        assert_eq!(pools(&one).await, parted, "who has asked sees it at once");
        until("the other hears of it", async || pools(&two).await == parted).await;
        assert_eq!(one.members().await["two"].pool, "fast");
        two.here.set_own(Inventory { free_bytes: 7, capacity_bytes: 9, ..Inventory::default() });
        let show = || GroupRequest::ShowPool { name: named("fast") };
        let own = pool(&two, show()).await;
        assert_eq!((own.present, own.free_bytes, own.capacity_bytes), (1, 7, 9));
        until("others hear of its room", async || pool(&one, show()).await.free_bytes == 7).await;
        let two_there = one.members().await.remove("two").expect("it is a member");
        assert_eq!((two_there.free_bytes, two_there.shares), (7, Some(false)));

        // What cannot be is refused by the group's rules.
        let delete = |name: &str| GroupRequest::DeletePool { name: named(name) };
        one.refused(delete("fast")).await;
        one.refused(delete("default")).await;
        one.refused(GroupRequest::ShowPool { name: named("none") }).await;
        one.refused(GroupRequest::CreatePool { name: named("fast") }).await;
        assert_eq!(pools(&one).await, parted);

        let (from, into) = (named("fast"), named("default"));
        let merged = pool(&one, GroupRequest::MergePool { from, into }).await;
        assert_eq!((merged.name.as_str(), merged.members.len()), ("default", 2));
        until("it is one again", async || pools(&two).await == both).await;
        pool(&one, GroupRequest::CreatePool { name: named("spare") }).await;
        one.ask(delete("spare")).await;
        assert_eq!(pools(&one).await, both);
        one.end().await;
        two.end().await;
    });
}

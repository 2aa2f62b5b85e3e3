//! How many connections hosts have to members, what these hear of each other, and what that leaves to each.

use std::collections::BTreeMap;

use super::super::connections::note_limits;
use super::node::{Node, on_a_core, three, until};
use super::*;
use crate::group_request::{GroupConnections, GroupRequest, GroupShown, PoolShown};
use crate::reply::Answer;
use group::connections::{Bound, GroupLimit};

fn by_name(counts: &[(&str, u32)]) -> BTreeMap<String, u32> {
    counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

async fn connections(node: &Node) -> Option<GroupConnections> {
    match node.shown().await {
        GroupShown::In(state) => state.connections,
        other => panic!("it is in one: {other:?}"),
    }
}

async fn counts(node: &Node) -> BTreeMap<String, u32> {
    connections(node).await.map(|it| it.now.members).unwrap_or_default()
}

async fn pool(node: &Node, request: GroupRequest) -> PoolShown {
    let answer = node.ask(request).await;
    let Answer::Pool(pool) = answer else { panic!("{answer:?}") };
    *pool
}

fn most(node: &Node) -> Option<u32> {
    node.here.allowance().and_then(|allowance| allowance.own_max())
}

fn group_limit(number: u32) -> GroupRequest {
    GroupRequest::SetConnections { limit: GroupLimit::Number(number.try_into().unwrap()) }
}

fn pool_limit(name: &str, number: Option<u32>) -> GroupRequest {
    let limit = number.map(|number| number.try_into().unwrap());
    GroupRequest::SetPoolConnections { name: name.to_owned(), limit }
}

#[test]
fn a_member_may_have_what_the_others_leave_as_they_tell_it() {
    on_a_core(async {
        let (one, two) = (Node::new(101, "one").await, Node::new(102, "two").await);
        one.here.set_connections(7);
        assert_eq!(most(&one), None, "who is in no group has its own bound");
        assert!(!one.refused(group_limit(9)).await.is_empty());
        one.create().await;
        assert_eq!(most(&one), Some(1024), "as a new group has it");
        two.here.set_connections(3);
        two.join_at(&one).await;
        let both = by_name(&[("one", 7), ("two", 3)]);
        until("both hear it", async || counts(&one).await == both && counts(&two).await == both)
            .await;
        assert_eq!((most(&one), most(&two)), (Some(1021), Some(1017)));

        one.ask(group_limit(20)).await;
        assert_eq!(most(&one), Some(17), "who has asked goes by it at once");
        until("the other hears of it", async || most(&two) == Some(13)).await;
        let made = pool(&one, pool_limit("default", Some(12))).await;
        assert_eq!((made.connections.limit, made.has_own_limit), (Some(12), true));
        assert_eq!((made.connections.taken, made.connections.members), (10, both));
        until("the other hears of it", async || most(&two) == Some(5)).await;
        let (is_group, default) = (Bound::Group, Bound::Pool("default".to_owned()));
        assert!(one.here.tells_of(&is_group) && one.here.tells_of(&default));
        assert!(!two.here.tells_of(&is_group) && !two.here.tells_of(&default));

        // Another pool has a limit of its own; the group's is that of both.
        one.ask(GroupRequest::CreatePool { name: "fast".to_owned() }).await;
        let to = ("two".to_owned(), "fast".to_owned());
        one.ask(GroupRequest::MoveMember { member: to.0, pool: to.1 }).await;
        assert_eq!(most(&one), Some(12));
        until("it hears of its pool", async || most(&two) == Some(13)).await;
        let fast = pool(&one, pool_limit("fast", Some(2))).await;
        assert_eq!(
            (fast.connections.limit, fast.connections.taken),
            (Some(2), 3),
            "who is there stays"
        );
        until("it has more than it may", async || most(&two) == Some(2)).await;
        assert!(one.refused(pool_limit("none", Some(2))).await.contains("'none'"));
        let fast = pool(&two, pool_limit("fast", None)).await;
        assert_eq!((fast.connections.limit, fast.has_own_limit), (Some(1024), false));

        // What it told is over with its life; what was heard before lies in its file.
        one.ask(GroupRequest::SetConnections { limit: GroupLimit::None }).await;
        assert_eq!(
            (most(&one), connections(&one).await.map(|it| it.now.limit)),
            (Some(12), Some(None))
        );
        until("there is no limit on its pool", async || most(&two).is_none()).await;
        one.ask(group_limit(30)).await;
        until("it hears of the limit", async || most(&two) == Some(23)).await;
        let (data, listen, name) = one.end().await;
        let two = two.restart().await;
        two.here.set_connections(3);
        assert_eq!(most(&two), Some(30), "it has heard nothing yet, and knows the limit");
        let one = Node::start(data, listen, name).await;
        until("it is back", async || counts(&two).await == by_name(&[("one", 0), ("two", 3)]))
            .await;
        one.end().await;
        two.end().await;
    });
}

/// Each connection is no write, and what was heard last goes on while the store is silent.
#[test]
fn members_go_on_by_what_they_heard_last_when_the_store_is_silent() {
    on_a_core(async {
        let [one, two, three] = three([103, 104, 105]).await;
        for (node, count) in [(&one, 10), (&two, 20), (&three, 30)] {
            node.here.set_connections(count);
        }
        let all = by_name(&[("one", 10), ("two", 20), ("three", 30)]);
        until("all hear it", async || {
            counts(&one).await == all && counts(&two).await == all && counts(&three).await == all
        })
        .await;
        one.ask(group_limit(100)).await;
        assert_eq!(most(&one), Some(50));

        // Connections that come and go by the hundred are told of about once in a second.
        let revision = || one.here.in_one().expect("it is in one").revision();
        let (before, begun) = (revision(), std::time::Instant::now());
        for count in 0..200 {
            two.here.set_connections(count);
            ring::sleep(Duration::from_millis(10)).await;
        }
        two.here.set_connections(21);
        until("the last one is heard", async || counts(&one).await["two"] == 21).await;
        let seconds = begun.elapsed().as_secs();
        let written = revision() - before;
        // Others write now and then: who is there, and what they serve.
        assert!((1..=seconds + 5).contains(&written), "{written} in {seconds} s");

        // A member that is away has none any more, and the others may have more.
        three.end().await;
        until("it is not counted", async || most(&one) == Some(79)).await;
        until("it is heard of", async || most(&two) == Some(90)).await;
        two.end().await;
        until("the store is silent", async || {
            let GroupShown::In(state) = one.shown().await else { return false };
            state.store_fault.is_some()
        })
        .await;
        one.here.set_connections(11);
        let heard = most(&one).expect("it goes by what it heard last");
        assert!([79, 100].contains(&heard), "what two told may be over or not: {heard}");
        let now = connections(&one).await.expect("it is known");
        assert_eq!((now.now.members["one"], now.now.limit), (11, Some(100)), "its own is exact");
        one.end().await;
    });
}

/// Each change of the group would have cost a write that fails, and a warning.
#[test]
fn limits_that_could_not_be_kept_are_not_tried_again_until_they_are_others() {
    on_a_core(async {
        let one = Node::new(174, "one").await;
        one.create().await;
        let joined = one.here.in_one().expect("it is in one");
        let path = one.data.path().join("group/membership.json");
        let has = |what: &str| std::fs::read_to_string(&path).is_ok_and(|text| text.contains(what));
        until("the limits are kept", async || has("4096")).await;
        std::fs::remove_file(&path).expect("it is there");
        std::fs::create_dir(&path).expect("nothing is there any more");
        one.ask(group_limit(30)).await;
        let mut failed = None;
        note_limits(&joined, &mut failed).await;
        assert!(failed.is_some(), "it cannot be written");
        // Until the watch has heard of it too.
        ring::sleep(Duration::from_secs(2)).await;
        std::fs::remove_dir(&path).expect("it is empty");
        note_limits(&joined, &mut failed).await;
        one.ask(GroupRequest::CreatePool { name: "fast".to_owned() }).await;
        ring::sleep(Duration::from_secs(1)).await;
        assert!(!path.exists(), "neither by this nor by what is heard");
        note_limits(&joined, &mut None).await;
        assert!(has("30"), "the next start of its life in the group tries");
        one.end().await;
    });
}

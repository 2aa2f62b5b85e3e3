//! Groups are made, joined, left and ended, and outlive what happens to their members.

use std::net::{SocketAddr, TcpListener};

use super::node::{Node, are, iqn, on_a_core, remove, three, until};
use super::*;
use crate::group_request::{GroupRequest, GroupShown};

#[test]
fn a_group_is_made_joined_and_left_and_outlives_its_members_lives() {
    on_a_core(async {
        let (one, two) = (Node::new(1, "one").await, Node::new(2, "two").await);
        assert_eq!(one.shown().await, GroupShown::None);
        assert_eq!(one.refused(GroupRequest::Members).await, "this member is in no group");
        let state = one.create().await;
        assert_eq!((state.name.as_str(), state.here.as_str(), state.members), ("lab", "one", 1));
        assert_eq!(state.store_fault, None);
        let door = one.of_group.door.now().expect("others can join there");
        assert_eq!(door.address, one.listen);
        let again = GroupRequest::Prepare { member: None, listen: one.listen };
        assert_eq!(one.refused(again).await, "this member is in the group 'lab' already");

        two.join_at(&one).await;
        use MemberState::{Away, Present};
        let both = are([("one", Present), ("two", Present)]);
        for node in [&one, &two] {
            until("both see both", async || node.states().await == both).await;
        }
        until("one sees two's volume", async || {
            one.members().await.get("two").is_some_and(|two| two.volumes == 1)
        })
        .await;
        let mut mark = 0;
        let there = one.here.elsewhere(&mut mark).expect("it was heard of");
        assert_eq!(there[&iqn("two")].portals.to_vec(), [SocketAddr::new(two.listen.ip(), 3260)]);
        assert_eq!(one.told(Kind::MemberJoined), 1);

        let two = two.restart().await;
        until("it is back", async || two.states().await == both).await;
        let (data, listen, name) = two.end().await;
        let without = are([("one", Present), ("two", Away)]);
        until("it is away", async || one.states().await == without).await;
        until("that is told", async || one.told(Kind::MemberAway) == 1).await;
        let there = one.here.elsewhere(&mut mark).expect("it has changed");
        assert_eq!(there[&iqn("two")].portals.len(), 0, "hosts are to come back later");

        // The one that is away hears that it was removed when it starts.
        one.ask(GroupRequest::Remove {
            member: "two".to_owned(),
            despite_moves: false,
            despite_spreads: false,
        })
        .await;
        assert_eq!(one.states().await, are([("one", Present)]));
        let two = Node::start(data, listen, name).await;
        until("it leaves", async || two.shown().await == GroupShown::None).await;
        assert_eq!((two.told(Kind::MemberRemoved), two.keeps_anything()), (1, false));
        let last = GroupRequest::Remove {
            member: "one".to_owned(),
            despite_moves: false,
            despite_spreads: false,
        };
        assert!(one.refused(last).await.contains("is the last member"));

        let one = one.restart().await;
        until("the store is back", async || one.states().await == are([("one", Present)])).await;
        one.ask(GroupRequest::Rename { name: "new".to_owned() }).await;
        let GroupShown::In(renamed) = one.shown().await else { panic!("it is in one") };
        assert_eq!(renamed.name, "new");
        one.ask(GroupRequest::Delete).await;
        assert_eq!(one.shown().await, GroupShown::None);
        assert!(!one.keeps_anything() && one.of_group.door.now().is_none());
        one.create().await;
        one.end().await;
        two.end().await;
    });
}

/// The only etcd of a group of two would go with the member that runs it, and the group with that.
#[test]
fn who_runs_the_store_goes_when_another_one_runs_it() {
    on_a_core(async {
        let (one, two) = (Node::new(11, "one").await, Node::new(12, "two").await);
        one.create().await;
        two.join_at(&one).await;
        let both = are([("one", MemberState::Present), ("two", MemberState::Present)]);
        until("both are there", async || one.states().await == both).await;
        one.ask(GroupRequest::Remove {
            member: "one".to_owned(),
            despite_moves: false,
            despite_spreads: false,
        })
        .await;
        until("it leaves", async || one.shown().await == GroupShown::None).await;
        assert_eq!((one.told(Kind::MemberRemoved), one.keeps_anything()), (1, false));
        let alone = are([("two", MemberState::Present)]);
        until("the other goes on", async || two.states().await == alone).await;
        two.ticket().await;
        let two = two.restart().await;
        until("it does so alone", async || two.states().await == alone).await;
        one.join_at(&two).await;
        until("it is let in again", async || two.states().await.len() == 2).await;
        one.end().await;
        two.end().await;
    });
}

/// Each of the two could go, as two of three are left; both at once could not, if nobody waited for the other.
#[test]
fn two_that_are_removed_at_the_same_moment_leave_a_store_behind() {
    on_a_core(async {
        let [one, two, three] = three([41, 42, 43]).await;
        futures_util::future::join(one.ask(remove("two")), one.ask(remove("three"))).await;
        assert_eq!(one.states().await, are([("one", MemberState::Present)]));
        for left in [&two, &three] {
            until("it leaves", async || left.shown().await == GroupShown::None).await;
        }
        one.ask(GroupRequest::Rename { name: "new".to_owned() }).await;
        for node in [one, two, three] {
            node.end().await;
        }
    });
}

/// A member is present whose etcd does not run: the store does not go on with it.
#[test]
fn a_member_is_not_removed_on_the_word_of_one_whose_etcd_does_not_run() {
    on_a_core(async {
        let [one, two, three] = three([51, 52, 53]).await;
        two.here.in_one().expect("it is in one").part().end().await;
        one.ask(remove("three")).await;
        until("it leaves", async || three.shown().await == GroupShown::None).await;
        one.ask(GroupRequest::Rename { name: "new".to_owned() }).await;
        until("one runs it alone", async || {
            let shown = one.shown().await;
            matches!(shown, GroupShown::In(state) if state.store == ["one"])
        })
        .await;
        for node in [one, two, three] {
            node.end().await;
        }
    });
}

#[test]
fn an_etcd_that_does_not_run_is_told_of_once_and_shown_until_it_does() {
    on_a_core(async {
        let one = Node::new(61, "one").await;
        assert_eq!(one.create().await.store_part_fault, None);
        let (data, listen, name) = one.end().await;
        let port = SocketAddr::new(listen.ip(), listen.port() + 1);
        let taken = TcpListener::bind(port).expect("its etcd has ended");
        let one = Node::start(data, listen, name).await;
        let fault = async || match one.shown().await {
            GroupShown::In(state) => state.store_part_fault,
            other => panic!("{other:?}"),
        };
        until("it is told", async || one.told(Kind::StorePartDown) == 1).await;
        let why = fault().await.expect("it is shown");
        assert_eq!(why, format!("etcd cannot listen at {port}: another program does"));
        assert_eq!(one.told(Kind::StorePartUp), 0);
        drop(taken);
        until("it runs", async || one.told(Kind::StorePartUp) == 1).await;
        assert_eq!((fault().await, one.told(Kind::StorePartDown)), (None, 1));
        one.end().await;
    });
}

/// Whoever has the other half of a copied volume would have hosts write to the wrong one.
#[test]
fn targets_that_two_members_list_are_told_of_once() {
    on_a_core(async {
        let one = Node::new(71, "one").await;
        let pair = || ["one", "two"].map(str::to_owned);
        let twice = |names: &[&str]| -> inventory::Twice {
            names.iter().map(|name| (iqn(name), pair())).collect()
        };
        let told = || {
            let all = one.logs.events.after(0).into_iter();
            let mut told = all.filter(|record| record.what.kind == Kind::NameTwice.word());
            (told.next_back().map(|record| record.what.text.clone()), told.count())
        };
        one.here.tell_twice("lab", &twice(&[]));
        assert_eq!(told(), (None, 0));
        one.here.tell_twice("lab", &twice(&["a", "b", "c"]));
        one.here.tell_twice("lab", &twice(&["a", "b", "c"]));
        let (text, before) = told();
        let text = text.expect("it is told");
        let listed = format!("'one' and 'two' both list the target '{}'", iqn("a"));
        assert!(text.contains(&listed), "{text}");
        assert!(text.contains("and 2 further targets") && before == 0, "{text}");
        one.here.tell_twice("lab", &twice(&["a"]));
        assert_eq!(told().1, 0, "that is better");
        one.here.tell_twice("lab", &twice(&["a", "d"]));
        let (text, before) = told();
        assert!(text.is_some_and(|text| text.contains(&iqn("d"))) && before == 1);
        one.end().await;
    });
}

//! The address of a group, which goes from one member to the next.

use std::pin::pin;
use std::time::Duration;

use group::address::GroupAddress;

use super::making::Departure;
use super::node::{Node, on_a_core, three, until};
use super::*;
use crate::group_request::{AddressNow, Answering, GroupRequest, GroupShown, GroupState};

async fn state_of_group(node: &Node) -> GroupState {
    match node.shown().await {
        GroupShown::In(state) => *state,
        other => panic!("it is in one: {other:?}"),
    }
}

async fn holder(node: &Node) -> Option<String> {
    state_of_group(node).await.address_member
}

fn set(text: Option<&str>) -> GroupRequest {
    GroupRequest::SetAddress { address: text.map(|text| text.parse().expect("it is one")) }
}

/// Hosts are heard at the address, as the member that runs has it.
fn float(nodes: &[Node]) {
    for node in nodes {
        node.here.note_floating(Ok(node.here.float_at()));
    }
}

fn told(nodes: &[Node], kind: Kind) -> usize {
    nodes.iter().map(|node| node.told(kind)).sum()
}

#[test]
fn the_address_of_a_group_goes_to_one_member_and_on_to_the_next() {
    on_a_core(async {
        let nodes = three([91, 92, 93]).await;
        let own = format!("{}/8", nodes[1].listen.ip());
        let refused = nodes[0].refused(set(Some(&own))).await;
        assert!(refused.contains("is an address of the member 'two'"), "{refused}");
        let nowhere = nodes[0].refused(set(Some("203.0.113.100/24"))).await;
        assert!(nowhere.starts_with("no member has an interface in the network"), "{nowhere}");

        nodes[1].ask(set(Some("127.80.0.1/8"))).await;
        until("somebody has it, or says why not", async || {
            float(&nodes);
            let state = state_of_group(&nodes[0]).await;
            state.address_member.is_some() || state.address_fault.is_some()
        })
        .await;
        let state = state_of_group(&nodes[0]).await;
        assert_eq!(state.address, "127.80.0.1/8".parse().ok());
        if let Some(fault) = state.address_fault {
            // Tests need not be run by root.
            assert!(fault.contains("CAP_NET_ADMIN"), "{fault}");
            for node in nodes {
                node.end().await;
            }
            return;
        }
        until("it is on an interface", async || told(&nodes, Kind::GroupAddressTaken) == 1).await;
        // The next one comes when the one before is off, and whoever hears hosts is told.
        nodes[0].ask(set(Some("127.80.0.2/8"))).await;
        until("the next one is there", async || {
            float(&nodes);
            let shown = nodes.iter().filter_map(|node| node.here.group_address());
            let next = "127.80.0.2/8".parse().expect("it is one");
            told(&nodes, Kind::GroupAddressLeft) == 1
                && told(&nodes, Kind::GroupAddressTaken) == 2
                && shown.filter(|address| *address == next).count() == nodes.len()
        })
        .await;
        let first = holder(&nodes[0]).await.expect("one has it");
        let (mut left, gone): (Vec<Node>, Vec<Node>) =
            nodes.into_iter().partition(|node| node.name != first);
        for node in gone {
            assert_eq!(node.told(Kind::GroupAddressTaken), 2);
            node.end().await;
        }
        until("another one has it", async || {
            float(&left);
            holder(&left[0]).await.is_some_and(|holder| holder != first)
        })
        .await;

        // It is not the group's any more: who has it takes it away.
        left[0].ask(set(None)).await;
        until("nobody has it", async || {
            float(&left);
            told(&left, Kind::GroupAddressLeft) == 1
                && state_of_group(&left[0]).await.address.is_none()
        })
        .await;
        while let Some(node) = left.pop() {
            node.end().await;
        }
    });
}

/// What other threads of this member are told, as soon as it begins to leave: what comes then takes a while.
#[test]
fn who_leaves_the_group_answers_nobody_at_its_address_before_that_is_taken_away() {
    on_a_core(async {
        let node = Node::new(95, "one").await;
        node.create().await;
        node.ask(set(Some("127.80.0.4/8"))).await;
        let address: GroupAddress = "127.80.0.4/8".parse().expect("it is one");
        let joined = node.here.in_one().expect("it is in one");
        joined.change_file(|file| file.settings = SettingsMark::Shared).await.unwrap();
        // As once the kernel has answered, and as far as the first wait of what takes it away.
        joined.floating().on.set(Some(address));
        node.here.note_answering();
        assert!(matches!(answering(&node), Some(Answering::Here(_))), "{:?}", answering(&node));
        {
            let mut leaving = pin!(node.here.leave(&joined, Departure::Removed));
            assert!(ring::timeout(Duration::ZERO, leaving.as_mut()).await.is_none(), "it goes on");
            let elsewhere = AddressNow { address, answering: Answering::Elsewhere };
            assert_eq!(node.of_group.address.now().as_deref(), Some(&elsewhere));
            leaving.await;
        }
        assert_eq!(node.of_group.address.now(), None);
        drop(joined);
        node.end().await;
    });
}

/// What other threads of this member are told: whether it answers whoever manages the group at its address.
fn answering(node: &Node) -> Option<Answering> {
    node.of_group.address.now().map(|now| now.answering.clone())
}

#[test]
fn who_manages_the_group_is_answered_by_who_has_its_address_and_its_settings() {
    on_a_core(async {
        let node = Node::new(94, "one").await;
        node.create().await;
        node.here.note_answering();
        assert_eq!(answering(&node), None, "there is no address");
        node.ask(set(Some("127.80.0.3/8"))).await;
        let address = "127.80.0.3/8".parse().expect("it is one");
        assert_eq!(node.here.float_at(), Some(address));
        let joined = node.here.in_one().expect("it is in one");
        // As once the kernel has answered. Nothing is waited for before it is looked at.
        let put = || {
            joined.floating().on.set(Some(address));
            node.here.note_answering();
            answering(&node)
        };
        match put() {
            Some(Answering::Never(why)) => assert!(why.contains("settings of its own"), "{why}"),
            other => panic!("{other:?}"),
        }
        joined.change_file(|file| file.settings = SettingsMark::Shared).await.unwrap();
        let Some(Answering::Here(proof)) = put() else { panic!("{:?}", answering(&node)) };
        let key_line = proof.key.0.lines().nth(1).expect("a key");
        assert!(!format!("{:?}", answering(&node)).contains(key_line));
        // It is no hold of this member: it takes the address away, and tells the threads before others may have it.
        until("it has left", async || answering(&node) == Some(Answering::Elsewhere)).await;
        assert!(node.told(Kind::GroupAddressLeft) >= 1);
        assert_eq!(put(), Some(Answering::Here(proof)), "what is proved is made once");
        node.here.note_fault("its store is full");
        assert!(matches!(put(), Some(Answering::Never(_))), "{:?}", answering(&node));
        joined.begin_to_leave();
        assert_eq!(put(), Some(Answering::Elsewhere));
        node.end().await;
    });
}

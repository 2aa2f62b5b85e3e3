//! The names of volumes in a group: who has one, who is refused, and what becomes of those that nobody uses.

use std::time::Instant;

use group::membership::{HandOver, MoveId, folded};

use super::node::{Node, on_a_core, until};
use super::*;

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Why these names are not promised; what is promised is given up again.
async fn refusal(node: &Node, names: &[&str]) -> Option<String> {
    node.here.claim(owned(names)).await.err().map(|error| error.to_string())
}

/// A volume of this name is made, as a request makes it.
async fn make(node: &Node, name: &str) {
    let claim = node.here.claim(owned(&[name])).await.expect("nobody has the name");
    node.volumes.borrow_mut().push(name.to_owned());
    drop(claim);
}

/// Volumes go, or are renamed: what a request does that frees a name.
async fn set(node: &Node, names: &[&str]) {
    let claim = node.here.claim(owned(names)).await.expect("it has these");
    node.volumes.replace(owned(names));
    drop(claim);
}

async fn pair(numbers: [u8; 2]) -> [Node; 2] {
    let (one, two) = (Node::new(numbers[0], "one").await, Node::new(numbers[1], "two").await);
    one.create().await;
    two.join_at(&one).await;
    until("both are there", async || {
        one.members().await.len() == 2 && two.members().await.len() == 2
    })
    .await;
    [one, two]
}

#[test]
fn a_member_in_no_group_asks_nobody() {
    on_a_core(async {
        let one = Node::new(81, "one").await;
        make(&one, "vm").await;
        assert_eq!(refusal(&one, &["vm", "other"]).await, None);
        assert!(one.here.naming.promised.borrow().is_empty(), "there is nobody who promises");
        one.end().await;
    });
}

#[test]
fn of_two_members_that_make_the_same_name_one_is_refused() {
    on_a_core(async {
        let [one, two] = pair([82, 83]).await;
        let names = || owned(&["VM_1"]);
        let both =
            futures_util::future::join(one.here.claim(names()), two.here.claim(owned(&["vm-1"])));
        let (first, second) = both.await;
        let winners = usize::from(first.is_ok()) + usize::from(second.is_ok());
        assert_eq!(winners, 1, "{:?} {:?}", first.as_ref().err(), second.as_ref().err());
        let (winner, loser) = if first.is_ok() { (&one, &two) } else { (&two, &one) };
        let refused = refusal(loser, &["vm_1", "free"]).await.expect("the other one has it");
        assert!(refused.contains(&format!("'{}'", winner.name)), "{refused}");
        assert_eq!(refusal(winner, &["vm-1"]).await, None, "it is its own");
        // Neither was made after all.
        drop((first, second));
        until("it is given back", async || refusal(loser, &["vm-1"]).await.is_none()).await;
        until("so is it again", async || refusal(winner, &["vm-1"]).await.is_none()).await;
        // What is made stays, also when it is looked at anew, until it is purged.
        make(winner, "vm-1").await;
        let refused = refusal(loser, &["vm-1"]).await;
        assert!(refused.is_some());
        set(winner, &[]).await;
        until("it is purged", async || refusal(loser, &["vm-1"]).await.is_none()).await;
        for node in [one, two] {
            node.end().await;
        }
    });
}

/// A look comes between, as another request ends: what is still to be made keeps its name.
#[test]
fn a_name_is_not_given_back_while_a_request_is_to_use_it() {
    on_a_core(async {
        let [one, two] = pair([84, 85]).await;
        let claim = one.here.claim(owned(&["vm"])).await.expect("nobody has it");
        make(&one, "other").await;
        let naming = &one.here.naming;
        let mark = naming.changes.get();
        drop(one.here.claim(Vec::new()).await.expect("it wants none"));
        assert!(naming.changes.get() > mark, "there is to be a look");
        ring::sleep(Duration::from_secs(2)).await;
        assert!(refusal(&two, &["vm"]).await.is_some(), "it is to be used yet");
        assert!(refusal(&two, &["other"]).await.is_some());
        drop(claim);
        until("it was not used", async || refusal(&two, &["vm"]).await.is_none()).await;
        for node in [one, two] {
            node.end().await;
        }
    });
}

/// What is left in the store of a volume that was never made goes with the next start of its member.
#[test]
fn a_start_that_comes_between_a_claim_and_the_volume_gives_the_name_back() {
    on_a_core(async {
        let [one, two] = pair([86, 87]).await;
        make(&two, "made").await;
        let cut_off = two.here.claim(owned(&["never-made"])).await.expect("nobody has it");
        let volumes = two.volumes.clone();
        let (data, listen, name) = two.end().await;
        assert!(refusal(&one, &["never-made"]).await.is_some(), "its member is to look after it");
        let two = Node::start_with(data, listen, name, volumes).await;
        until("it is free", async || refusal(&one, &["never-made"]).await.is_none()).await;
        assert!(refusal(&one, &["made"]).await.is_some(), "it is there");
        drop(cut_off);
        for node in [one, two] {
            node.end().await;
        }
    });
}

/// Who gave up waiting does not hear of it, and neither does the look behind him.
#[test]
fn a_name_that_is_promised_after_its_claim_was_given_up_is_given_back() {
    on_a_core(async {
        let [one, two] = pair([95, 96]).await;
        let joined = one.here.in_one().expect("it is in one");
        let naming = &one.here.naming;
        // Behind the look with which the member came in, which would find it.
        one.volumes.borrow_mut().push("here".to_owned());
        naming.note_change();
        until("it has looked", async || naming.promised.borrow().contains_key("here")).await;
        joined.membership().claim_names(joined.me(), &owned(&["late"])).await.expect("it is free");
        assert!(refusal(&two, &["late"]).await.is_some());
        naming.unsure_until.set(Some(Instant::now()));
        naming.note_change();
        until("it is given back", async || refusal(&two, &["late"]).await.is_none()).await;
        assert_eq!(naming.unsure_until.get(), None, "it is not read for ever");
        for node in [one, two] {
            node.end().await;
        }
    });
}

#[test]
fn without_the_store_no_name_is_promised_and_what_is_there_goes_on() {
    on_a_core(async {
        let one = Node::new(88, "one").await;
        one.create().await;
        make(&one, "vm").await;
        one.here.in_one().expect("it is in one").part().end().await;
        let silent = "names of volumes are promised by the group's store, which does not answer: ";
        let refused = refusal(&one, &["new"]).await.expect("nobody promises it");
        assert!(refused.starts_with(silent), "{refused}");
        assert!(refused.ends_with("; what is there goes on"), "{refused}");
        let joined = one.here.in_one().expect("it is in one");
        until("that is noticed", async || joined.fault().is_some()).await;
        let refused = refusal(&one, &["new"]).await.expect("it is known by now");
        assert!(refused.starts_with(silent), "{refused}");
        assert_eq!(refusal(&one, &[]).await, None, "a purge needs no name");
        // Whatever of it has reached the store goes with the first look behind its return.
        let one = one.restart().await;
        until("the store is back", async || refusal(&one, &["new"]).await.is_none()).await;
        let settled = async || {
            let promised: Vec<String> = one.here.naming.promised.borrow().keys().cloned().collect();
            promised == ["vm"]
        };
        until("what is there is promised, and no more", settled).await;
        one.end().await;
    });
}

/// Both were there before either knew of the other: neither goes.
#[test]
fn a_name_that_two_have_when_they_meet_is_told_of_once_and_until_one_has_another() {
    on_a_core(async {
        let (one, two) = (Node::new(89, "one").await, Node::new(90, "two").await);
        let many: Vec<String> = (0..250).map(|number| format!("disk-{number:03}")).collect();
        one.volumes.replace(many.iter().cloned().chain(["vm".to_owned()]).collect());
        two.volumes.replace(owned(&["b", "VM"]));
        one.create().await;
        until("all are promised", async || one.here.naming.promised.borrow().len() == 251).await;
        two.join_at(&one).await;
        until("it is told", async || two.told(Kind::VolumeNameTwice) == 1).await;
        assert_eq!(one.told(Kind::VolumeNameTwice), 0, "it has the name");
        assert!(refusal(&one, &["b"]).await.is_some(), "what is free is its own");
        drop(two.here.claim(Vec::new()).await.expect("it wants none"));
        ring::sleep(Duration::from_secs(2)).await;
        assert_eq!(two.told(Kind::VolumeNameTwice), 1, "it is as it was");

        // One of 120 names is taken: none of them is promised then.
        let mut wanted: Vec<String> = (0..120).map(|number| format!("new-{number:03}")).collect();
        wanted[110].clone_from(&many[200]);
        let refused = two.here.claim(wanted).await.err().expect("one of them is taken");
        assert!(refused.to_string().contains(&many[200]), "{refused}");
        until("none is kept", async || refusal(&one, &["new-000"]).await.is_none()).await;

        set(&two, &["b", "vm2"]).await;
        assert!(refusal(&one, &["vm2"]).await.is_some());
        let is_told = || !two.here.naming.told.borrow().is_empty();
        until("it is well", async || !is_told()).await;
        for node in [one, two] {
            node.end().await;
        }
    });
}

/// The source has the volume until it is purged, and the destination has it by another name until the name is its own.
#[test]
fn names_of_volumes_on_their_way_are_left_to_their_moves() {
    on_a_core(async {
        let [one, two] = pair([121, 122]).await;
        let hands = [(&one, "VM_1"), (&two, "vm-1")].map(|(node, name)| {
            let hands = Rc::new(RefCell::new(Some(owned(&[name]))));
            let said = hands.clone();
            node.here.set_in_hands(move || said.borrow().clone());
            hands
        });
        make(&one, "vm_1").await;
        let id: MoveId = "7".repeat(32).parse().expect("a number");
        let to = two.here.me().expect("it is in one");
        let group = one.here.group_id().expect("it is known").expect("it is in one");
        let given = one.here.hand_over((&group, to), "vm_1", &id).await;
        let given = given.expect("the store answers");
        let other = "f".repeat(32).parse().expect("a group");
        let elsewhere = one.here.hand_over((&other, to), "vm_1", &id).await;
        assert!(matches!(elsewhere, Err(GroupError::NotInGroup)), "{elsewhere:?}");
        assert_eq!(given, HandOver::Done);
        let holder = async || {
            let holder = one.here.holder_of("vm_1").await.expect("the store answers");
            holder.map(|holder| (holder.member, holder.moved))
        };
        let has = |node: &Node| node.here.naming.promised.borrow().contains_key(&folded("vm_1"));
        let look = async || {
            for node in [&one, &two] {
                node.here.look_at_names();
            }
            ring::sleep(Duration::from_secs(2)).await;
        };
        look().await;
        assert_eq!((has(&one), has(&two)), (false, true), "what is promised is read anew");
        assert_eq!(holder().await, Some((to, Some(id.clone()))), "it is not given back");
        assert_eq!(one.told(Kind::VolumeNameTwice), 0, "nor is it missed");
        // Whether there are any is not known.
        hands[1].replace(None);
        look().await;
        assert_eq!(holder().await, Some((to, Some(id))));

        hands[1].replace(Some(Vec::new()));
        two.here.look_at_names();
        until("nobody uses it there", async || holder().await.is_none()).await;
        look().await;
        assert_eq!(holder().await, None, "the volume that is here is to be purged");
        hands[0].replace(Some(Vec::new()));
        one.here.look_at_names();
        let me = one.here.me().expect("it is in one");
        until("it stays", async || holder().await == Some((me, None))).await;
        for node in [one, two] {
            node.end().await;
        }
    });
}

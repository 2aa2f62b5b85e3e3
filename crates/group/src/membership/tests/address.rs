//! The address of the group: which it may be, and that one member has it.

use super::*;
use crate::address::GroupAddress;
use crate::membership::AddressHold;

const ONE: MemberId = MemberId(1);
const TWO: MemberId = MemberId(2);

fn address(text: &str) -> GroupAddress {
    text.parse().expect("it is one")
}

fn set(membership: &Membership, text: &str, is_here: bool) -> Result<(), MembershipError> {
    wait(membership.set_address(Some(address(text)), is_here))
}

fn serves(membership: &Membership, member: MemberId, portal: &str) {
    let portals = vec![portal.parse().expect("an address")];
    let inventory = Inventory { portals, ..Inventory::default() };
    wait(membership.publish(member, &inventory)).expect("it is a member");
}

#[test]
fn a_group_has_an_address_of_a_network_that_members_are_in() {
    let store = store();
    let membership = group(&store);
    join(&membership, applicant(2)).expect("there is room");
    assert_eq!(read(&membership).address, None);
    set(&membership, "10.0.0.100/24", false).expect("the members are beside it");
    assert_eq!(read(&membership).address, Some(address("10.0.0.100/24")));

    let of_member = said(set(&membership, "10.0.0.2/24", false));
    assert!(
        of_member.starts_with("10.0.0.2 is an address of the member 'server-2'"),
        "{of_member}"
    );
    serves(&membership, TWO, "192.0.2.7:3260");
    let of_portal = said(set(&membership, "192.0.2.7/24", false));
    assert!(
        of_portal.starts_with("192.0.2.7 is an address of the member 'server-2'"),
        "{of_portal}"
    );
    let nowhere = said(set(&membership, "198.51.100.9/24", false));
    assert!(
        nowhere.starts_with("no member has an interface in the network of 198.51.100.9/24"),
        "{nowhere}"
    );
    assert_eq!(read(&membership).address, Some(address("10.0.0.100/24")), "it stays");
    set(&membership, "192.0.2.100/24", false).expect("hosts reach a member there");
    set(&membership, "198.51.100.9/24", true).expect("whoever asks is there");

    // What was set is not taken by a server that joins.
    set(&membership, "10.0.0.3/24", false).expect("nobody has it");
    let taken = said(join(&membership, applicant(3)));
    assert!(taken.starts_with("10.0.0.3 is the address of the group"), "{taken}");
    wait(membership.set_address(None, false)).expect("a group need not have one");
    join(&membership, applicant(3)).expect("now it may");
    assert_eq!(read(&membership).address, None);
}

fn hold(member: MemberId, nonce: u64) -> AddressHold {
    AddressHold { member, nonce }
}

fn take(membership: &Membership, hold: AddressHold, found: Option<u64>) -> bool {
    wait(membership.take_address(hold, found)).expect("an answer")
}

fn keep(membership: &Membership, hold: AddressHold) -> bool {
    wait(membership.keep_address(hold)).expect("an answer")
}

/// Who has the address, and in which revision that was written.
fn holder(membership: &Membership) -> Option<(Option<MemberId>, u64)> {
    read(membership).holder.map(|holder| (holder.member, holder.revision))
}

#[test]
fn one_member_has_the_address_as_long_as_it_says_so() {
    let store = store();
    let membership = group(&store);
    join(&membership, applicant(2)).expect("there is room");
    set(&membership, "10.0.0.100/24", false).expect("the members are beside it");
    assert!(!take(&membership, hold(MemberId(7), 1), None), "that is no member");
    let first = hold(TWO, 1);
    assert!(take(&membership, first, None));
    let (member, written) = holder(&membership).expect("it is there");
    assert_eq!(member, Some(TWO));
    assert!(!take(&membership, hold(ONE, 1), None), "another one has it");
    assert!(!take(&membership, hold(TWO, 2), None), "nor does a later life of that one");

    // It was written since.
    assert!(keep(&membership, first));
    assert!(!take(&membership, hold(ONE, 1), Some(written)));
    let (_, written) = holder(&membership).expect("it is there");
    assert!(!keep(&membership, hold(TWO, 2)), "that is another hold");
    // Neither another address nor its removal frees it: it may be on its interface yet.
    set(&membership, "10.0.0.101/24", false).expect("the members are beside it");
    wait(membership.remove("server-2")).expect("it is not the last");
    assert!(!keep(&membership, first), "it is no member any more");
    assert_eq!(holder(&membership), Some((Some(TWO), written)));
    assert!(!take(&membership, hold(ONE, 1), None));
    // Nothing has come since: whoever has waited for long enough takes it.
    assert!(take(&membership, hold(ONE, 1), Some(written)));
    assert!(!keep(&membership, first));
    assert_eq!(holder(&membership).and_then(|(member, _)| member), Some(ONE));
}

#[test]
fn who_leaves_the_address_leaves_it_to_others_at_once() {
    let store = store();
    let membership = group(&store);
    set(&membership, "10.0.0.100/24", false).expect("the member is beside it");
    let (first, next) = (hold(ONE, 1), hold(ONE, 2));
    assert!(take(&membership, first, None));
    let mut heard = read(&membership);
    wait(membership.leave_address(first)).expect("an answer");
    assert_eq!(holder(&membership), None);
    assert!(!keep(&membership, first), "it is nobody's");
    // Whoever hears of it hears the same.
    let batch = crate::store::Batch {
        revision: heard.revision + 1,
        events: vec![crate::store::Event::Delete {
            key: b"group/holder".to_vec(),
            mod_revision: heard.revision + 1,
        }],
    };
    heard.hear(&batch).expect("it reads");
    assert_eq!(heard.holder, None);

    // Once more, late.
    assert!(take(&membership, next, None));
    wait(membership.leave_address(first)).expect("an answer");
    assert!(keep(&membership, next));
}

#[test]
fn a_holder_that_does_not_read_has_it_all_the_same() {
    let store = store();
    let membership = group(&store);
    set(&membership, "10.0.0.100/24", false).expect("the member is beside it");
    let put = crate::store::Op::put("group/holder", "of a later version");
    wait(store.commit(crate::store::Transaction::always(vec![put]))).expect("an answer");
    let (member, written) = holder(&membership).expect("it is there");
    assert_eq!(member, None);
    assert!(!take(&membership, hold(ONE, 1), None));
    assert!(take(&membership, hold(ONE, 1), Some(written)));
}

#[test]
fn a_portal_at_the_address_is_told_of() {
    let store = store();
    let membership = group(&store);
    set(&membership, "10.0.0.100/24", false).expect("the member is beside it");
    assert_eq!(read(&membership).portal_at_address(), None);
    serves(&membership, ONE, "10.0.0.100:3260");
    assert_eq!(read(&membership).portal_at_address(), Some("server-1"));
}

#[test]
fn a_loopback_is_for_members_that_have_nothing_else() {
    let store = store();
    let membership = group(&store);
    let said = said(set(&membership, "127.0.0.9/8", true));
    assert!(said.starts_with("no member has an interface in the network of 127.0.0.9/8"), "{said}");
}

#[test]
fn the_address_goes_with_its_group() {
    let store = store();
    let membership = group(&store);
    set(&membership, "10.0.0.100/24", false).expect("the member is beside it");
    wait(membership.delete()).expect("it is alone");
    assert_eq!(read(&membership).address, None);
    let id = GroupId::draw().expect("there is randomness");
    wait(membership.found("next", id, applicant(1), NOW)).expect("there is none");
    assert_eq!(read(&membership).address, None);
}

#[test]
fn those_that_are_present_try_one_after_the_other() {
    let store = store();
    let membership = group(&store);
    for number in [2, 3] {
        join(&membership, applicant(number)).expect("there is room");
    }
    for member in [ONE, MemberId(3)] {
        let lease = wait(store.grant(Duration::from_secs(10))).expect("a lease");
        wait(membership.enter(member, 5, "0.1.0")).expect("it is a member");
        wait(membership.appear(member, 5, lease)).expect("it is a member");
    }
    let roll = read(&membership);
    let turns = [ONE, TWO, MemberId(3)].map(|member| roll.turn_of(member).as_millis());
    assert_eq!(turns, [0, 500, 500]);
}

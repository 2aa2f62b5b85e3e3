//! Members come, live, are away, go, and come again.

use super::*;
use crate::access::{AccessList, ENTRIES_MAX, Entry, Scope};
use crate::store::StoreError;

#[test]
fn a_number_is_not_given_again() {
    let membership = group(&store());
    for number in 2..6 {
        assert_eq!(join(&membership, applicant(2)).unwrap().0, MemberId(number));
        assert_eq!(wait(membership.remove("server-2")).unwrap(), MemberId(number));
    }
    let roll = read(&membership);
    assert_eq!(
        (names(&roll), roll.about.as_ref().unwrap().last_member),
        (vec![(1, "server-1")], 5)
    );
}

#[test]
fn a_member_is_present_while_its_lease_lasts_and_in_the_life_that_was_entered_last() {
    let seconds = Arc::new(AtomicU64::new(0));
    let store = store_at(&seconds);
    let membership = group(&store);
    let founder = MemberId(1);
    let is_present = || read(&membership).is_present(founder);
    let grant = || wait(store.grant(Duration::from_secs(10))).unwrap();
    assert!(!is_present());
    let early = wait(membership.appear(founder, 7, grant())).unwrap_err();
    assert!(matches!(early, MembershipError::OtherLife), "it was not entered: {early}");

    wait(membership.enter(founder, 7, "0.1.1")).unwrap();
    let roll = read(&membership);
    let record = &roll.members[&founder];
    assert_eq!((record.incarnation, record.version.as_str()), (7, "0.1.1"));
    assert!(!is_present());
    let lease = grant();
    wait(membership.appear(founder, 7, lease)).unwrap();
    assert!(is_present());

    // It starts again while its former lease still lasts.
    wait(membership.enter(founder, 8, "0.1.1")).unwrap();
    assert_eq!(read(&membership).present[&founder], 7);
    assert!(!is_present());
    let lease = grant();
    wait(membership.appear(founder, 8, lease)).unwrap();
    assert!(is_present());
    seconds.store(9, Ordering::SeqCst);
    wait(store.keep_alive(lease)).unwrap();
    seconds.store(18, Ordering::SeqCst);
    assert!(is_present());
    seconds.store(19, Ordering::SeqCst);
    assert!(!is_present());
    assert_eq!(read(&membership).members[&founder].incarnation, 8, "it is a member all the same");
}

#[test]
fn a_life_that_was_entered_is_not_entered_again() {
    let membership = group(&store());
    wait(membership.enter(MemberId(1), 7, "0.1.0")).unwrap();
    let before = read(&membership);
    wait(membership.enter(MemberId(1), 7, "0.1.0")).unwrap();
    assert_eq!(read(&membership), before, "at no later revision");
    let refused = wait(membership.enter(MemberId(1), 7, "no word")).unwrap_err();
    assert!(matches!(refused, MembershipError::Applicant("version")), "{refused}");
}

#[test]
fn a_member_that_is_gone_for_good_is_removed_with_all_it_said() {
    let store = store();
    let membership = group(&store);
    let (number, _) = join(&membership, applicant(2)).unwrap();
    wait(membership.enter(number, 7, "0.1.0")).unwrap();
    let lease = wait(store.grant(HOUR)).unwrap();
    wait(membership.appear(number, 7, lease)).unwrap();
    wait(membership.publish(number, &Inventory::default())).unwrap();
    let unknown = wait(membership.remove("server-3")).unwrap_err();
    assert!(matches!(&unknown, MembershipError::NoSuchMember(name) if name == "server-3"));
    assert!(read(&membership).is_present(number));
    assert_eq!(wait(membership.remove("server-2")).unwrap(), number);
    let roll = read(&membership);
    assert_eq!(names(&roll), [(1, "server-1")]);
    assert!(roll.present.is_empty() && roll.inventories.is_empty());
    let last = said(wait(membership.remove("server-1")));
    assert!(last.starts_with("'server-1' is the last member"), "{last}");
    assert_eq!(read(&membership), roll);
    // Its server is made anew, with a new array, and takes its place.
    let anew = Applicant { array: "f0".to_owned(), ..applicant(2) };
    assert_eq!(join(&membership, anew).unwrap().0, MemberId(3));
}

#[test]
fn the_last_member_ends_the_group_and_another_can_be_made() {
    let membership = group(&store());
    join(&membership, applicant(2)).unwrap();
    token(&membership);
    let others = said(wait(membership.delete()));
    assert_eq!(others, "the group has 1 member beside this one: remove those first");
    wait(membership.remove("server-1")).unwrap();
    wait(membership.publish(MemberId(2), &Inventory::default())).unwrap();
    wait(membership.delete()).unwrap();
    let ended = read(&membership);
    assert_eq!((ended.about, ended.members.len(), ended.tokens.len()), (None, 0, 0));
    assert!(ended.inventories.is_empty());
    for result in [
        wait(membership.delete()),
        wait(membership.rename("lab")),
        wait(membership.remove("server-2")).map(|_| ()),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, MembershipError::NoGroup), "{error}");
    }
    let id = GroupId::draw().unwrap();
    assert_eq!(wait(membership.found("lab", id.clone(), applicant(2), NOW)).unwrap(), MemberId(1));
    let about = read(&membership).about.unwrap();
    assert_eq!((about.id, about.last_member), (id, 1));
}

/// Members let their files go when they were removed, and not when their store was lost and made anew.
#[test]
fn who_was_removed_is_told_apart_from_who_finds_an_empty_store() {
    let asked = |membership: &Membership| {
        let lease = wait(membership.store.grant(HOUR)).unwrap();
        [
            wait(membership.enter(MemberId(2), 7, "0.1.0")).unwrap_err(),
            wait(membership.appear(MemberId(2), 7, lease)).unwrap_err(),
            wait(membership.publish(MemberId(2), &Inventory::default())).unwrap_err(),
        ]
    };
    for error in asked(&Membership::new(store())) {
        assert!(matches!(error, MembershipError::NoGroup), "{error}");
    }
    let membership = group(&store());
    join(&membership, applicant(2)).unwrap();
    wait(membership.remove("server-2")).unwrap();
    for error in asked(&membership) {
        assert!(matches!(error, MembershipError::Removed), "{error}");
    }
    wait(membership.delete()).unwrap();
    for error in asked(&membership) {
        assert!(matches!(error, MembershipError::Removed), "{error}");
    }
}

/// The door has admitted a server, which has not heard of it: it comes again, with another token.
#[test]
fn a_server_that_never_heard_that_it_was_admitted_is_admitted_anew() {
    let membership = group(&store());
    let (first, _) = join(&membership, applicant(2)).unwrap();
    let moved = Applicant { address: applicant(9).address, ..applicant(2) };
    let (second, roll) = join(&membership, moved).unwrap();
    assert_eq!((first, second), (MemberId(2), MemberId(3)));
    assert_eq!(names(&roll), [(1, "server-1"), (3, "server-2")]);
    let former = wait(membership.enter(first, 7, "0.1.0")).unwrap_err();
    assert!(matches!(former, MembershipError::Removed), "{former}");

    // A server of another name with this array is a copy, and so is one of this name once it has lived.
    let is_copy = |result: Result<(MemberId, Roll), MembershipError>| {
        let error = result.unwrap_err();
        assert!(matches!(&error, MembershipError::ArrayKnown { member } if member == "server-2"));
    };
    is_copy(join(&membership, Applicant { array: applicant(2).array, ..applicant(4) }));
    wait(membership.enter(second, 7, "0.1.0")).unwrap();
    is_copy(join(&membership, applicant(2)));
    assert_eq!(read(&membership).members.len(), 2);
}

#[test]
fn a_copy_of_the_founder_does_not_take_its_place_before_it_has_lived() {
    let membership = group(&store());
    let copy = join(&membership, Applicant { address: applicant(9).address, ..applicant(1) });
    let error = copy.unwrap_err();
    assert!(matches!(&error, MembershipError::ArrayKnown { member } if member == "server-1"));
    assert_eq!(names(&read(&membership)), [(1, "server-1")]);
}

#[test]
fn what_members_serve_is_said_and_said_anew() {
    let store = store();
    let membership = group(&store);
    let mut list = AccessList::default();
    list.add(Entry::Record("chap=ada ip=10.1.*.* for=volume".parse().unwrap())).unwrap();
    list.add(Entry::Policy { name: "esx".to_owned(), scope: Scope::Both }).unwrap();
    let volume = ListedVolume {
        name: "db".to_owned(),
        iqn: "iqn.2026-01.example:db".to_owned(),
        serial: "S1".to_owned(),
        size_bytes: 1 << 40,
        is_online: true,
        is_lost: false,
        shown: Shown::Listed(list),
    };
    let portals = vec!["10.0.0.1:3260".parse().unwrap(), "[fd00::1]:3260".parse().unwrap()];
    let uses = NamesUsed { policies: ["esx".to_owned()].into(), users: ["ada".to_owned()].into() };
    let full = Inventory {
        portals,
        volumes: vec![volume],
        snapshots: vec!["iqn.s".to_owned()],
        free_bytes: 64 << 20,
        capacity_bytes: 1 << 42,
        portal_group: 7,
        schedules: vec!["nightly".to_owned()],
        deleted: vec!["old".to_owned()],
        deleted_lost: Vec::new(),
        uses,
        shares: true,
        leaving: vec!["iqn.gone".to_owned()],
        moves: vec![ListedMove { volume: "db".to_owned(), other: MemberId(2) }],
        spreads: vec![ListedSpread {
            volume: "wide".to_owned(),
            home: MemberId(1),
            members: [MemberId(1), MemberId(2)].into(),
        }],
    };
    let before = read(&membership).guard;
    for inventory in [full, Inventory::default()] {
        wait(membership.publish(MemberId(1), &inventory)).unwrap();
        assert_eq!(*read(&membership).inventories[&MemberId(1)], inventory);
    }
    assert_eq!(read(&membership).guard, before, "no change has to begin anew because of that");
}

/// A member that runs an earlier version says less, and is heard all the same.
#[test]
fn what_an_earlier_version_says_of_a_member_is_read() {
    let early = br#"{"version":1,"value":{"portals":["10.0.0.1:3260"],"volumes":[{"name":"db","iqn":"iqn.a:db",
        "size_bytes":1,"is_online":true}],"snapshots":[]}}"#;
    let inventory = Inventory::decode(early).unwrap();
    let volume = ListedVolume {
        name: "db".to_owned(),
        iqn: "iqn.a:db".to_owned(),
        serial: String::new(),
        size_bytes: 1,
        is_online: true,
        is_lost: false,
        shown: Shown::Nobody,
    };
    let portals = vec!["10.0.0.1:3260".parse().unwrap()];
    assert_eq!(inventory, Inventory { portals, volumes: vec![volume], ..Inventory::default() });
    assert!(!inventory.shares && inventory.uses == NamesUsed::default());
}

/// Who redirects hosts needs the names of all targets, and can do without whom they are shown to.
#[test]
fn what_is_too_much_to_be_said_is_said_without_whom_it_is_shown_to() {
    let membership = group(&store());
    let mut list = AccessList::default();
    for number in 0..ENTRIES_MAX {
        let name = format!("policy-{number:056}");
        list.add(Entry::Policy { name, scope: Scope::Both }).unwrap();
    }
    let volume = |number: usize, shown: &Shown| ListedVolume {
        name: format!("vm-{number}"),
        iqn: format!("iqn.2026-01.example:vm-{number}"),
        shown: shown.clone(),
        ..ListedVolume::default()
    };
    let serves = |count: usize, shown: Shown| Inventory {
        volumes: (0..count).map(|number| volume(number, &shown)).collect(),
        ..Inventory::default()
    };
    let listed = Shown::Listed(list);
    for (count, said) in [(100, listed.clone()), (2000, Shown::Nobody)] {
        wait(membership.publish(MemberId(1), &serves(count, listed.clone()))).unwrap();
        assert_eq!(*read(&membership).inventories[&MemberId(1)], serves(count, said), "{count}");
    }
    let endless = wait(membership.publish(MemberId(1), &serves(40_000, listed))).unwrap_err();
    let is_too_large = matches!(endless, MembershipError::Store(StoreError::TooLarge { .. }));
    assert!(is_too_large, "{endless}");
    assert_eq!(read(&membership).inventories[&MemberId(1)].volumes.len(), 2000);
}

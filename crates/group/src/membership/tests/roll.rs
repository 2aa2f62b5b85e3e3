//! The group as it lies in the store: its keys, what cannot be there, and how a watch is followed.

use futures_util::StreamExt;

use super::*;
use crate::membership::roll::{inventory_key, member_key, pool_key, present_key, token_key};
use crate::record::SettingError;
use crate::store::{Batch, Event, KeyValue};

fn put(store: &Arc<dyn Store>, key: &str, value: impl Into<Vec<u8>>) {
    let transaction = Transaction::always(vec![Op::put(key, value)]);
    wait(store.commit(transaction)).expect("it is taken");
}

/// Follows the watch until it has heard of this revision.
fn follow(watch: &mut Watch, roll: &mut Roll, revision: Revision) {
    while roll.revision < revision {
        let batch = wait(watch.next()).expect("it does not end").expect("nothing is compacted");
        roll.hear(&batch).expect("it is read");
        roll.check();
    }
}

#[test]
fn keys_are_as_they_are_documented() {
    let (member, store) = (MemberId(7), store());
    assert_eq!(member_key(member), "group/members/00007");
    assert_eq!(present_key(MemberId(u16::MAX)), "group/present/65535");
    assert_eq!(inventory_key(member), "group/inventory/00007");
    assert_eq!(token_key("0012abcd"), "group/tokens/0012abcd");
    assert_eq!(pool_key("fast.1"), "group/pools/fast.1");
    let membership = group(&store);
    wait(membership.create_pool("fast")).unwrap();
    wait(membership.claim_names(MemberId(1), &["VM_1".to_owned()])).unwrap();
    let (id, _) = token(&membership);
    wait(membership.enter(MemberId(1), 7, "0.1.0")).unwrap();
    let lease = wait(store.grant(HOUR)).unwrap();
    wait(membership.appear(MemberId(1), 7, lease)).unwrap();
    wait(membership.publish(MemberId(1), &Inventory::default())).unwrap();
    let all = wait(store.range(Selection::prefix(""))).unwrap();
    let keys: Vec<_> = all.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key)).collect();
    assert_eq!(
        keys,
        [
            "group/about".to_owned(),
            "group/guard".to_owned(),
            "group/inventory/00001".to_owned(),
            "group/limits".to_owned(),
            "group/members/00001".to_owned(),
            "group/pools/fast".to_owned(),
            "group/present/00001".to_owned(),
            format!("group/tokens/{id}"),
            "names/vm-1".to_owned(),
        ]
    );
    let present = &all.kvs[6];
    assert_eq!((present.value.as_slice(), present.lease), (&b"7"[..], Some(lease)));
}

#[test]
fn a_watch_says_what_a_read_does() {
    let store = store();
    let membership = Membership::new(store.clone());
    let mut heard = read(&membership);
    let mut watch = membership.watch(heard.revision + 1);
    let membership = group(&store);
    let mut catch_up = || {
        let now = read(&membership);
        follow(&mut watch, &mut heard, now.revision);
        assert_eq!(heard, now);
    };
    catch_up();
    let (number, _) = join(&membership, applicant(2)).unwrap();
    catch_up();
    wait(membership.enter(number, 7, "0.2.0")).unwrap();
    let lease = wait(store.grant(HOUR)).unwrap();
    wait(membership.appear(number, 7, lease)).unwrap();
    wait(membership.publish(number, &Inventory::default())).unwrap();
    let (id, _) = token(&membership);
    catch_up();
    wait(store.revoke(lease)).unwrap();
    wait(membership.revoke_token(&id)).unwrap();
    wait(membership.rename("lab-2")).unwrap();
    catch_up();
    for pool in ["fast", "slow"] {
        wait(membership.create_pool(pool)).unwrap();
    }
    wait(membership.move_member("server-2", "fast")).unwrap();
    catch_up();
    wait(membership.merge_pool("fast", "slow")).unwrap();
    catch_up();
    wait(membership.remove("server-2")).unwrap();
    catch_up();
    wait(membership.delete()).unwrap();
    catch_up();
}

#[test]
fn what_was_read_already_is_not_heard_again() {
    let store = store();
    let membership = group(&store);
    let mut watch = membership.watch(1);
    wait(membership.rename("lab-2")).unwrap();
    let read = read(&membership);
    let mut heard = read.clone();
    let first = wait(watch.next()).unwrap().unwrap();
    assert!(first.revision < read.revision);
    heard.hear(&first).unwrap();
    assert_eq!(heard, read, "the group does not get its former name back");
    let again = wait(watch.next()).unwrap().unwrap();
    assert_eq!(again.revision, read.revision);
    heard.hear(&again).unwrap();
    assert_eq!(heard, read);
}

#[test]
fn a_batch_that_does_not_read_is_not_taken_by_halves() {
    let membership = group(&store());
    let mut roll = read(&membership);
    let before = roll.clone();
    let event = |key: &str, value: &[u8]| {
        Event::Put(KeyValue {
            key: key.into(),
            value: value.to_vec(),
            create_revision: 9,
            mod_revision: 9,
            version: 1,
            lease: None,
        })
    };
    let gone = Event::Delete { key: b"group/members/00001".to_vec(), mod_revision: 9 };
    let events = vec![gone, event("group/about", b"rubbish")];
    let error = roll.hear(&Batch { revision: 9, events }).unwrap_err();
    assert!(matches!(error, MembershipError::Setting(SettingError::Damaged { .. })), "{error}");
    assert_eq!(roll, before);
}

#[test]
fn what_a_later_version_wrote_is_said_and_further_keys_are_passed_by() {
    let store = store();
    let membership = group(&store);
    let before = read(&membership);
    put(&store, "group/volumes/00001", "of a later version");
    put(&store, "group/aboutness", "the same");
    put(&store, "groups", "not of the group");
    let after = read(&membership);
    assert_eq!(Roll { revision: before.revision, ..after }, before);
    put(&store, "group/about", &br#"{"version":9,"value":{}}"#[..]);
    let later = wait(membership.read()).unwrap_err();
    let is_later = matches!(later, MembershipError::Setting(SettingError::Later { .. }));
    assert!(is_later && later.to_string().contains("use the version that wrote it"), "{later}");
    let kept = wait(membership.rename("mine")).unwrap_err();
    assert!(matches!(kept, MembershipError::Setting(_)), "it is not written over: {kept}");
}

#[test]
fn keys_that_nobody_writes_are_no_group() {
    let cases = [
        ("group/members/1", "{}"),
        ("group/members/00x01", "{}"),
        ("group/members/+0001", "{}"),
        ("group/members/99999", "{}"),
        ("group/members/", "{}"),
        ("group/tokens/abc", "{}"),
        ("group/tokens/0012abcg", "{}"),
        ("group/pools/", "{}"),
        ("group/pools/a/b", "{}"),
    ];
    for (key, value) in cases {
        let store = store();
        put(&store, key, value);
        let error = wait(Membership::new(store).read()).unwrap_err();
        assert!(matches!(&error, MembershipError::Unsound(why) if why.contains(key)), "{error}");
    }
}

/// A member of a later version may say more of itself than is understood here: the others are a group all the same.
#[test]
fn what_a_member_says_of_itself_takes_nobody_else_out() {
    let store = store();
    let membership = group(&store);
    join(&membership, applicant(2)).unwrap();
    wait(membership.enter(MemberId(1), 7, "0.1.0")).unwrap();
    wait(membership.publish(MemberId(2), &Inventory::default())).unwrap();
    let mut heard = read(&membership);
    assert_eq!(heard.inventories.len(), 1);
    let mut watch = membership.watch(heard.revision + 1);
    let words = [
        ("group/inventory/00002", r#"{"version":9,"value":{}}"#),
        ("group/inventory/00001", "rubbish"),
        ("group/inventory/00009", r#"{"version":9,"value":{}}"#),
        ("group/inventory/one", "{}"),
        ("group/present/00001", ""),
        ("group/present/00001", "seven"),
        ("group/present/00001", "18446744073709551616"),
        ("group/present/7", "7"),
    ];
    let words = words.map(|(key, value)| (key, value.as_bytes().to_vec()));
    let of_nobody = [
        ("group/inventory/00009", Inventory::default().encode()),
        ("group/present/00009", b"7".to_vec()),
    ];
    for (key, value) in words.into_iter().chain(of_nobody) {
        put(&store, key, value);
        let now = read(&membership);
        follow(&mut watch, &mut heard, now.revision);
        assert_eq!(heard, now, "{key}");
        assert!(now.inventories.is_empty() && now.present.is_empty(), "{key}: {now:?}");
    }
    wait(membership.rename("mine")).unwrap();
    assert_eq!(join(&membership, applicant(3)).unwrap().0, MemberId(3));
    // Whoever says something that reads is heard.
    let lease = wait(store.grant(HOUR)).unwrap();
    wait(membership.appear(MemberId(1), 7, lease)).unwrap();
    wait(membership.publish(MemberId(2), &Inventory::default())).unwrap();
    let now = read(&membership);
    follow(&mut watch, &mut heard, now.revision);
    assert_eq!(heard, now);
    assert!(now.is_present(MemberId(1)) && now.inventories.contains_key(&MemberId(2)));
}

/// Each of what always holds, broken.
#[test]
fn what_cannot_be_is_found() {
    type Breaks = fn(&mut Roll);
    let breaks: [(&str, Breaks); 19] = [
        ("and no group", |roll| roll.about = None),
        ("it has 0 members", |roll| {
            roll.members.clear();
            roll.present.clear();
            roll.inventories.clear();
        }),
        ("it has 65 members", |roll| {
            for number in 3..=65 {
                roll.members.insert(MemberId(number.into()), applicant(number).record(NOW));
            }
        }),
        ("the number of member 2 was never given", |roll| last_member(roll, 1)),
        ("the number of member 0 was never given", |roll| {
            roll.members.insert(MemberId(0), applicant(9).record(NOW));
        }),
        ("'a/b' cannot be the name", |roll| "a/b".clone_into(&mut second(roll).name)),
        ("'' cannot be the name", |roll| about(roll).name.clear()),
        ("member 1 and member 2 have the same name", |roll| {
            "server-1".clone_into(&mut second(roll).name);
        }),
        ("member 1 and member 2 have the same name", |roll| {
            "SERVER-1".clone_into(&mut second(roll).name);
        }),
        ("member 1 and member 2 have the same array", |roll| {
            second(roll).array = applicant(1).array;
        }),
        ("member 1 and member 2 have the same ports", |roll| {
            second(roll).address = applicant(1).address;
        }),
        ("member 1 and member 2 have the same ports", |roll| {
            second(roll).address = applicant(1).address;
            second(roll).port = PORT - 2;
        }),
        ("0.0.0.0 cannot be the address", |roll| second(roll).address = IpAddr::from([0; 4])),
        ("0 cannot be the port", |roll| second(roll).port = 0),
        ("65534 cannot be the port", |roll| second(roll).port = 65534),
        ("it has 65 tokens", |roll| {
            let (_, token) = roll.tokens.pop_first().expect("there is one");
            roll.tokens = (0..65).map(|id| (format!("{id:08x}"), token.clone())).collect();
        }),
        ("it hears of member 3", |roll| {
            roll.present.insert(MemberId(3), 7);
        }),
        ("it hears of member 3", |roll| {
            roll.inventories.insert(MemberId(3), Arc::default());
        }),
        ("it hears of member 2", |roll| {
            roll.about = None;
            roll.members.clear();
            roll.tokens.clear();
            roll.inventories.clear();
            roll.present = [(MemberId(2), 7)].into();
        }),
    ];
    let sound = whole();
    sound.check();
    for (what, broken) in breaks {
        let mut roll = sound.clone();
        broken(&mut roll);
        let why = roll.sound().expect_err(what);
        assert!(why.contains(what), "{why}");
        let checked = std::panic::catch_unwind(|| roll.check());
        assert!(checked.is_err(), "{what}: the assertion does not see it");
    }
}

/// Members had three ports each, and groups of that time go on: what is new has four.
#[test]
fn a_group_whose_members_have_one_port_less_can_be_changed() {
    let store = store();
    let membership = group(&store);
    let address = applicant(1).address;
    let second = |port| Applicant { address, port, ..applicant(2) };
    join(&membership, applicant(2)).expect("there is room");
    for port in [PORT + 3, PORT - 3, 65533] {
        put(&store, "group/members/00002", second(port).record(NOW).encode());
        assert_eq!(read(&membership).sound(), Ok(()), "{port}");
        wait(membership.rename(&format!("lab-{port}"))).expect("it is a group");
    }
    let third = Applicant { address, port: 65530, ..applicant(3) };
    let refused = join(&membership, third).unwrap_err();
    assert!(matches!(refused, MembershipError::AddressTaken { .. }), "{refused}");
}

/// A group of two, the second of which is present and serves, and a token.
fn whole() -> Roll {
    let store = store();
    let membership = group(&store);
    let (number, _) = join(&membership, applicant(2)).expect("there is room");
    wait(membership.enter(number, 7, "0.1.0")).expect("it is a member");
    let lease = wait(store.grant(HOUR)).expect("it is granted");
    wait(membership.appear(number, 7, lease)).expect("it is a member");
    wait(membership.publish(number, &Inventory::default())).expect("it is a member");
    token(&membership);
    let mut roll = read(&membership);
    // Numbers that are left out were of members that are gone.
    last_member(&mut roll, 99);
    roll
}

fn second(roll: &mut Roll) -> &mut MemberRecord {
    roll.members.get_mut(&MemberId(2)).expect("there are two")
}

fn about(roll: &mut Roll) -> &mut About {
    roll.about.as_mut().expect("there is a group")
}

fn last_member(roll: &mut Roll, number: u16) {
    about(roll).last_member = number;
}

#[test]
fn a_group_that_cannot_be_is_left_as_it_is() {
    let store = store();
    let membership = group(&store);
    let (id, secret) = token(&membership);
    let double = Applicant { address: applicant(1).address, ..applicant(2) };
    put(&store, "group/members/00002", double.record(NOW).encode());
    let about = About { last_member: 2, ..wait(membership.read()).unwrap().about.unwrap() };
    put(&store, "group/about", about.encode());
    let before = wait(membership.read()).unwrap();
    let refused = [
        wait(membership.rename("mine")),
        wait(membership.judge(&id, secret.as_str(), &applicant(3), NOW)).map(|_| ()),
        wait(membership.admit(&id, secret.as_str(), applicant(3), NOW)).map(|_| ()),
        wait(membership.delete()),
    ];
    for result in refused {
        let error = result.unwrap_err();
        let is_told = error.to_string().contains("member 1 and member 2 have the same ports");
        assert!(is_told && matches!(error, MembershipError::Unsound(_)), "{error}");
    }
    assert_eq!(wait(membership.read()).unwrap(), before);
}

#[test]
fn members_are_found_by_their_names() {
    let roll = whole();
    let (number, record) = roll.find("server-2").unwrap();
    assert_eq!((number, record.name.as_str()), (MemberId(2), "server-2"));
    assert_eq!(roll.find("server-3"), None);
    assert!(roll.is_present(MemberId(2)));
    assert!(!roll.is_present(MemberId(1)) && !roll.is_present(MemberId(3)));
    // One that was never entered is not there, whatever is said of it.
    let mut roll = roll;
    roll.present.insert(MemberId(1), 0);
    assert!(!roll.is_present(MemberId(1)));
}

#[test]
fn the_identity_of_a_group_is_one_text() {
    let (one, other) = (GroupId::draw().unwrap(), GroupId::draw().unwrap());
    assert_ne!(one, other);
    assert_eq!((one.as_str().len(), one.to_string().as_str()), (32, one.as_str()));
    assert_eq!(one.as_str().parse::<GroupId>().unwrap(), one);
    let text = serde_json::to_string(&one).unwrap();
    assert_eq!(text, format!("\"{one}\""));
    assert_eq!(serde_json::from_str::<GroupId>(&text).unwrap(), one);
    let upper = "0123456789ABCDEF0123456789ABCDEF";
    let short = &one.as_str()[1..];
    let long = format!("{one}0");
    for bad in ["", short, &long, upper, "0123456789abcdef0123456789abcdeg"] {
        let error = bad.parse::<GroupId>().unwrap_err().to_string();
        let told = format!("32 hexadecimal digits in lower case, and '{bad}' is not");
        assert!(error.contains(&told), "{error}");
        serde_json::from_str::<GroupId>(&format!("\"{bad}\"")).unwrap_err();
    }
}

//! Who may what, as a table; texts that come back as they were; and what is refused.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::record::Setting;

const HOST: &str = "iqn.2026-11.com.example:host";

fn record(text: &str) -> Record {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn host(text: &'static str) -> Host<'static> {
    let (iqn, address) = text.split_once(' ').expect("a name and an address");
    Host { iqn, address: address.parse().expect("an address") }
}

#[test]
fn who_may_what() {
    use Object::{Snapshot, Volume};
    let by_name = &["iqn=iqn.2026-11.com.example:host"][..];
    let by_all = &["chap=alice iqn=iqn.2026-11.com.example:host ip=10.1.*.*"][..];
    let by_user = &["chap=alice"][..];
    let of_two = &["chap=alice ip=10.0.0.0/8", "chap=bob", "ip=192.0.2.7"][..];
    let parted = &["ip=10.0.0.1 for=volume", "ip=10.0.0.2 for=snapshot"][..];
    let here = "iqn.2026-11.com.example:host 10.1.2.3";
    let capitals = "iqn.2026-11.COM.example:Host 10.1.2.3";
    let other = "iqn.2026-11.com.example:other 10.1.2.3";
    let longer = "iqn.2026-11.com.example:host2 10.1.2.3";
    let elsewhere = "iqn.2026-11.com.example:host 10.2.2.3";
    let mapped = "iqn.2026-11.com.example:host ::ffff:10.1.2.3";
    let six = "iqn.2026-11.com.example:host 2001:db8::7";
    let open = "iqn.2026-11.com.example:host 192.0.2.7";
    let first = "iqn.x 10.0.0.1";
    let second = "iqn.x 10.0.0.2";
    let cases = [
        (&[][..], Volume, here, Some("alice"), false),
        (by_name, Volume, here, None, true),
        (by_name, Snapshot, here, None, true),
        (by_name, Volume, capitals, None, true),
        (by_name, Volume, other, None, false),
        (by_name, Volume, longer, None, false),
        (by_name, Volume, other, Some("alice"), false),
        (by_all, Volume, here, Some("alice"), true),
        (by_all, Volume, mapped, Some("alice"), true),
        (by_all, Volume, here, None, false),
        (by_all, Volume, here, Some("Alice"), false),
        (by_all, Volume, here, Some("bob"), false),
        (by_all, Volume, other, Some("alice"), false),
        (by_all, Volume, elsewhere, Some("alice"), false),
        (by_all, Volume, six, Some("alice"), false),
        (by_user, Volume, other, Some("alice"), true),
        (by_user, Snapshot, six, Some("alice"), true),
        (by_user, Volume, here, None, false),
        (of_two, Volume, here, Some("alice"), true),
        (of_two, Volume, here, Some("bob"), true),
        (of_two, Volume, six, Some("alice"), false),
        (of_two, Volume, six, Some("bob"), true),
        (of_two, Volume, open, None, true),
        (of_two, Volume, open, Some("eve"), true),
        (of_two, Volume, here, None, false),
        (parted, Volume, first, None, true),
        (parted, Snapshot, first, None, false),
        (parted, Volume, second, None, false),
        (parted, Snapshot, second, None, true),
    ];
    for (records, object, from, proved, may) in cases {
        let all: Vec<Record> = records.iter().map(|text| record(text)).collect();
        let said = format!("{records:?}, {object:?}, {from}, {proved:?}");
        assert_eq!(admits(&all, object, host(from), proved), may, "{said}");
    }
}

#[test]
fn what_must_be_proved_depends_on_name_and_address() {
    let records =
        ["chap=alice ip=10.0.0.0/8", "chap=bob", "ip=192.0.2.7", "ip=10.0.0.9 for=snapshot"]
            .map(record);
    let asked = |from, object| demand(&records, object, host(from));
    let users = |names: &[&'static str]| Demand::User(names.iter().copied().collect());
    assert_eq!(asked("iqn.x 10.0.0.9", Object::Volume), users(&["alice", "bob"]));
    assert_eq!(asked("iqn.x 10.0.0.9", Object::Snapshot), Demand::Nothing);
    assert_eq!(asked("iqn.x 2001:db8::7", Object::Volume), users(&["bob"]));
    assert_eq!(asked("iqn.x 192.0.2.7", Object::Volume), Demand::Nothing);
    assert_eq!(demand(&records[..1], Object::Volume, host("iqn.x 11.0.0.1")), Demand::Refusal);
}

#[test]
fn what_is_no_record_is_refused_with_a_sentence() {
    let cases = [
        ("", "needs at least one"),
        ("for=volume", "needs at least one"),
        ("chap= ip=10.0.0.1", "a CHAP user has"),
        ("iqn=host", "is not an iSCSI name"),
        ("ip=nowhere", "is no address"),
        ("chap=a for=everything", "write volume, snapshot or both"),
        ("user=a", "means nothing"),
        ("alice", "means nothing"),
        ("chap=a chap=b", "is there twice"),
    ];
    for (text, says) in cases {
        let said = text.parse::<Record>().unwrap_err().to_string();
        assert!(said.contains(says), "{text}: {said}");
    }
    assert_eq!(check_user("two words"), Err(AccessError::User));
    assert_eq!(check_user(&"x".repeat(256)), Err(AccessError::User));
}

#[test]
fn a_list_keeps_its_numbers_and_ends_at_sixteen() {
    let mut list = AccessList::default();
    let entry = |octet: usize| Entry::Record(record(&format!("ip=10.0.0.{octet}")));
    for number in 1..=ENTRIES_MAX {
        assert_eq!(list.add(entry(number)), Ok(u32::try_from(number).unwrap()));
    }
    assert_eq!(list.add(entry(3)), Err(AccessError::ThereAlready(3)));
    assert_eq!(list.add(entry(99)), Err(AccessError::Full(16)));
    assert_eq!(list.remove(16), Ok(entry(16)));
    assert_eq!(list.remove(16), Err(AccessError::NoSuchRecord(16)));
    assert_eq!(list.add(entry(99)), Ok(17), "a number is not used again");
    assert_eq!(AccessList::decode(&list.encode()).unwrap(), list);
}

#[test]
fn a_policy_lends_its_records_within_the_scope_of_its_entry() {
    let mut policy = Policy::default();
    for text in ["ip=10.0.0.1", "ip=10.0.0.2 for=snapshot", "ip=10.0.0.3 for=volume"] {
        policy.add(record(text)).unwrap();
    }
    assert_eq!(Policy::decode(&policy.encode()).unwrap(), policy);
    let policies = Policies::from([("hosts".to_owned(), policy)]);
    let lent = |name: &str, scope| {
        let mut list = AccessList::default();
        list.add(Entry::Policy { name: name.to_owned(), scope }).unwrap();
        assert!(!list.is_empty());
        let records = list.records(&policies);
        records.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        lent("hosts", Scope::Both),
        "ip=10.0.0.1 for=both, ip=10.0.0.2 for=snapshot, ip=10.0.0.3 for=volume"
    );
    assert_eq!(lent("hosts", Scope::Volume), "ip=10.0.0.1 for=volume, ip=10.0.0.3 for=volume");
    assert_eq!(
        lent("hosts", Scope::Snapshot),
        "ip=10.0.0.1 for=snapshot, ip=10.0.0.2 for=snapshot"
    );
    assert_eq!(lent("gone", Scope::Both), "", "who is named by nothing is not let in");
}

#[test]
fn what_lies_in_the_store_keeps_its_form() {
    let mut list = AccessList::default();
    list.add(Entry::Record(record(&format!("chap=alice iqn={HOST} ip=10.1.*.*")))).unwrap();
    list.add(Entry::Policy { name: "hosts".into(), scope: Scope::Snapshot }).unwrap();
    let stored = r#"{"version":1,"value":{"next":3,"items":{"1":{"record":{"chap":"alice","iqn":"iqn.2026-11.com.example:host","address":"10.1.*.*","for":"both"}},"2":{"policy":{"name":"hosts","for":"snapshot"}}}}}"#;
    assert_eq!(String::from_utf8(list.encode()).unwrap(), stored);
    assert_eq!(AccessList::decode(stored.as_bytes()).unwrap(), list);
    let open = stored.replace(r#""address":"10.1.*.*","#, "").replace(r#""chap":"alice","#, "");
    let everybody = open.replace(&format!(r#""iqn":"{HOST}","#), "");
    assert!(AccessList::decode(open.as_bytes()).is_ok());
    assert!(AccessList::decode(everybody.as_bytes()).is_err(), "a record for everybody is none");
    let unknown = stored.replace(r#""chap""#, r#""chip""#);
    assert!(AccessList::decode(unknown.as_bytes()).is_err(), "a part is not left out unread");
}

#[test]
fn names_of_policies() {
    for good in ["a", "esx-hosts", "rack_1.b"] {
        assert_eq!(check_policy_name(good), Ok(()));
    }
    for bad in ["", "two words", "a/b", "ä", &"x".repeat(64)] {
        assert!(check_policy_name(bad).is_err(), "{bad}");
    }
}

fn pattern() -> impl Strategy<Value = String> {
    let part = prop_oneof![Just("*".to_owned()), any::<u8>().prop_map(|octet| octet.to_string())];
    prop_oneof![
        [part.clone(), part.clone(), part.clone(), part].prop_map(|parts| parts.join(".")),
        (any::<[u8; 4]>(), 0u8..=32).prop_map(|(bytes, bits)| {
            ipnet::Ipv4Net::new(bytes.into(), bits).expect("bits").trunc().to_string()
        }),
        (any::<[u8; 16]>(), 0u8..=128).prop_map(|(bytes, bits)| {
            ipnet::Ipv6Net::new(bytes.into(), bits).expect("bits").trunc().to_string()
        }),
    ]
}

proptest! {
    #[test]
    fn records_are_read_as_they_are_written(
        user in proptest::option::of("[!-~]{1,20}"),
        iqn in proptest::option::of(Just(HOST)),
        address in pattern(),
        scope in proptest::sample::select(Scope::ALL.to_vec()),
    ) {
        let address = Some(address.parse().unwrap());
        let parts = Parts { chap: user, iqn: iqn.map(str::to_owned), address, scope };
        let record = Record::new(parts).unwrap();
        prop_assert_eq!(record.to_string().parse::<Record>(), Ok(record));
    }

    #[test]
    fn nonsense_is_refused_and_does_no_harm(text in "\\PC*") {
        drop(text.parse::<Record>());
    }

    /// More records never shut a host out, and what is demanded is enough.
    #[test]
    fn records_only_open(first in pattern(), second in pattern(), from in any::<[u8; 4]>()) {
        let records = [record(&format!("ip={first} chap=alice")), record(&format!("ip={second}"))];
        let host = Host { iqn: HOST, address: IpAddr::from(from) };
        for proved in [None, Some("alice")] {
            let by = |records: &[Record]| admits(records, Object::Volume, host, proved);
            prop_assert_eq!(by(&records), by(&records[..1]) || by(&records[1..]));
        }
    }
}

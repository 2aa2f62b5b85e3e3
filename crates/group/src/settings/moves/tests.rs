//! What is stored of volumes that move: as it lies in the store, and that nothing which does not read is written over.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::secrets::{KeySource, Vault};
use crate::settings::{Rule, UnitKey, UnitRecord};
use crate::store::suite::wait;
use crate::store::{Embedded, Options, Place, Store, Transaction};

const ID: &str = "00112233445566778899aabbccddeeff";

const LATER: &[u8] = br#"{"version":2,"value":{}}"#;

fn settings() -> (Settings, Arc<dyn Store>) {
    let clock = Arc::new(|| Duration::ZERO);
    let store = Embedded::open(Place::Memory, clock, Options::default()).expect("it opens");
    let store: Arc<dyn Store> = Arc::new(store);
    let vault = Vault::without_key(KeySource::File("/nowhere".into()));
    (Settings::new(store.clone(), vault), store)
}

fn id(text: &str) -> MoveId {
    text.parse().expect("it is one")
}

fn group() -> GroupId {
    "0".repeat(32).parse().expect("it is one")
}

fn departure(volume: u32, stage: Stage) -> Departure {
    let (name, iqns) = ("vm".to_owned(), vec!["iqn.x:vm".to_owned()]);
    let (group, from, to) = (group(), MemberId(1), MemberId(2));
    let (to_name, serial) = ("right".to_owned(), "FEDCBA9876543210-V1F".to_owned());
    Departure { id: id(ID), group, volume, name, from, to, to_name, serial, iqns, stage }
}

fn arrival(volume: u32) -> Arrival {
    let (name, from, from_name) = ("vm".to_owned(), MemberId(1), "left".to_owned());
    let serial = "0123456789abcdef".to_owned();
    Arrival { id: id(ID), group: group(), volume, name, from, from_name, serial, online: true }
}

fn adopted() -> Adopted {
    Adopted { prefix: "iqn.x".to_owned(), serial: "S-V1".to_owned() }
}

fn units() -> Units {
    let key = |record| UnitKey { serial: "S-V1".to_owned(), record };
    Units::from([
        (key(UnitRecord::Reservations), Some(b"who has reserved what".to_vec())),
        (key(UnitRecord::Sanitize), None),
    ])
}

/// Only those that are listed may use it.
fn listed() -> VolumeSettings {
    VolumeSettings { access: Some(Default::default()), shared: true }
}

fn arrive(settings: &Settings, volume: u32) -> Result<(), SettingsError> {
    wait(settings.arrive(&arrival(volume), &listed(), &adopted(), &units()))
}

fn state(settings: &Settings) -> Arc<State> {
    wait(settings.read()).expect("it is read")
}

fn put(store: &Arc<dyn Store>, key: &str, value: &[u8]) {
    // As the change of another life would: whoever has read before reads anew.
    let ops = vec![Op::put(key, value), Op::put(crate::settings::GUARD_KEY, "")];
    wait(store.commit(Transaction::always(ops))).expect("it is written");
}

fn lies(store: &Arc<dyn Store>, key: &str) -> Option<String> {
    let found = wait(store.range(Selection::key(key))).expect("it is read");
    found.kvs.first().map(|kv| String::from_utf8(kv.value.clone()).expect("it is text"))
}

fn said(result: Result<(), SettingsError>) -> String {
    result.expect_err("it is refused").to_string()
}

/// Arrays have them: what is written so is to be read by all versions that come.
#[test]
fn records_lie_in_the_store_as_they_always_have() {
    let (settings, store) = settings();
    wait(settings.depart(&departure(0x1f, Stage::Leaving))).unwrap();
    let of_stage = |stage: &str| {
        let group = group();
        let begin = format!(
            r#"{{"version":1,"value":{{"id":"{ID}","group":"{group}","volume":31,"name":"vm","#
        );
        let end = format!(
            r#""from":1,"to":2,"to_name":"right","serial":"FEDCBA9876543210-V1F","iqns":["iqn.x:vm"],"stage":"{stage}"}}}}"#
        );
        begin + &end
    };
    assert_eq!(lies(&store, "departures/0000001f"), Some(of_stage("leaving")));
    wait(settings.depart(&departure(0x1f, Stage::Gone))).unwrap();
    assert_eq!(lies(&store, "departures/0000001f"), Some(of_stage("gone")));

    arrive(&settings, 0x20).unwrap();
    let wanted = format!(
        r#"{{"version":1,"value":{{"id":"{ID}","group":"{}","volume":32,"name":"vm","from":1,"from_name":"left","serial":"0123456789abcdef","online":true}}}}"#,
        group()
    );
    assert_eq!(lies(&store, &format!("arrivals/{ID}")), Some(wanted));
    let wanted = r#"{"version":1,"value":{"prefix":"iqn.x","serial":"S-V1"}}"#;
    assert_eq!(lies(&store, "adopted/00000020").as_deref(), Some(wanted));

    let state = state(&settings);
    let left = state.departures[&0x1f].as_ref().expect("it reads");
    assert_eq!(*left, departure(0x1f, Stage::Gone));
    assert_eq!(*state.arrivals[&id(ID)].as_ref().expect("it reads"), arrival(0x20));
    assert_eq!(*state.adopted[&0x20].as_ref().expect("it reads"), adopted());
}

/// Arrays have those that were written before the other member was named in them.
#[test]
fn records_without_the_name_of_the_other_member_are_read_and_written_as_they_are() {
    let (settings, store) = settings();
    let begin = |volume: u32| {
        let group = group();
        format!(
            r#"{{"version":1,"value":{{"id":"{ID}","group":"{group}","volume":{volume},"name":"vm","#
        )
    };
    let leaves = begin(31) + r#""from":1,"to":2,"iqns":["iqn.x:vm"],"stage":"leaving"}}"#;
    let comes = begin(32) + r#""from":1,"online":true}}"#;
    put(&store, "departures/0000001f", leaves.as_bytes());
    put(&store, &format!("arrivals/{ID}"), comes.as_bytes());
    let read = state(&settings);
    let (to_name, serial) = (String::new(), String::new());
    let old = Departure { to_name, serial, ..departure(31, Stage::Leaving) };
    assert_eq!(*read.departures[&31].as_ref().expect("it reads"), old);
    let arrived = Arrival { from_name: String::new(), serial: String::new(), ..arrival(32) };
    assert_eq!(*read.arrivals[&id(ID)].as_ref().expect("it reads"), arrived);
    wait(settings.depart(&Departure { stage: Stage::Gone, ..old })).expect("it goes on");
    let gone = leaves.replace("leaving", "gone");
    assert_eq!(lies(&store, "departures/0000001f"), Some(gone));
}

#[test]
fn each_of_them_wants_a_store() {
    let (settings, _) = settings();
    assert!(state(&settings).is_empty());
    wait(settings.depart(&departure(7, Stage::Leaving))).unwrap();
    assert!(!state(&settings).is_empty(), "else it would be stored nowhere");
    wait(settings.forget_departure(7)).unwrap();
    assert!(state(&settings).is_empty());
    arrive(&settings, 8).unwrap();
    assert!(!state(&settings).is_empty());
}

#[test]
fn all_that_hosts_rely_on_comes_in_one_transaction() {
    let (settings, store) = settings();
    let revision = |key: &str| {
        let found = wait(store.range(Selection::key(key))).expect("it is read");
        found.kvs.first().map(|kv| kv.mod_revision)
    };
    arrive(&settings, 7).unwrap();
    let places = units().into_keys().map(|key| key.place());
    let keys = ["volumes/00000007", "adopted/00000007"].map(str::to_owned).into_iter();
    let written = revision(&format!("arrivals/{ID}"));
    assert!(written.is_some());
    for key in keys.chain(places) {
        assert_eq!(revision(&key), written, "{key}");
    }
    assert_eq!(state(&settings).rule(7), Rule::Records { records: Vec::new(), shared: true });
    let kept = wait(settings.units()).unwrap().into_iter();
    let kept: Units = kept.map(|(key, image)| (key, image.expect("it reads"))).collect();
    assert_eq!(kept, units());

    // The destination is told once more to prepare; and then that the volume is its own.
    arrive(&settings, 7).unwrap();
    wait(settings.forget_arrival(&id(ID))).unwrap();
    wait(settings.forget_arrival(&id(ID))).expect("whoever asks again has it done");
    let state = state(&settings);
    assert!(state.arrivals.is_empty() && state.adopted.contains_key(&7), "it has its name");
    assert_eq!(state.rule(7), Rule::Records { records: Vec::new(), shared: true });
}

#[test]
fn a_volume_leaves_by_one_move_and_what_is_gone_does_not_come_back() {
    let (settings, _) = settings();
    let wanted = "volume 'vm' moves to another member already: wait until that move has ended";
    wait(settings.depart(&departure(7, Stage::Leaving))).unwrap();
    wait(settings.depart(&departure(7, Stage::Leaving))).expect("it is asked again");
    let id = id("ffeeddccbbaa99887766554433221100");
    let other = Departure { id, ..departure(7, Stage::Leaving) };
    assert_eq!(said(wait(settings.depart(&other))), wanted);
    wait(settings.depart(&departure(8, Stage::Leaving))).expect("another volume may leave");
    wait(settings.depart(&departure(7, Stage::Gone))).unwrap();
    assert_eq!(said(wait(settings.depart(&departure(7, Stage::Leaving)))), wanted);
    let left = state(&settings).departures[&7].clone().expect("it reads");
    assert_eq!(left, departure(7, Stage::Gone));
    wait(settings.forget_departure(7)).unwrap();
    wait(settings.depart(&other)).expect("it may leave again");
}

/// A volume of which a later version has stored that it leaves may be another member's.
#[test]
fn what_a_later_version_wrote_is_not_written_over_and_not_forgotten() {
    let (settings, store) = settings();
    let arrival_key = format!("arrivals/{ID}");
    let all = ["departures/00000007", arrival_key.as_str(), "adopted/00000007"];
    for key in all {
        put(&store, key, LATER);
    }
    let read = state(&settings);
    assert!(read.departures[&7].is_err() && read.arrivals[&id(ID)].is_err());
    assert!(read.adopted[&7].is_err() && !read.is_empty());
    assert!(read.unreadable.is_empty(), "each is said where its volume is");

    let later = "was stored in version 2, and this version of drystone knows 1";
    let refused = [
        wait(settings.depart(&departure(7, Stage::Leaving))),
        wait(settings.forget_departure(7)),
        arrive(&settings, 9),
        wait(settings.forget_arrival(&id(ID))),
    ];
    for refused in refused.map(said) {
        assert!(refused.contains(later), "{refused}");
    }
    for key in all {
        assert_eq!(lies(&store, key).map(String::into_bytes), Some(LATER.to_vec()), "{key}");
    }
    assert_eq!(lies(&store, "volumes/00000009"), None, "nothing of it was stored");
}

#[test]
fn keys_that_no_version_writes_mean_nothing() {
    let (settings, store) = settings();
    for key in ["departures/x", "arrivals/x", "adopted/", "arrivals/"] {
        put(&store, key, LATER);
    }
    assert!(state(&settings).is_empty());
}

#[test]
fn what_is_stored_of_a_volume_goes_with_it() {
    let (settings, _) = settings();
    arrive(&settings, 7).unwrap();
    wait(settings.forget_arrival(&id(ID))).unwrap();
    wait(settings.depart(&departure(8, Stage::Gone))).unwrap();
    assert_eq!(wait(settings.retain_volumes(|volume| [7, 8].contains(&volume))).unwrap(), 0);
    // Who may use it, what it is known by, and that the other one has left.
    assert_eq!(wait(settings.retain_volumes(|volume| volume == 9)).unwrap(), 3);
    assert!(state(&settings).is_empty());
}

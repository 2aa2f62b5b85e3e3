//! What is stored of spread volumes: as it lies in the store, that it goes one way, and that nothing which does not read is
//! written over.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::membership::GroupId;
use crate::ownership::MemberId;
use crate::secrets::{KeySource, Vault};
use crate::spread::{PATTERN_MAX, SLICES_MAX, Seat, SliceSet, hidden_name};
use crate::store::suite::wait;
use crate::store::{Embedded, Options, Place, Store, Transaction};

const LATER: &[u8] = br#"{"version":2,"value":{}}"#;

fn settings() -> (Settings, Arc<dyn Store>) {
    let clock = Arc::new(|| Duration::ZERO);
    let store = Embedded::open(Place::Memory, clock, Options::default()).expect("it opens");
    let store: Arc<dyn Store> = Arc::new(store);
    let vault = Vault::without_key(KeySource::File("/nowhere".into()));
    (Settings::new(store.clone(), vault), store)
}

fn group() -> GroupId {
    "0".repeat(32).parse().expect("it is one")
}

fn spread_id() -> SpreadId {
    "a".repeat(32).parse().expect("it is one")
}

fn slice_id(digit: &str) -> SliceId {
    digit.repeat(32).parse().expect("it is one")
}

fn spread() -> SpreadRecord {
    let seat = |digit, member| Seat { slice: slice_id(digit), member: MemberId(member) };
    SpreadRecord {
        id: spread_id(),
        group: group(),
        name: "vm".to_owned(),
        size_bytes: 1 << 30,
        page_bytes: 16 << 20,
        pattern: vec![0, 1].try_into().expect("it is one"),
        seats: vec![seat("1", 1), seat("2", 5)],
        stage: SpreadStage::Making,
    }
}

fn slice() -> SliceRecord {
    SliceRecord {
        id: slice_id("2"),
        spread: spread_id(),
        group: group(),
        me: MemberId(5),
        home: MemberId(1),
        name: "vm".to_owned(),
        volume: hidden_name(&spread_id()),
        size_bytes: 1 << 30,
        stage: SliceStage::Making,
    }
}

fn at(stage: SpreadStage) -> SpreadStanding {
    SpreadStanding { size_bytes: 1 << 30, stage }
}

fn going(gone: &[u8]) -> SpreadStanding {
    at(SpreadStage::Going { gone: gone.to_vec().try_into().expect("they are slices") })
}

fn put(store: &Arc<dyn Store>, key: &str, value: &[u8]) {
    let ops = vec![Op::put(key, value), Op::put(crate::settings::GUARD_KEY, "")];
    wait(store.commit(Transaction::always(ops))).expect("it is written");
}

fn lies(store: &Arc<dyn Store>, key: &str) -> Option<String> {
    let found = wait(store.range(Selection::key(key))).expect("it is read");
    found.kvs.first().map(|kv| String::from_utf8(kv.value.clone()).expect("it is text"))
}

/// Arrays have them: what is written so is to be read by all versions that come.
#[test]
fn records_lie_in_the_store_as_they_always_have() {
    let (settings, store) = settings();
    wait(settings.prepare_spread(&spread())).expect("it is stored");
    let (id, one, two) = ("a".repeat(32), "1".repeat(32), "2".repeat(32));
    let lies_as = |stage: &str| {
        let begin = format!(r#"{{"version":1,"value":{{"id":"{id}","group":"{}","#, group());
        let dealt = r#""name":"vm","size_bytes":1073741824,"page_bytes":16777216,"pattern":[0,1],"#;
        let seats = format!(
            r#""seats":[{{"slice":"{one}","member":1}},{{"slice":"{two}","member":5}}],"stage":{stage}}}}}"#
        );
        Some(begin + dealt + &seats)
    };
    let key = format!("spreads/{id}");
    assert_eq!(lies(&store, &key), lies_as(r#""making""#));
    for (standing, stage) in [
        (at(SpreadStage::Whole), r#""whole""#),
        (at(SpreadStage::Growing { to_bytes: 1 << 31 }), r#"{"growing":{"to_bytes":2147483648}}"#),
        (going(&[]), r#"{"going":{"gone":[]}}"#),
        (going(&[1, 0]), r#"{"going":{"gone":[0,1]}}"#),
    ] {
        wait(settings.note_spread(&spread_id(), standing)).expect("it is stored");
        assert_eq!(lies(&store, &key), lies_as(stage));
        let state = wait(settings.read()).expect("it is read");
        let read = state.spreads[&spread_id()].as_ref().expect("it reads");
        assert_eq!(*read, spread().with(standing));
        assert!(!state.is_empty(), "they want a store");
    }
    wait(settings.prepare_slice(&slice())).expect("it is stored");
    let wanted = format!(
        r#"{{"version":1,"value":{{"id":"{two}","spread":"{id}","group":"{}","me":5,"home":1,"name":"vm","volume":".slice-{id}","size_bytes":1073741824,"stage":"making"}}}}"#,
        group()
    );
    assert_eq!(lies(&store, &format!("slices/{two}")), Some(wanted));
    let state = wait(settings.read()).expect("it is read");
    assert_eq!(*state.slices[&slice_id("2")].as_ref().expect("it reads"), slice());
}

#[test]
fn a_volume_is_stored_once_and_goes_one_way() {
    let (settings, _) = settings();
    let note = |standing| wait(settings.note_spread(&spread_id(), standing));
    let is_refused = |result| matches!(result, Err(SettingsError::SpreadChanged));
    assert!(is_refused(note(at(SpreadStage::Whole))), "nothing is stored of it");
    wait(settings.prepare_spread(&spread())).expect("it is stored");
    let again = wait(settings.prepare_spread(&spread())).expect_err("it is there");
    assert!(matches!(again, SettingsError::SpreadThere), "{again}");
    assert!(is_refused(wait(settings.forget_spread(&spread_id()))), "its slices may be there");
    note(at(SpreadStage::Whole)).expect("it is stored");
    note(at(SpreadStage::Whole)).expect("it is so");
    note(going(&[1])).expect("it is stored");
    for back in [at(SpreadStage::Whole), at(SpreadStage::Making), going(&[])] {
        assert!(is_refused(note(back)), "{back:?}");
    }
    assert!(is_refused(wait(settings.forget_spread(&spread_id()))), "one may be there");
    note(going(&[0, 1])).expect("it is stored");
    wait(settings.forget_spread(&spread_id())).expect("nothing is left");
    wait(settings.forget_spread(&spread_id())).expect("whoever asks again has it done");
    assert!(wait(settings.read()).expect("it is read").is_empty());
}

#[test]
fn a_slice_is_stored_once_and_goes_one_way() {
    let (settings, _) = settings();
    let id = slice_id("2");
    let note =
        |size_bytes, stage| wait(settings.note_slice(&id, SliceStanding { size_bytes, stage }));
    let is_refused = |result| matches!(result, Err(SettingsError::SpreadChanged));
    assert!(is_refused(note(1 << 30, SliceStage::Here)), "nothing is stored of it");
    wait(settings.prepare_slice(&slice())).expect("it is stored");
    let again = wait(settings.prepare_slice(&slice())).expect_err("it is there");
    assert!(matches!(again, SettingsError::SpreadThere), "{again}");
    note(1 << 30, SliceStage::Here).expect("it is stored");
    note(1 << 31, SliceStage::Here).expect("it is stored");
    assert!(is_refused(note(1 << 30, SliceStage::Here)), "it does not get smaller");
    assert!(is_refused(wait(settings.forget_slice(&id))), "its volume is there");
    note(1 << 31, SliceStage::Going).expect("it is stored");
    assert!(is_refused(note(1 << 31, SliceStage::Here)));
    wait(settings.forget_slice(&id)).expect("its volume is gone");
    wait(settings.forget_slice(&id)).expect("whoever asks again has it done");
    assert!(wait(settings.read()).expect("it is read").is_empty());
}

/// A volume of which a later version has stored something may have slices that this one does not know of.
#[test]
fn what_does_not_read_is_not_written_over_and_not_forgotten() {
    let (settings, store) = settings();
    let (spread_key, slice_key) = (spread_key(&spread_id()), slice_key(&slice_id("2")));
    // One that reads, and cannot be.
    let unsound = String::from_utf8(spread().encode()).expect("it is text");
    let unsound = unsound.replace(r#""pattern":[0,1]"#, r#""pattern":[0,0]"#);
    for (damaged, why) in [(LATER, "stored in version 2"), (unsound.as_bytes(), "cannot be read")] {
        put(&store, &spread_key, damaged);
        put(&store, &slice_key, damaged);
        let read = wait(settings.read()).expect("it is read");
        assert!(read.spreads[&spread_id()].is_err() && read.slices[&slice_id("2")].is_err());
        assert!(!read.is_empty() && read.unreadable.is_empty(), "each is said where it is");
        let standing = SliceStanding { size_bytes: 1 << 30, stage: SliceStage::Going };
        for refused in [
            wait(settings.note_spread(&spread_id(), going(&[0, 1]))),
            wait(settings.forget_spread(&spread_id())),
            wait(settings.note_slice(&slice_id("2"), standing)),
            wait(settings.forget_slice(&slice_id("2"))),
        ] {
            let said = refused.expect_err("it is refused").to_string();
            assert!(said.contains(why), "{said}");
        }
        for prepared in
            [wait(settings.prepare_spread(&spread())), wait(settings.prepare_slice(&slice()))]
        {
            assert!(matches!(prepared, Err(SettingsError::SpreadThere)), "{prepared:?}");
        }
        for key in [&spread_key, &slice_key] {
            assert_eq!(lies(&store, key).map(String::into_bytes), Some(damaged.to_vec()), "{key}");
        }
    }
}

#[test]
fn keys_that_no_version_writes_mean_nothing() {
    let (settings, store) = settings();
    for key in ["spreads/", "spreads/x", "slices/", "slices/x"] {
        put(&store, key, LATER);
    }
    assert!(wait(settings.read()).expect("it is read").is_empty());
}

/// Small ones share pages of the store.
#[test]
fn the_largest_record_is_a_small_one() {
    let seat = |number: usize| Seat {
        slice: format!("{number:032x}").parse().expect("it is one"),
        member: MemberId(u16::MAX - number as u16),
    };
    let places = (0..PATTERN_MAX).map(|place| (SLICES_MAX - 1 - place % SLICES_MAX) as u8);
    let (size_bytes, to_bytes) = (u64::MAX - 1, u64::MAX);
    let gone = SliceSet::first(SLICES_MAX);
    for stage in [SpreadStage::Growing { to_bytes }, SpreadStage::Going { gone }] {
        let record = SpreadRecord {
            name: "x".repeat(63),
            pattern: places.clone().collect::<Vec<_>>().try_into().expect("it is one"),
            seats: (0..SLICES_MAX).map(seat).collect(),
            ..spread()
        };
        let record = record.with(SpreadStanding { size_bytes, stage });
        let len = record.encode().len();
        assert!(len < 1900, "{len}");
        assert_eq!(SpreadRecord::decode(&record.encode()).expect("it reads"), record);
    }
}

//! What is stored of spread volumes: as it lies in the store, that it goes one way, and that nothing which does not read is
//! written over.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::membership::GroupId;
use crate::ownership::MemberId;
use crate::secrets::{KeySource, Vault};
use crate::spread::{PATTERN_MAX, SLICES_MAX, Seat, SliceSet, check_begun, hidden_name};
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
        home_array: "c0ffee".to_owned(),
        name: "vm".to_owned(),
        size_bytes: 1 << 30,
        page_bytes: 16 << 20,
        pattern: vec![0, 1].try_into().expect("it is one"),
        seats: vec![seat("1", 1), seat("2", 5)],
        openings: vec![Openings::default(); 2],
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
        home_array: "c0ffee".to_owned(),
        dealt: spread().dealt(),
        name: "vm".to_owned(),
        volume: hidden_name(&spread_id()),
        size_bytes: 1 << 30,
        begun: Opening::NEVER,
        opened: Opening::NEVER,
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
        let begin = begin + r#""home_array":"c0ffee","#;
        let dealt = r#""name":"vm","size_bytes":1073741824,"page_bytes":16777216,"pattern":[0,1],"#;
        let seats =
            format!(r#""seats":[{{"slice":"{one}","member":1}},{{"slice":"{two}","member":5}}],"#);
        let none = r#"{"opened":0,"begun":0}"#;
        let seats = seats + &format!(r#""openings":[{none},{none}],"stage":{stage}}}}}"#);
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
    let begin = format!(
        r#"{{"version":1,"value":{{"id":"{two}","spread":"{id}","group":"{}","me":5,"home":1,"home_array":"c0ffee","#,
        group()
    );
    let dealt = format!(
        r#""dealt":{{"page_bytes":16777216,"pattern":[0,1],"seats":[{{"slice":"{one}","member":1}},{{"slice":"{two}","member":5}}]}},"#
    );
    let end = format!(
        r#""name":"vm","volume":".slice-{id}","size_bytes":1073741824,"begun":0,"opened":0,"stage":"making"}}}}"#
    );
    let wanted = begin + &dealt + &end;
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

/// They may be of volumes that have slices elsewhere.
#[test]
fn keys_that_no_version_writes_are_not_passed_over() {
    for (key, is_of_home) in
        [("spreads/", true), ("spreads/x/y", true), ("slices/", false), ("slices/x", false)]
    {
        let (settings, store) = settings();
        put(&store, key, LATER);
        let read = wait(settings.read()).expect("it is read");
        assert!(!read.is_empty(), "{key} wants a store");
        assert_eq!(read.all_spreads().is_none(), is_of_home, "{key}");
        let said = read.unread_spreads().expect("it is said");
        assert!(said.starts_with(&format!("'{key}' is stored of a spread volume")), "{said}");
    }
}

#[test]
fn a_record_of_another_number_than_its_key_is_damaged() {
    let (settings, store) = settings();
    let (other, two) = ("b".repeat(32), slice_id("3"));
    put(&store, &format!("spreads/{other}"), &spread().encode());
    put(&store, &slice_key(&two), &slice().encode());
    let read = wait(settings.read()).expect("it is read");
    let said = read.spreads.values().map(|it| it.as_ref().expect_err("it is damaged").to_string());
    let wanted = format!("it is number {}, and is stored as {other}", spread_id());
    assert!(said.into_iter().all(|said| said.ends_with(&wanted)));
    assert!(read.slices[&two].is_err() && read.unread_spreads().is_some());
}

#[test]
fn what_cannot_be_is_not_stored() {
    let (settings, store) = settings();
    let is_refused = |result| matches!(result, Err(SettingsError::SpreadUnsound(_)));
    let unsound = SpreadRecord { size_bytes: 0, ..spread() };
    assert!(is_refused(wait(settings.prepare_spread(&unsound))));
    let to_itself = SliceRecord { id: slice_id("1"), me: MemberId(1), ..slice() };
    assert!(is_refused(wait(settings.prepare_slice(&to_itself))));
    assert!(is_refused(wait(settings.prepare_slice(&SliceRecord { size_bytes: 0, ..slice() }))));
    assert!(wait(settings.read()).expect("it is read").is_empty());
    wait(settings.prepare_spread(&spread())).expect("it is stored");
    let gone = going(&[5]);
    assert!(is_refused(wait(settings.note_spread(&spread_id(), gone))), "it has no such slice");
    let size = spread().encode();
    assert_eq!(lies(&store, &spread_key(&spread_id())).map(String::into_bytes), Some(size));
}

/// One damaged record would be in the way of every member for ever.
#[test]
fn what_is_damaged_goes_by_a_word_and_what_is_of_a_later_version_stays() {
    let (settings, store) = settings();
    let (spread_key, slice_key) = (spread_key(&spread_id()), slice_key(&slice_id("2")));
    let discard = || {
        let spread = wait(settings.discard_spread(&spread_id()));
        (spread, wait(settings.discard_slice(&slice_id("2"))))
    };
    put(&store, &spread_key, LATER);
    put(&store, &slice_key, LATER);
    let both = discard();
    assert!(matches!(both.0, Err(SettingsError::Unreadable(_))), "{both:?}");
    assert!(matches!(both.1, Err(SettingsError::Unreadable(_))), "{both:?}");
    let later = wait(settings.rebuild_spread(&spread().with(at(SpreadStage::Whole))));
    assert!(matches!(later, Err(SettingsError::SpreadThere)), "{later:?}");

    put(&store, &spread_key, &spread().encode());
    put(&store, &slice_key, &slice().encode());
    let both = discard();
    assert!(matches!(both.0, Err(SettingsError::SpreadChanged)), "{both:?}");
    assert!(matches!(both.1, Err(SettingsError::SpreadChanged)), "{both:?}");

    put(&store, &spread_key, b"x");
    put(&store, &slice_key, b"x");
    assert!(wait(settings.read()).expect("it is read").unread_spreads().is_some());
    for both in [discard(), discard()] {
        assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
    }
    assert!(wait(settings.read()).expect("it is read").is_empty());
}

#[test]
fn a_volume_that_was_rebuilt_is_stored_over_nothing_that_reads() {
    let (settings, store) = settings();
    let whole = spread().with(at(SpreadStage::Whole));
    put(&store, &spread_key(&spread_id()), b"x");
    wait(settings.rebuild_spread(&whole)).expect("nobody will ever read that");
    assert_eq!(
        wait(settings.read()).expect("it is read").spreads[&spread_id()].clone().ok(),
        Some(whole.clone())
    );
    let again = wait(settings.rebuild_spread(&whole));
    assert!(matches!(again, Err(SettingsError::SpreadThere)), "{again:?}");
}

#[test]
fn a_home_is_brought_forward_from_what_was_looked_at_alone() {
    let (settings, _) = settings();
    let whole = spread().with(at(SpreadStage::Whole));
    wait(settings.rebuild_spread(&whole)).expect("nothing is stored");
    let mut next = whole.clone();
    next.openings[1] = Openings::answered(Opening::NEVER.next(5));
    wait(settings.bring_forward(&whole, &next)).expect("it is stored");
    let again = wait(settings.bring_forward(&whole, &next));
    assert!(matches!(again, Err(SettingsError::SpreadChanged)), "{again:?}");
    next.openings.clear();
    let unsound = wait(settings.bring_forward(&whole, &next));
    assert!(matches!(unsound, Err(SettingsError::SpreadUnsound(_))), "{unsound:?}");
}

#[test]
fn openings_are_stored_at_both_before_anything_is_read_or_written() {
    let (settings, _) = settings();
    let (spread_id, slice_id) = (spread_id(), slice_id("2"));
    let is_refused = |result: &Result<_, _>| matches!(result, Err(SettingsError::SpreadChanged));
    let begin = |slice, drawn| wait(settings.begin_opening((&spread_id, slice), drawn));
    wait(settings.prepare_spread(&spread())).expect("it is stored");
    wait(settings.prepare_slice(&slice())).expect("it is stored");
    assert!(is_refused(&begin(1, 7).map(drop)), "it is not whole");
    let (whole, here) = (at(SpreadStage::Whole), SliceStage::Here);
    wait(settings.note_spread(&spread_id, whole)).expect("it is stored");
    let never = wait(settings.note_slice_begun(&slice_id, Opening::NEVER.next(1)));
    assert!(is_refused(&never), "it is not there");
    let here = SliceStanding { size_bytes: 1 << 30, stage: here };
    wait(settings.note_slice(&slice_id, here)).expect("it is stored");

    let begun = begin(1, 7).expect("it is stored");
    assert_eq!(begin(1, 8).expect("it is stored"), begun, "the same until it is answered");
    assert!(is_refused(&begin(2, 9).map(drop)), "there is no such slice");
    let state = wait(settings.read()).expect("it is read");
    let record = state.slices[&slice_id].as_ref().expect("it reads");
    let opening = check_begun(record, begun).expect("they are of one time");
    wait(settings.note_slice_begun(&slice_id, opening)).expect("it is stored");
    wait(settings.note_slice_begun(&slice_id, opening)).expect("whoever says so again has it done");
    let older = wait(settings.note_slice_begun(&slice_id, Opening::NEVER));
    assert!(is_refused(&older), "another one was begun since");
    let other = wait(settings.note_slice_opened(&slice_id, opening.next(1)));
    assert!(is_refused(&other), "another one was begun");
    let other = wait(settings.note_opened((&spread_id, 1), opening.next(1)));
    assert!(is_refused(&other), "another one was begun");
    wait(settings.note_opened((&spread_id, 1), opening)).expect("it is stored");
    wait(settings.note_slice_opened(&slice_id, opening)).expect("it is stored");
    let state = wait(settings.read()).expect("it is read");
    let record = state.slices[&slice_id].as_ref().expect("it reads");
    assert!(record.was_used() && record.begun == opening && record.opened == opening);
    let known = state.spreads[&spread_id].as_ref().expect("it reads").openings.clone();
    assert_eq!(known, [Openings::default(), Openings::answered(opening)]);
    assert_ne!(begin(1, 9).expect("it is stored"), begun, "the next one");
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
    let mut last = Opening::NEVER;
    for _ in 0..100 {
        last = last.next(u32::MAX);
    }
    let many = Openings::answered(last).begin(u32::MAX);
    for stage in [SpreadStage::Growing { to_bytes }, SpreadStage::Going { gone }] {
        let record = SpreadRecord {
            name: "x".repeat(63),
            pattern: places.clone().collect::<Vec<_>>().try_into().expect("it is one"),
            seats: (0..SLICES_MAX).map(seat).collect(),
            openings: vec![many; SLICES_MAX],
            home_array: "f".repeat(32),
            ..spread()
        };
        let record = record.with(SpreadStanding { size_bytes, stage });
        let len = record.encode().len();
        assert!(len < 2900, "{len}");
        assert_eq!(SpreadRecord::decode(&record.encode()).expect("it reads"), record);
    }
}

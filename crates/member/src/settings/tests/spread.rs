//! What is stored of spread volumes is there after any end of the process, and while it is not known nothing is said to
//! have gone.

use group::membership::{GroupId, SliceId, SpreadId};
use group::ownership::MemberId;
use group::spread::{
    Dealt, HomeSays, Opening, Openings, PAGE_BYTES, Question, Seat, SliceRecord, SliceStage,
    SliceStanding, SpreadRecord, SpreadStage, SpreadStanding, hidden_name,
};

use super::*;

const SIZE_BYTES: u64 = 1 << 30;

const HOME: MemberId = MemberId(1);

/// That of another member.
const ARRAY: &str = "c0ffee";

fn group() -> GroupId {
    "0".repeat(32).parse().expect("it is one")
}

fn spread_id() -> SpreadId {
    "a".repeat(32).parse().expect("it is one")
}

fn slice_id(digit: &str) -> SliceId {
    digit.repeat(32).parse().expect("it is one")
}

fn seat(digit: &str, member: u16) -> Seat {
    Seat { slice: slice_id(digit), member: MemberId(member) }
}

fn spread(stage: SpreadStage) -> SpreadRecord {
    SpreadRecord {
        id: spread_id(),
        group: group(),
        home_array: ARRAY.to_owned(),
        name: "vm".to_owned(),
        size_bytes: SIZE_BYTES,
        page_bytes: PAGE_BYTES,
        pattern: vec![0, 1].try_into().expect("it is one"),
        seats: vec![seat("1", 1), seat("2", 2)],
        openings: vec![Openings::default(); 2],
        stage,
    }
}

/// Of a volume of another home.
fn slice(stage: SliceStage) -> SliceRecord {
    let spread: SpreadId = "b".repeat(32).parse().expect("it is one");
    SliceRecord {
        id: slice_id("3"),
        volume: hidden_name(&spread),
        spread,
        group: group(),
        me: HOME,
        home: MemberId(2),
        home_array: ARRAY.to_owned(),
        dealt: Dealt {
            page_bytes: PAGE_BYTES,
            pattern: vec![0, 1].try_into().expect("it is one"),
            seats: vec![seat("4", 2), seat("3", 1)],
        },
        name: "other".to_owned(),
        size_bytes: SIZE_BYTES,
        begun: Opening::NEVER,
        opened: Opening::NEVER,
        stage,
    }
}

fn says(settings: &MemberSettings, has_own_slice: bool) -> HomeSays {
    let question = Question {
        group: group(),
        home: HOME,
        home_array: settings.array.info().id,
        spread: spread_id(),
        slice: slice_id("2"),
    };
    settings.says_of_slice(&question, Some((&group(), HOME)), has_own_slice)
}

fn keep(rig: &Rig) {
    rig.with(async |member| {
        let settings = member.settings();
        assert_eq!(says(settings, false), HomeSays::Gone, "nothing is there yet");
        settings.prepare_spread(&spread(SpreadStage::Making)).await.expect("it is stored");
        settings.prepare_slice(&slice(SliceStage::Making)).await.expect("it is stored");
    });
}

#[test]
fn what_is_spread_is_known_after_any_end_of_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    keep(&rig);
    drop(rig);
    let rig = Rig::start(dir.path(), &data);
    let stage = SpreadStage::Going { gone: vec![0, 1].try_into().expect("they are slices") };
    rig.with(async move |member| {
        let settings = member.settings();
        assert_eq!(settings.spreads(), [spread(SpreadStage::Making)]);
        assert_eq!(settings.slices(), [slice(SliceStage::Making)]);
        assert_eq!(settings.slice(&slice_id("2")), Ok(None), "that is another member's");
        assert_eq!(says(settings, true), HomeSays::Have(SpreadStage::Making));
        let standing = |stage| SpreadStanding { size_bytes: SIZE_BYTES, stage };
        settings.note_spread(&spread_id(), standing(stage)).await.expect("it is stored");
        let here = SliceStanding { size_bytes: SIZE_BYTES, stage: SliceStage::Here };
        settings.note_slice(&slice_id("3"), here).await.expect("it is stored");
        let back = settings.note_spread(&spread_id(), standing(SpreadStage::Whole)).await;
        assert!(back.is_err(), "it goes");
    });
    drop(rig);
    let rig = Rig::start(dir.path(), &data);
    rig.with(async move |member| {
        let settings = member.settings();
        assert_eq!(settings.spread(&spread_id()), Some(spread(stage)));
        assert_eq!(settings.slice(&slice_id("3")), Ok(Some(slice(SliceStage::Here))));
        assert_eq!(settings.unknown_spreads(), None);
        assert!(settings.forget_slice(&slice_id("3")).await.is_err(), "it is here");
        let going = SliceStanding { size_bytes: SIZE_BYTES, stage: SliceStage::Going };
        settings.note_slice(&slice_id("3"), going).await.expect("it is stored");
        settings.forget_slice(&slice_id("3")).await.expect("it is stored");
        settings.forget_spread(&spread_id()).await.expect("it is stored");
        assert!(settings.spreads().is_empty() && settings.slices().is_empty());
        assert_eq!(says(settings, false), HomeSays::Gone);
        assert_eq!(says(settings, true), HomeSays::Unread, "its own slice goes first");
    });
    rig.stop();
}

#[test]
fn while_it_is_not_known_what_is_stored_nothing_has_gone_and_everything_is_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    keep(&rig);
    rig.with(async |member| {
        let settings = member.settings();
        let found = settings.in_the_way(MemberId(2), &group());
        assert_eq!(found.home_of.into_iter().collect::<Vec<_>>(), ["other"]);
        assert_eq!(
            (found.slice_of.into_iter().collect::<Vec<_>>(), found.unread),
            (vec!["vm".to_owned()], None)
        );
        assert!(settings.in_the_way(MemberId(3), &group()).is_nothing());

        let later = || group::record::SettingError::Later { what: "it", found: 2, known: 1 };
        let known = settings.state().expect("it is known");
        let mut state = State::clone(&known);
        state.spreads.insert(spread_id(), Err(later()));
        state.slices.insert(slice_id("3"), Err(later()));
        settings.state.replace(Arc::new(state));
        assert_eq!(says(settings, false), HomeSays::Unread);
        assert_eq!(settings.slice(&slice_id("3")), Err(later().to_string()));
        assert_eq!(settings.unknown_spreads(), Some(later().to_string()));
        assert_eq!(settings.in_the_way(MemberId(3), &group()).unread, Some(later().to_string()));

        let _turn = settings.hold().await;
        settings.fail_unread().await;
        assert_eq!(says(settings, false), HomeSays::Unread);
        assert!(settings.slice(&slice_id("3")).is_err() && settings.unknown_spreads().is_some());
        assert!(!settings.in_the_way(MemberId(3), &group()).is_nothing());
    });
}

/// Settings were given up, or are written over: the slices that there are tell of volumes, and nothing tells of which.
#[test]
fn a_slice_of_which_nothing_is_stored_is_in_the_way_and_one_that_is_not_read_yet_is_not_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    keep(&rig);
    rig.with(async |member| {
        let settings = member.settings();
        let (ours, strange) =
            (hidden_name(&spread_id()), hidden_name(&"e".repeat(32).parse().unwrap()));
        assert!(settings.reserves(&ours) && settings.reserves(&strange));
        let array = member.array();
        let make = async |name: &str| {
            let spec = array::api::VolumeSpec {
                name: name.to_owned(),
                size_bytes: 8 << 20,
                level: None,
                thick: false,
                block_bytes: 4096,
                cache: array::api::Cache::Durable,
                read_ahead_bytes: None,
                cached: true,
            };
            array.create_volume(spec).await.expect("it is made");
        };
        make(&ours).await;
        assert!(settings.in_the_way(MemberId(3), &group()).is_nothing());
        make(&strange).await;
        let found = settings.in_the_way(MemberId(3), &group());
        assert!(found.unread.is_some_and(|why| why.contains(&strange)));
        assert_eq!(settings.unknown_spreads(), None, "what is stored is known");

        // They can be read again, and are not yet.
        settings.is_read.set(false);
        assert!(settings.state().is_err() && settings.slice(&slice_id("3")).is_err());
        assert_eq!(says(settings, false), HomeSays::Unread);
        assert!(!settings.in_the_way(MemberId(3), &group()).is_nothing());
        let _turn = settings.hold().await;
        settings.fail_unread().await;
        assert!(settings.reopen().await && settings.state().is_ok());
    });
    rig.stop();
}

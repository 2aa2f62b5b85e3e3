//! What is stored of volumes that move is there after any end of the process, and what a later version stored of one
//! keeps it from everybody.

use group::membership::{GroupId, MoveId};
use group::ownership::MemberId;
use group::settings::{
    Adopted, Arrival, Departure, Stage, UnitKey, UnitRecord, Units, VolumeSettings,
};

use super::*;

fn id() -> MoveId {
    "00112233445566778899aabbccddeeff".parse().expect("it is one")
}

fn group() -> GroupId {
    "0".repeat(32).parse().expect("it is one")
}

fn departure(stage: Stage) -> Departure {
    let (name, iqns) = ("a".to_owned(), vec!["iqn.x:a".to_owned()]);
    let (group, from, to) = (group(), MemberId(1), MemberId(2));
    let (volume, to_name, serial) = (7, String::new(), String::new());
    Departure { id: id(), group, volume, name, from, to, to_name, serial, iqns, stage }
}

fn arrival() -> Arrival {
    let (name, from) = ("b".to_owned(), MemberId(1));
    let (from_name, serial) = (String::new(), String::new());
    Arrival { id: id(), group: group(), volume: 9, name, from, from_name, serial, online: true }
}

fn adopted() -> Adopted {
    Adopted { prefix: "iqn.elsewhere".to_owned(), serial: "S-V1".to_owned() }
}

fn units(image: &[u8]) -> Units {
    let key = |record| UnitKey { serial: "S-V1".to_owned(), record };
    let reserved = Some(image.to_vec());
    Units::from([(key(UnitRecord::Reservations), reserved), (key(UnitRecord::Sanitize), None)])
}

fn arrive(rig: &Rig, image: &'static [u8]) -> Result<(), KeptError> {
    rig.with(async move |member| {
        let settings = VolumeSettings::default();
        member.settings().arrive(&arrival(), &settings, &adopted(), &units(image)).await
    })
}

fn depart(rig: &Rig, stage: Stage) {
    rig.with(async move |member| member.settings().depart(&departure(stage)).await)
        .expect("it is stored");
}

#[test]
fn what_moves_is_known_after_any_end_of_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    depart(&rig, Stage::Leaving);
    drop(rig);
    let rig = Rig::start(dir.path(), &data);
    rig.with(async |member| {
        let settings = member.settings();
        assert_eq!(settings.departure(7), Some(departure(Stage::Leaving)));
        assert_eq!((settings.departure(8), settings.arrivals()), (None, Vec::new()));
    });
    depart(&rig, Stage::Gone);
    arrive(&rig, IMAGE).expect("it is stored");
    assert_eq!(reserved(&rig, "S-V1").unwrap(), IMAGE, "it counts from now on");
    drop(rig);
    let rig = Rig::start(dir.path(), &data);
    assert_eq!(reserved(&rig, "S-V1").unwrap(), IMAGE);
    rig.with(async |member| {
        let settings = member.settings();
        assert_eq!(settings.departures(), [departure(Stage::Gone)]);
        assert_eq!(settings.arrivals(), [arrival()]);
        assert_eq!(settings.withheld(9), Some(Withheld::Arrives(arrival())));
        assert_eq!(settings.withheld(7), Some(Withheld::Leaves(departure(Stage::Gone))));
        assert!(settings.has_left(7) && !settings.has_left(9) && settings.has_moves());
        assert_eq!(settings.all_adopted(), BTreeMap::from([(9, adopted())]));
        assert_eq!(settings.units_of("S-V1").expect("it is known"), units(IMAGE));
        assert!(settings.units_of("S-V2").expect("it is known").is_empty());
        assert!(settings.all_adopted_read());
        settings.forget_arrival(&id()).await.expect("it is stored");
        settings.forget_arrival(&id()).await.expect("it is done already");
        settings.forget_departure(7).await.expect("it is stored");
        assert!(settings.departures().is_empty() && settings.arrivals().is_empty());
        assert!(!settings.has_moves());
        assert_eq!([7, 9].map(|volume| settings.withheld(volume)), [None, None]);
        assert_eq!(settings.all_adopted().get(&9), Some(&adopted()), "hosts know it by that");
        // There is no volume of that number.
        settings.forget_purged().await;
        assert_eq!(settings.all_adopted(), BTreeMap::new());
    });
    rig.stop();
}

/// What this version writes, with the version of the next one: a field that is not known would do as well.
#[test]
fn what_a_later_version_stored_of_a_move_keeps_its_volume_from_everybody() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    depart(&rig, Stage::Leaving);
    arrive(&rig, IMAGE).expect("it is stored");
    rig.with(async |member| {
        let settings = member.settings();
        let later = || group::record::SettingError::Later { what: "it", found: 2, known: 1 };
        let mut state = State::clone(&settings.state().expect("it is known"));
        state.departures.insert(7, Err(later()));
        state.adopted.insert(9, Err(later()));
        // What is said of its arrival reads.
        state.arrivals.clear();
        settings.state.replace(Arc::new(state));
        let why = Withheld::Unreadable(later().to_string());
        assert_eq!([7, 9].map(|volume| settings.withheld(volume)), [Some(why.clone()), Some(why)]);
        assert_eq!((settings.withheld(8), settings.all_adopted_read()), (None, false));
        assert!(!settings.has_left(7), "it is not known");
        assert!(settings.departures().is_empty() && settings.departure(7).is_none());
        assert!(settings.all_adopted().is_empty());
    });
    rig.stop();
}

#[test]
fn nothing_arrives_while_it_is_not_known_what_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    rig.create("a");
    rig.with(async |member| {
        let _turn = member.settings().hold().await;
        member.settings().fail().await;
    });
    let refused = arrive(&rig, IMAGE).unwrap_err().to_string();
    assert!(refused.contains("are not available"), "{refused}");
    rig.with(async |member| {
        assert!(member.settings().units_of("S-V1").is_err(), "something may be kept");
    });
}

#[test]
fn a_volume_arrives_with_reservations_only_where_there_is_room_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    rig.create("a");
    let large: &'static [u8] = &[7; 153 << 10];
    for number in 100..126 {
        save(&rig, &serial(&rig, number), Some(large)).expect("there is room");
    }
    let refused = arrive(&rig, large).unwrap_err();
    assert!(matches!(refused, KeptError::Full), "{refused}");
    rig.with(async |member| assert!(member.settings().arrivals().is_empty()));
    arrive(&rig, NEWER).expect("what is small has room always");
    rig.stop();
}

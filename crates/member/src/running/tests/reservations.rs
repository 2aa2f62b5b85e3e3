//! What hosts have reserved, and the end of it by an operator.

use super::{host, iqn, let_in};
use crate::access_request::AccessRequest;
use crate::events::Kind;
use crate::reply::{Answer, Reservations};
use crate::request::{Request, SnapshotRequest, VolumeRequest};
use crate::running::RequestError;
use crate::testing::{Host, Rig};

const VOLUME: &str = "v";

fn ask(rig: &Rig, request: VolumeRequest) -> Result<Reservations, RequestError> {
    rig.ask(Request::Volume(request)).map(|answer| match answer {
        Answer::Reservations(reservations) => *reservations,
        other => panic!("{other:?}"),
    })
}

fn show(rig: &Rig) -> Result<Reservations, RequestError> {
    ask(rig, VolumeRequest::Reservations { name: VOLUME.to_owned() })
}

fn clear(rig: &Rig) -> Result<Reservations, RequestError> {
    ask(rig, VolumeRequest::ClearReservations { name: VOLUME.to_owned() })
}

fn keys(of: &Reservations) -> Vec<(String, u64, bool)> {
    let registrants = of.info.registrants.iter();
    registrants.map(|one| (one.nexus.initiator.to_string(), one.key, one.is_holder)).collect()
}

/// What a host that is not let in any more has fenced off, no other host may clear: its key is its own, and they are not
/// registered. An operator does, and no restart brings it back.
#[test]
fn an_operator_ends_what_a_host_that_is_gone_has_reserved() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let (rig, portal) = Rig::start_for_all(home.path(), &data, None);
    rig.create(VOLUME);
    let target = iqn(&rig, VOLUME);
    for name in ["good", "evil"] {
        let_in(&rig, VOLUME, name);
    }
    let mut evil = Host::log_in(portal, &host("evil"), &target).expect("it is let in");
    evil.register(0x666);
    assert_eq!(evil.answer(), Some(0));
    evil.reserve(0x666);
    assert_eq!(evil.answer(), Some(0));
    let remove = AccessRequest::Remove { volume: VOLUME.to_owned(), number: 2 };
    rig.ask(Request::Access(remove)).expect("it is stored");
    assert_eq!(evil.test(), None, "it is let in no more");
    let mut good = Host::log_in(portal, &host("good"), &target).expect("it is let in");
    assert_eq!(good.write(), Some(24), "RESERVATION CONFLICT");

    let held = vec![(host("evil"), 0x666, true)];
    assert_eq!(keys(&show(&rig).expect("it is served")), held);
    assert_eq!(keys(&clear(&rig).expect("it is served")), []);
    assert_eq!(good.write(), Some(0), "it writes again");
    let told = rig.told(Kind::ReservationsCleared);
    let wanted = format!(
        "reservations of volume {VOLUME} were cleared by an operator: 1 registrations, held by {}",
        host("evil")
    );
    assert_eq!(told, [wanted]);
    clear(&rig).expect("there is nothing to clear");
    assert_eq!(rig.told(Kind::ReservationsCleared).len(), 1);

    let name = VOLUME.to_owned();
    rig.ask(Request::Volume(VolumeRequest::SetOnline { name, online: false })).expect("it goes");
    assert!(matches!(show(&rig), Err(RequestError::ReservationsAway(name)) if name == VOLUME));
    assert!(matches!(clear(&rig), Err(RequestError::ReservationsAway(_))));
    let name = VOLUME.to_owned();
    rig.ask(Request::Volume(VolumeRequest::SetOnline { name, online: true })).expect("it comes");
    assert_eq!(keys(&show(&rig).expect("it is served")), []);
    rig.stop();
    let rig = Rig::start(home.path(), &data);
    assert_eq!(keys(&show(&rig).expect("it is served")), [], "no restart brings it back");
    rig.stop();
}

/// A snapshot that is served is a target of its own: what is reserved there, its volume does not show.
#[test]
fn what_hosts_reserve_of_a_snapshot_is_seen_and_ended_by_itself() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let (rig, portal) = Rig::start_for_all(home.path(), &data, None);
    rig.create(VOLUME);
    let_in(&rig, VOLUME, "evil");
    let (volume, name) = (VOLUME.to_owned(), "s".to_owned());
    let volumes = vec![volume.clone()];
    let create = SnapshotRequest::Create { volumes, name: Some(name.clone()) };
    rig.ask(Request::Snapshot(create)).expect("it is taken");
    let ask = |request| {
        rig.ask(Request::Snapshot(request)).map(|answer| match answer {
            Answer::Reservations(reservations) => *reservations,
            other => panic!("{other:?}"),
        })
    };
    let (shown, cleared) = (
        SnapshotRequest::Reservations { volume: volume.clone(), name: name.clone() },
        SnapshotRequest::ClearReservations { volume: volume.clone(), name: name.clone() },
    );
    for request in [shown.clone(), cleared.clone()] {
        let refused = ask(request).expect_err("it is offline");
        assert!(matches!(refused, RequestError::SnapshotReservationsAway { .. }), "{refused}");
    }
    let none = SnapshotRequest::Reservations { volume: volume.clone(), name: "none".to_owned() };
    assert!(matches!(ask(none), Err(RequestError::NoSuchSnapshot { .. })));
    let serve = SnapshotRequest::SetWritable { volume, name, fresh: false };
    rig.ask(Request::Snapshot(serve)).expect("it is served");

    let target = format!("{}:s", iqn(&rig, VOLUME));
    let mut evil = Host::log_in(portal, &host("evil"), &target).expect("it is let in");
    evil.register(0x666);
    assert_eq!(evil.answer(), Some(0));
    evil.reserve(0x666);
    assert_eq!(evil.answer(), Some(0));
    let of = ask(shown.clone()).expect("it is served");
    assert_eq!((of.snapshot.as_deref(), keys(&of)), (Some("s"), vec![(host("evil"), 0x666, true)]));
    assert_eq!(keys(&show(&rig).expect("it is served")), [], "the volume has its own");
    clear(&rig).expect("there is nothing to clear");
    assert_eq!(keys(&ask(shown.clone()).expect("it is served")).len(), 1, "it has its own");
    assert_eq!(keys(&ask(cleared).expect("it is served")), []);
    let told = rig.told(Kind::ReservationsCleared);
    let wanted = format!(
        "reservations of snapshot s of volume {VOLUME} were cleared by an operator: 1 registrations, held by {}",
        host("evil")
    );
    assert_eq!(told, [wanted]);
    rig.stop();
}

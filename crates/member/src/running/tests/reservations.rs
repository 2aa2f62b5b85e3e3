//! What hosts have reserved, and the end of it by an operator.

use super::{host, iqn, let_in};
use crate::access_request::AccessRequest;
use crate::events::Kind;
use crate::reply::{Answer, Reservations};
use crate::request::{Request, VolumeRequest};
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

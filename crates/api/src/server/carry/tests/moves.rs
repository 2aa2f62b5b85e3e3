//! What a member asks another one for itself, as a volume moves: only the source of a move has a say in it, and what is
//! said late, twice or of nothing changes nothing.

use array::Level;
use array::api::Cache;
use axum::body::Bytes;
use group::handover::SourceSays;
use group::membership::MoveId;
use group::settings::{Arrival, VolumeSettings};
use member::audit::Action;
use member::{ArrivalStep, MoveError, MoveRequest, Passport, Piece, Seal, Unlisted};
use serde::Serialize;

use super::*;
use crate::server::carry::{OwnError, OwnLine};
use crate::server::moving::{Begun, source_says};
use crate::server::transit::{
    ADOPT_PATH, ARRIVE_PATH, FRAME, JSON, Look, Looked, MOVE_PATH, PIECES_PATH, PREPARE_PATH,
    framed,
};

fn id() -> MoveId {
    MoveId::draw().expect("randomness")
}

fn passport(id: &MoveId) -> Passport {
    Passport {
        id: id.clone(),
        from: LEFT,
        name: "vm".to_owned(),
        size_bytes: 8 << 20,
        level: Level::Raid1,
        thick: false,
        block_bytes: 512,
        cache: Cache::Durable,
        read_ahead_bytes: 0,
        cached: true,
        online: true,
        created_unix_seconds: 7,
        iqn_prefix: "iqn.2026-11.dev.drystone".to_owned(),
        serial: "0123456789abcdef".to_owned(),
        needs_bytes: 16 << 20,
        unlisted: Unlisted::Nobody,
        has_list: true,
    }
}

fn seal() -> Seal {
    Seal {
        settings: VolumeSettings::default(),
        units: Vec::new(),
        portal_group: 7,
        online: true,
        read_ahead_bytes: 0,
        cached: true,
    }
}

/// Of the volume that is meant.
fn serial() -> Option<String> {
    Some("0123456789abcdef".to_owned())
}

/// What the member is asked then.
fn asked(id: &MoveId, says: Option<SourceSays>) -> MoveRequest {
    MoveRequest::Adopt { id: id.clone(), says, serial: serial() }
}

fn json(value: &impl Serialize) -> (&'static str, Bytes) {
    (JSON, serde_json::to_vec(value).expect("it can be written out").into())
}

/// Left asks right.
struct Source<'a>(&'a Pair);

impl Source<'_> {
    async fn ask(
        &self,
        method: Method,
        (route, id): (&str, &MoveId),
        sent: (&'static str, Bytes),
    ) -> Result<Bytes, Code> {
        let path = route.replace("{id}", id.as_str());
        let mut line = OwnLine::new(self.0.left.app.clone(), RIGHT);
        match line.ask(method, &path, sent).await {
            Ok(answer) => Ok(answer),
            Err(OwnError::Refused(problem)) => Err(problem.code),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    async fn arrive(&self, passport: &Passport) -> Result<Bytes, Code> {
        self.ask(Method::POST, (ARRIVE_PATH, &passport.id), json(passport)).await
    }

    async fn write(&self, id: &MoveId) -> Result<Bytes, Code> {
        let frame = framed(&Piece::data(0, vec![1; 4096]));
        self.ask(Method::PUT, (PIECES_PATH, id), (FRAME, frame.into())).await
    }

    async fn prepare(&self, id: &MoveId) -> Result<Bytes, Code> {
        self.ask(Method::POST, (PREPARE_PATH, id), json(&seal())).await
    }

    async fn discard(&self, id: &MoveId) -> Result<Bytes, Code> {
        self.ask(Method::DELETE, (MOVE_PATH, id), (JSON, Bytes::new())).await
    }

    /// Which says that it keeps the volume.
    async fn adopt(&self, id: &MoveId) -> Result<ArrivalStep, Code> {
        self.look(id, Look { says: Some(SourceSays::GivenUp), serial: serial() }).await
    }

    async fn look(&self, id: &MoveId, look: Look) -> Result<ArrivalStep, Code> {
        let look = json(&look);
        let looked = self.ask(Method::POST, (ADOPT_PATH, id), look).await?;
        Ok(serde_json::from_slice::<Looked>(&looked).expect("it reads").step)
    }

    /// What the member of right was asked to do.
    fn done(&self) -> Vec<MoveRequest> {
        let asked = self.0.right.asked().into_iter();
        let moves = asked.filter_map(|request| match request {
            Request::Move(MoveRequest::Arrivals) => None,
            Request::Move(request) => Some(request),
            other => panic!("{other:?}"),
        });
        moves.collect()
    }
}

#[tokio::test]
async fn a_volume_goes_on_coming_whatever_else_is_said_of_it() {
    // It takes the volume as it is named first, and nothing at all of one that is named otherwise.
    let pair = Pair::begin(|request| match request {
        Request::Move(MoveRequest::Arrivals) => Some(Ok(Answer::Arrivals(Vec::new()))),
        Request::Move(MoveRequest::Arrive { passport }) if passport.name != "vm" => Some(Err(
            RequestError::Move(MoveError::BadPiece("it was said to be another one".to_owned())),
        )),
        _ => Some(Ok(Answer::Done)),
    })
    .await;
    let source = Source(&pair);
    let coming = passport(&id());
    let other = |id: MoveId| Passport { name: "other".to_owned(), id, ..passport(&coming.id) };
    assert!(source.arrive(&coming).await.is_ok());
    assert_eq!(source.arrive(&other(coming.id.clone())).await, Err(Code::BadRequest));
    assert!(source.write(&coming.id).await.is_ok(), "it goes on coming");
    assert!(source.arrive(&coming).await.is_ok() && source.write(&coming.id).await.is_ok());
    // What never came is forgotten, and neither do pieces of it get to the member.
    let never = other(id());
    assert_eq!(source.arrive(&never).await, Err(Code::BadRequest));
    assert_eq!(source.write(&never.id).await, Err(Code::WrongState));
    let foreign = Passport { from: RIGHT, ..passport(&id()) };
    assert_eq!(source.arrive(&foreign).await, Err(Code::Forbidden));
    let id = id();
    assert_eq!(pair.right.app.moves.begin(&id, MemberId(9), "vm"), Begun::Now);
    assert_eq!(source.arrive(&passport(&id)).await, Err(Code::Forbidden));
    assert_eq!(source.write(&id).await, Err(Code::Forbidden));
    let writes = source.done().into_iter();
    let writes = writes.filter(|request| matches!(request, MoveRequest::Write { .. }));
    assert_eq!(writes.count(), 2);
    let entries = pair.right.entries();
    assert!(entries.iter().all(|entry| !entry.done || !entry.operation.contains("/pieces")));
    let piece = format!("PUT /v1/moves/{id}/pieces");
    let refused = entries.iter().find(|entry| entry.operation == piece).expect("it is on record");
    assert_eq!((refused.action, &*refused.reason), (Action::LoginRefused, "forbidden"));
    assert_eq!(refused.who.account.as_deref(), Some("member 'left'"));
}

#[tokio::test]
async fn of_a_move_that_is_not_known_nothing_is_prepared_or_thrown_away() {
    let pair = Pair::begin(|request| {
        Some(Ok(match request {
            Request::Move(MoveRequest::Arrivals) => Answer::Arrivals(Vec::new()),
            Request::Move(MoveRequest::Adopt { .. }) => Answer::Arrived(ArrivalStep::Unknown),
            _ => Answer::Done,
        }))
    })
    .await;
    let (source, id) = (Source(&pair), id());
    assert_eq!(source.prepare(&id).await, Err(Code::WrongState));
    assert!(source.discard(&id).await.is_ok(), "there is nothing to throw away");
    assert!(source.done().is_empty());
    // Whether the volume was adopted only the member knows.
    assert_eq!(source.adopt(&id).await, Ok(ArrivalStep::Unknown));
    assert_eq!(source.done(), [asked(&id, None)]);
    let adoption = format!("POST {ADOPT_PATH}");
    let entries = pair.right.entries();
    assert!(entries.iter().all(|entry| entry.operation != adoption), "it has changed nothing");
    // Of one that is coming the source says nothing that counts before it is prepared, and it can be thrown away.
    assert!(source.arrive(&passport(&id)).await.is_ok());
    assert_eq!(source.adopt(&id).await, Ok(ArrivalStep::Unknown));
    assert_eq!(source.done().last(), Some(&asked(&id, None)));
    assert!(source.discard(&id).await.is_ok());
    assert_eq!(source.done().last(), Some(&MoveRequest::Discard { id: id.clone() }));
    assert_eq!(source.write(&id).await, Err(Code::WrongState), "it does not come any more");
}

#[tokio::test]
async fn what_is_prepared_is_the_matter_of_its_source_and_on_record() {
    let (its, of_another) = (id(), id());
    let arrivals = [(&its, LEFT), (&of_another, MemberId(9))].map(|(id, from)| Arrival {
        id: id.clone(),
        group: "0".repeat(32).parse().expect("it is one"),
        volume: 1,
        name: "vm".to_owned(),
        from,
        from_name: String::new(),
        serial: "0123456789abcdef".to_owned(),
        online: true,
    });
    let pair = Pair::begin(move |request| {
        Some(Ok(match request {
            Request::Move(MoveRequest::Arrivals) => Answer::Arrivals(arrivals.to_vec()),
            Request::Move(MoveRequest::Adopt { .. }) => Answer::Arrived(ArrivalStep::Discarded),
            _ => Answer::Done,
        }))
    })
    .await;
    let source = Source(&pair);
    // Not even while it says that a volume of its own is to come by that number.
    assert_eq!(pair.right.app.moves.begin(&of_another, LEFT, "vm"), Begun::Now);
    assert_eq!(source.adopt(&of_another).await, Err(Code::Forbidden));
    assert_eq!(source.discard(&of_another).await, Err(Code::Forbidden));
    assert_eq!(source.prepare(&of_another).await, Err(Code::Forbidden));
    assert!(source.done().is_empty());
    assert_eq!(source.adopt(&its).await, Ok(ArrivalStep::Discarded));
    let says = Some(SourceSays::GivenUp);
    assert_eq!(source.done(), [asked(&its, says)]);
    let entries = pair.right.entries();
    let last = entries.last().expect("it is on record");
    assert_eq!((last.action, last.done), (Action::Change, true));
    assert_eq!(last.operation, format!("POST {ADOPT_PATH}"));
    assert_eq!(last.object, format!("/v1/moves/{its}/adopt"));
    assert_eq!(last.who.account.as_deref(), Some("member 'left'"));
    // Of an earlier version it says that of the move, and not of the volume, which it may have lost.
    for says in [SourceSays::GivenUp, SourceSays::HandedOver] {
        let look = Look { says: Some(says), serial: None };
        assert_eq!(source.look(&its, look).await, Ok(ArrivalStep::Discarded));
    }
    let of_move = |says| MoveRequest::Adopt { id: its.clone(), says, serial: None };
    assert_eq!(source.done()[1..], [of_move(None), of_move(Some(SourceSays::HandedOver))]);
}

/// One of an earlier version knows no serial numbers, and answers for none.
#[tokio::test]
async fn that_a_source_keeps_a_volume_is_said_of_the_one_that_was_asked_for() {
    let pair = Pair::begin(|request| {
        Some(Ok(match request {
            Request::Move(MoveRequest::Says { .. }) => Answer::SourceSays(SourceSays::GivenUp),
            _ => Answer::Done,
        }))
    })
    .await;
    let (source, id) = (Source(&pair), id());
    let serial = serial().expect("it is known");
    let says = source_says(&pair.left.app, RIGHT, (&id, &serial)).await;
    assert!(matches!(says, Ok(SourceSays::GivenUp)), "{says:?}");
    let says = MoveRequest::Says { id: id.clone(), serial: Some(serial) };
    assert_eq!(source.done(), [says]);
    // Nothing is asked for by what is no word of a query, and nobody says which volume stays.
    for nameless in ["", "a b"] {
        let says = source_says(&pair.left.app, RIGHT, (&id, nameless)).await;
        assert!(matches!(says, Ok(SourceSays::Unknown)), "{nameless}: {says:?}");
    }
}

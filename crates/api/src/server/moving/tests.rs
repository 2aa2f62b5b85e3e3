//! What is done about what is left of moves, where the other side cannot be asked.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use group::accounts::Logins;
use group::membership::{GroupId, MemberRecord, MoveId, Roll};
use group::ownership::MemberId;
use group::settings::{Arrival, Departure, Stage};
use member::{Answer, ArrivalStep, MoveRequest, Request, RequestError, RollNow, SecretWord};
use tempfile::TempDir;
use tokio::time::advance;

use super::janitor::look;
use super::known::{Begun, SILENCE};
use crate::server::app::{App, Ask, Done, Follower};
use crate::server::testing;
use crate::types::Interface;

const ME: MemberId = MemberId(1);
const OTHER: MemberId = MemberId(2);

/// A member that has this left of moves, and keeps what it is asked to do.
#[derive(Default)]
struct Left {
    arrivals: Vec<Arrival>,
    departures: Vec<Departure>,
    asked: Mutex<Vec<MoveRequest>>,
}

impl Left {
    fn answer(&self, request: MoveRequest) -> Result<Answer, RequestError> {
        match request {
            MoveRequest::Arrivals => return Ok(Answer::Arrivals(self.arrivals.clone())),
            MoveRequest::Departures => return Ok(Answer::Departures(self.departures.clone())),
            _ => {}
        }
        let is_look = matches!(request, MoveRequest::Adopt { .. });
        self.asked.lock().expect("no test has failed").push(request);
        Ok(if is_look { Answer::Arrived(ArrivalStep::AskSource) } else { Answer::Done })
    }

    fn asked(&self) -> Vec<MoveRequest> {
        self.asked.lock().expect("no test has failed").clone()
    }
}

/// The way to it.
struct Asked(Arc<Left>);

impl Ask for Asked {
    fn ask(&self, request: Request, _: Follower, done: Done) {
        match request {
            Request::Move(request) => done(self.0.answer(request)),
            _ => done(Err(RequestError::NoResult)),
        }
    }

    fn logins(&self) -> Option<Arc<Logins>> {
        None
    }
}

/// A member in a group with these, of whom none can be asked: nothing is proved to anybody with its certificate.
fn app(left: &Arc<Left>, members: &[MemberId]) -> (Arc<App>, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let config = testing::config(dir.path());
    let record = |number: &MemberId| MemberRecord {
        name: format!("m{}", number.0),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 3262,
        certificate_sha256: String::new(),
        array: number.0.to_string(),
        version: "0.1.0".to_owned(),
        joined_unix_seconds: 7,
        incarnation: 1,
    };
    let members = members.iter().map(|number| (*number, record(number))).collect();
    let roll = Roll { members, ..Roll::default() };
    config.roll.replace(Some(RollNow {
        me: ME,
        name: "m1".to_owned(),
        roll,
        store_fault: None,
        authority: String::new(),
        certificate: String::new(),
        key: SecretWord(String::new().into()),
    }));
    let member = Arc::new(Asked(left.clone()));
    (Arc::new(App::new(member, &config, 1, Interface::default())), dir)
}

/// The kinds of what was told.
fn told(app: &App) -> Vec<String> {
    app.logs.events.after(0).iter().map(|record| record.what.kind.clone()).collect()
}

fn id() -> MoveId {
    MoveId::draw().expect("randomness")
}

#[tokio::test(start_paused = true)]
async fn what_no_member_sends_any_more_is_thrown_away_and_not_before() {
    let (left, id) = (Arc::new(Left::default()), id());
    let (app, _dir) = app(&left, &[ME]);
    assert_eq!(app.moves.begin(&id, OTHER, "vm"), Begun::Now);
    look(&app).await;
    assert!(left.asked().is_empty(), "something was heard of it a moment ago");
    advance(SILENCE).await;
    look(&app).await;
    assert_eq!(left.asked(), [MoveRequest::Discard { id }]);
    assert_eq!(told(&app), ["volume_move_given_up"]);
    look(&app).await;
    assert_eq!(left.asked().len(), 1, "it is done");
}

#[tokio::test(start_paused = true)]
async fn what_a_member_may_send_yet_that_cannot_be_asked_stays() {
    let left = Arc::new(Left::default());
    let (app, _dir) = app(&left, &[ME, OTHER]);
    assert_eq!(app.moves.begin(&id(), OTHER, "vm"), Begun::Now);
    advance(SILENCE).await;
    look(&app).await;
    assert!(left.asked().is_empty() && told(&app).is_empty());
}

#[tokio::test]
async fn nothing_is_let_go_or_thrown_away_before_the_other_side_has_answered() {
    let (arrived, departed) = (id(), id());
    let (name, iqns) = ("vm".to_owned(), Vec::new());
    let group: GroupId = "0".repeat(32).parse().unwrap();
    let arrival = Arrival {
        id: arrived.clone(),
        group: group.clone(),
        volume: 1,
        name: name.clone(),
        from: OTHER,
        from_name: String::new(),
        serial: "0123456789abcdef".to_owned(),
        online: true,
    };
    let (volume, from, to, stage) = (2, ME, OTHER, Stage::Gone);
    let (id, to_name, serial) = (departed, String::new(), arrival.serial.clone());
    let departure = Departure { id, group, volume, name, from, to, to_name, serial, iqns, stage };
    let (arrivals, departures) = (vec![arrival], vec![departure]);
    let left = Arc::new(Left { arrivals, departures, asked: Mutex::default() });
    let (app, _dir) = app(&left, &[ME, OTHER]);
    for times in 1..=2 {
        look(&app).await;
        let of_arrival = MoveRequest::Adopt { id: arrived.clone(), says: None, serial: None };
        let looks = vec![of_arrival; times];
        assert_eq!(left.asked(), looks);
    }
    assert_eq!(told(&app), ["volume_moved"], "once");
}

//! Who knocks at the door of members.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use api::server::{Ask, Done, Follower};
use group::accounts::Logins;
use group::membership::MembershipError;
use member::audit::{Action, Entry};
use member::{Answer, GroupError, GroupRequest, Request, RequestError};

use crate::tls::{Reply, ask, request, tcp, tls, try_tcp};
use crate::{Lab, Requests, SECRET, Served, applicant, free_address, until};

const JOIN: &str = "/door/v1/join";

/// How long something may take that others could hold up.
const PATIENCE: Duration = Duration::from_secs(9);

/// A member of a group that lets in whoever has its token, and the address of its door.
fn served(lab: &Lab) -> (Served, SocketAddr) {
    let (id, secret) = (lab.ticket.id.clone(), lab.ticket.secret.clone());
    let admission = Box::new(lab.admission());
    let served = Served::begin(move |asked| match asked {
        GroupRequest::Admit { id: its, secret: word, .. } if *its == id && word.0 == secret => {
            Ok(Answer::Admission(admission.clone()))
        }
        GroupRequest::Admit { .. } => Err(GroupError::from(MembershipError::Token).into()),
        _ => Err(RequestError::NoResult),
    });
    let address = served.open(lab);
    (served, address)
}

/// What a server says that wants to be let in.
fn body(id: &str, secret: &str) -> String {
    serde_json::json!({"id": id, "secret": secret, "applicant": applicant()}).to_string()
}

fn knock(lab: &Lab) -> String {
    request("POST", JOIN, &body(&lab.ticket.id, &lab.ticket.secret))
}

fn entries(served: &Served) -> Vec<Entry> {
    served.logs.audit.after(0).iter().map(|record| record.what.clone()).collect()
}

#[test]
fn who_has_a_token_is_let_in_and_that_is_on_record_without_a_secret() {
    let lab = Lab::make();
    let (served, address) = served(&lab);
    let reply = ask(&lab, address, 2, &knock(&lab));
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.head.contains("cache-control: no-store"), "{}", reply.head);
    assert!(reply.head.contains("connection: close"), "{}", reply.head);
    let told: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(told["group_name"], "lab");
    assert_eq!(told["member"], 2);
    assert_eq!(told["authority_key"].as_str(), Some(lab.authority.key_pem().as_str()));
    let asked = served.asked();
    let [GroupRequest::Admit { id, secret, applicant: said }] = &asked[..] else {
        panic!("{asked:?}")
    };
    assert_eq!((id, &secret.0, said), (&lab.ticket.id, &lab.ticket.secret, &applicant()));
    let entries = entries(&served);
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((entry.action, entry.done), (Action::Change, true));
    assert_eq!(entry.who.account.as_deref(), Some("join token '00c0ffee'"));
    assert_eq!(entry.outcome, "'san2' was let into the group as member 2");
    assert!(entry.from.starts_with("127.0.0.2:"), "{entry:?}");
    let shown = format!("{entries:?} {asked:?} {:?}", served.door);
    assert!(!shown.contains(SECRET) && !shown.contains("PRIVATE KEY"), "{shown}");
    served.server.stop();
}

#[test]
fn nothing_else_is_there() {
    let lab = Lab::make();
    let (served, address) = served(&lab);
    for (method, path) in [
        ("GET", "/"),
        ("GET", JOIN),
        ("DELETE", JOIN),
        ("GET", "/v1/volumes"),
        ("GET", "/v1/openapi.json"),
        ("POST", "/v1/group/tokens"),
        ("POST", "/door/v1/join/more"),
        ("POST", "/door/v2/join"),
    ] {
        let mut stream = tls(&lab, address, 1);
        let asked = request(method, path, "{}");
        let asked = asked.replace("host: san1", "host: a\r\nconnection: close");
        stream.write_all(asked.as_bytes()).unwrap();
        let reply = Reply::hear(&mut stream);
        assert_eq!(reply.status, 404, "{method} {path}: {reply:?}");
        assert_eq!(reply.code(), "no-such-path", "{method} {path}");
    }
    assert!(served.asked().is_empty());
    served.server.stop();
}

#[test]
fn strangers_who_say_nothing_keep_nobody_out() {
    let lab = Lab::make();
    let (served, address) = served(&lab);
    // Fewer than there is room for, then more, from other addresses and from the same one.
    let mut silent: Vec<TcpStream> = (0..30).map(|n| tcp(address, 10 + n % 10)).collect();
    for more in [0, 200] {
        silent.extend((0..more).map(|_| tcp(address, 1)));
        let begun = Instant::now();
        let reply = ask(&lab, address, 1, &knock(&lab));
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    }
    drop(silent);
    served.server.stop();
}

#[test]
fn strangers_who_say_half_of_it_keep_nobody_out() {
    let lab = Lab::make();
    let (served, address) = served(&lab);
    let whole = knock(&lab);
    let mut half = Vec::new();
    for number in 0..40 {
        let mut stream = tls(&lab, address, 10 + number % 8);
        stream.write_all(&whole.as_bytes()[..whole.len() - 2]).unwrap();
        half.push(stream);
    }
    let begun = Instant::now();
    assert_eq!(ask(&lab, address, 1, &whole).status, 200);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert_eq!(served.asked().len(), 1, "the others have not said all of it");
    drop(half);
    served.server.stop();
}

#[test]
fn what_is_too_large_or_does_not_read_is_refused_and_not_repeated() {
    let lab = Lab::make();
    let (served, address) = served(&lab);
    let head = request("POST", JOIN, "").replace("content-length: 0", "content-length: 65537");
    let reply = ask(&lab, address, 1, &head);
    assert_eq!((reply.status, reply.code().as_str()), (413, "body-too-large"));
    assert!(reply.body.contains("more than 64 KiB"), "{}", reply.body);
    // One of just that size is read.
    let filled = format!("{{\"{}\": 1}}", "x".repeat((64 << 10) - 7));
    assert_eq!(filled.len(), 64 << 10);
    assert_eq!(ask(&lab, address, 1, &request("POST", JOIN, &filled)).status, 422);
    for body in ["", "{}", "[]", "hush", "{\"secret\": [\"hush\"]}", "{\"id\": \"hush\"}"] {
        let reply = ask(&lab, address, 1, &request("POST", JOIN, body));
        assert!([400, 422].contains(&reply.status), "{body}: {reply:?}");
        assert!(!reply.body.contains("hush"), "{body}: {reply:?}");
    }
    assert!(served.asked().is_empty());
    assert!(!format!("{:?}", entries(&served)).contains("hush"));
    served.server.stop();
}

#[test]
fn who_tries_wrong_tokens_waits_and_nobody_else_does() {
    let lab = Lab::make();
    let (served, address) = served(&lab);
    let guess = "9".repeat(64);
    let wrong = request("POST", JOIN, &body(&lab.ticket.id, &format!("drystone_{guess}")));
    for _ in 0..5 {
        let reply = ask(&lab, address, 7, &wrong);
        assert_eq!((reply.status, reply.code().as_str()), (403, "ticket-refused"));
    }
    let reply = ask(&lab, address, 7, &knock(&lab));
    assert_eq!((reply.status, reply.code().as_str()), (429, "too-many-tries"));
    assert!(reply.head.contains("retry-after: "), "{}", reply.head);
    assert_eq!(served.asked().len(), 5, "the last one was not tried");
    assert_eq!(ask(&lab, address, 8, &knock(&lab)).status, 200);
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(ask(&lab, address, 7, &knock(&lab)).status, 200);
    let refused: Vec<_> = entries(&served)
        .into_iter()
        .filter(|entry| entry.action == Action::LoginRefused)
        .map(|entry| (entry.operation, entry.reason))
        .collect();
    let of = |reason: &str| (format!("POST {JOIN}"), reason.to_owned());
    assert!(refused.contains(&of("ticket-refused")), "{refused:?}");
    assert!(refused.contains(&of("too-many-tries")), "{refused:?}");
    assert!(!format!("{:?}", entries(&served)).contains(&guess));
    served.server.stop();
}

#[test]
fn what_cannot_be_a_token_is_no_question_to_the_group_and_counts_as_well() {
    let lab = Lab::make();
    let (served, address) = served(&lab);
    let (id, secret) = (lab.ticket.id.as_str(), lab.ticket.secret.as_str());
    let wrong = [("c0ffee", secret), ("00COFFEE", secret), (id, "drystone_"), (id, &secret[9..])];
    for (id, secret) in wrong.into_iter().cycle().take(20) {
        let reply = ask(&lab, address, 7, &request("POST", JOIN, &body(id, secret)));
        assert_eq!((reply.status, reply.code().as_str()), (403, "ticket-refused"), "{id}");
    }
    let reply = ask(&lab, address, 7, &knock(&lab));
    assert_eq!((reply.status, reply.code().as_str()), (429, "too-many-tries"));
    assert!(served.asked().is_empty());
    assert_eq!(ask(&lab, address, 8, &knock(&lab)).status, 200);
    served.server.stop();
}

#[test]
fn a_right_token_of_a_server_that_is_refused_counts_and_one_that_is_let_in_does_not() {
    let lab = Lab::make();
    let refusing =
        Served::begin(|_| Err(GroupError::from(MembershipError::NameTaken("san2".into())).into()));
    let address = refusing.open(&lab);
    let codes: Vec<_> = (0..6).map(|_| ask(&lab, address, 7, &knock(&lab)).code()).collect();
    assert_eq!(codes[..5], ["name-taken"; 5]);
    assert_eq!(codes[5], "too-many-tries");
    assert_eq!(refusing.asked().len(), 5);
    refusing.server.stop();
    let (served, address) = served(&lab);
    for _ in 0..25 {
        assert_eq!(ask(&lab, address, 7, &knock(&lab)).status, 200);
    }
    served.server.stop();
}

/// A member that says nothing to who wants to be let in, until a test does.
struct Slow(Arc<Mutex<Vec<Done>>>);

impl Ask for Slow {
    fn ask(&self, request: Request, _: Follower, done: Done) {
        match request {
            // What it asks of itself.
            Request::Move(_) | Request::Set(_) => done(Err(RequestError::NoResult)),
            _ => self.0.lock().expect("no test has failed").push(done),
        }
    }

    fn logins(&self) -> Option<Arc<Logins>> {
        Some(Arc::default())
    }
}

#[test]
fn who_asks_and_leaves_keeps_its_seat_until_the_group_has_answered() {
    let lab = Lab::make();
    let waiting: Arc<Mutex<Vec<Done>>> = Arc::default();
    let served = Served::of(Slow(waiting.clone()), Requests::default());
    let address = served.open(&lab);
    let knocked = |number: usize, last: u8| {
        let mut stream = tls(&lab, address, last);
        let asked = request("POST", JOIN, &body(&format!("{number:08x}"), &lab.ticket.secret));
        stream.write_all(asked.as_bytes()).map(|()| stream)
    };
    let is_asked = |count: usize| waiting.lock().unwrap().len() == count;
    for number in 0..8 {
        let stream = knocked(number, 7).unwrap();
        until("the group is asked", || is_asked(number + 1));
        drop(stream);
    }
    // The door sees that they have left.
    thread::sleep(Duration::from_millis(300));
    let heard = knocked(8, 7).and_then(|mut stream| stream.read(&mut [0]));
    assert!(matches!(heard, Err(_) | Ok(0)), "one address has its share: {heard:?}");
    assert!(is_asked(8));
    let other = knocked(9, 8).unwrap();
    until("others have room", || is_asked(9));
    for done in waiting.lock().unwrap().drain(..) {
        done(Err(GroupError::from(MembershipError::Token).into()));
    }
    until("there is room again", || {
        let kept = knocked(10, 7);
        thread::sleep(Duration::from_millis(50));
        kept.is_ok() && !is_asked(0)
    });
    drop(other);
    served.server.stop();
}

#[test]
fn the_door_is_where_and_while_the_group_has_one() {
    let lab = Lab::make();
    let (served, first) = served(&lab);
    let is_open = |address: SocketAddr| try_tcp(address, 9).is_ok();
    let second = free_address();
    served.door.replace(Some(lab.door(second)));
    until("it moves", || is_open(second));
    assert!(!is_open(first), "it is at one address");
    assert_eq!(ask(&lab, second, 1, &knock(&lab)).status, 200);
    served.door.replace(None);
    until("it closes", || !is_open(second));
    // Somebody else has the port for a while.
    let other = TcpListener::bind(second).unwrap();
    served.door.replace(Some(lab.door(second)));
    thread::sleep(Duration::from_millis(200));
    drop(other);
    until("it opens when it can", || is_open(second));
    assert_eq!(ask(&lab, second, 1, &knock(&lab)).status, 200);
    served.server.stop();
    assert!(!is_open(second), "it ends with the server");
}

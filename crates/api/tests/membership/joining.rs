//! How a member joins a group, and each way in which it does not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::problem::Code;
use api::types::JoinGroup;
use group::membership::MembershipError;
use group::ownership::MemberId;
use member::{Answer, GroupError, GroupRequest, RequestError};

use crate::tls::request;
use crate::{Lab, SECRET, Served, applicant, problem, shown, until};

/// A member that joins whatever group lets it in.
fn joining() -> Served {
    Served::begin(|asked| match asked {
        GroupRequest::Prepare { .. } => Ok(Answer::Applicant(applicant())),
        GroupRequest::Join { .. } => Ok(Answer::Group(shown())),
        _ => Err(RequestError::NoResult),
    })
}

/// A member of a group that answers so to all that want to be let in, and the address of its door.
fn group(
    lab: &Lab,
    answer: impl Fn() -> Result<Answer, RequestError> + Send + Sync + 'static,
) -> (Served, SocketAddr) {
    let served = Served::begin(move |asked| match asked {
        GroupRequest::Admit { .. } => answer(),
        _ => Err(RequestError::NoResult),
    });
    let address = served.open(lab);
    (served, address)
}

fn ask(lab: &Lab, at: &str) -> JoinGroup {
    JoinGroup {
        group: at.to_owned(),
        token: lab.ticket.as_text().as_str().to_owned(),
        member: Some("san2".to_owned()),
        listen: "127.0.0.2".to_owned(),
        replace_settings: true,
    }
}

/// Something else than a member that answers there once.
fn other_than_a_member(answer: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one");
    thread::spawn(move || answer(listener.accept().expect("somebody comes").0));
    address
}

#[test]
fn a_member_joins_by_its_token_and_is_given_what_the_group_gave() {
    let lab = Lab::make();
    let admission = Box::new(lab.admission());
    let given = admission.clone();
    let (first, address) = group(&lab, move || Ok(Answer::Admission(given.clone())));
    let second = joining();
    let joined = second.client().join_group(&ask(&lab, &address.to_string())).unwrap();
    assert_eq!((joined.name.as_str(), joined.member.as_str(), joined.members), ("lab", "san2", 2));

    let asked = first.asked();
    let [GroupRequest::Admit { id, secret, applicant: said }] = &asked[..] else {
        panic!("{asked:?}")
    };
    assert_eq!((id, &secret.0), (&lab.ticket.id, &lab.ticket.secret));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(said.clock_unix_seconds.abs_diff(now) < 60, "{said:?}");
    assert_eq!((&said.name, &said.certificate_sha256), (&"san2".to_owned(), &String::new()));

    let asked = second.asked();
    let [GroupRequest::Prepare { member, listen }, joins] = &asked[..] else { panic!("{asked:?}") };
    let GroupRequest::Join { applicant, admission: got, replace_settings } = joins else {
        panic!("{joins:?}")
    };
    assert!(replace_settings, "as it was asked");
    assert_eq!((member.as_deref(), listen.to_string().as_str()), (Some("san2"), "127.0.0.2:3262"));
    assert_eq!(got, &admission);
    assert_eq!(applicant.certificate_sha256.len(), 64);
    let logs = format!("{:?} {:?}", second.logs.audit.after(0), second.logs.events.after(0));
    assert!(!logs.contains(SECRET) && !logs.contains("PRIVATE KEY"), "{logs}");
    first.server.stop();
    second.server.stop();
}

/// The admission is worth nothing to anybody else: who is let in while the operator hangs up is a member all the same.
#[test]
fn who_asked_may_leave_and_the_member_joins() {
    let lab = Lab::make();
    let admission = Box::new(lab.admission());
    let (first, address) = group(&lab, move || {
        thread::sleep(Duration::from_secs(1));
        Ok(Answer::Admission(admission.clone()))
    });
    let second = joining();
    let body = serde_json::to_string(&ask(&lab, &address.to_string())).unwrap();
    let mut stream = UnixStream::connect(second.socket()).unwrap();
    stream.write_all(request("POST", "/v1/group/join", &body).as_bytes()).unwrap();
    until("the group is asked", || !first.asked().is_empty());
    drop(stream);
    let is_join = |asked: &GroupRequest| matches!(asked, GroupRequest::Join { .. });
    until("it joins", || second.asked().iter().any(is_join));
    first.server.stop();
    second.server.stop();
}

#[test]
fn each_refusal_of_a_group_comes_with_its_sentence_and_code() {
    type Refusal = fn() -> GroupError;
    let lab = Lab::make();
    let cases: [(Refusal, Code, &str); 7] = [
        (|| MembershipError::Token.into(), Code::TicketRefused, "wrong, was used or has expired"),
        (|| MembershipError::NameTaken("san2".into()).into(), Code::NameTaken, "'san2' already"),
        (
            || MembershipError::ArrayKnown { member: "san1".into() }.into(),
            Code::AlreadyThere,
            "a copy of a member cannot join",
        ),
        (
            || MembershipError::Version { theirs: "1.0.0".into(), ours: "2.0.0".into() }.into(),
            Code::OtherVersion,
            "1.0.0",
        ),
        (
            || MembershipError::Clock { seconds: 90, is_ahead: true }.into(),
            Code::ClockOff,
            "90 s ahead of",
        ),
        (|| MembershipError::Full.into(), Code::LimitReached, "members already"),
        (|| GroupError::Stopping, Code::Stopping, "stopping"),
    ];
    for (refusal, code, words) in cases {
        let (first, address) = group(&lab, move || Err(refusal().into()));
        let second = joining();
        let told = problem(second.client().join_group(&ask(&lab, &address.to_string())));
        assert_eq!(told.code, code, "{}", told.detail);
        assert!(told.detail.starts_with("the group does not let this member in: "), "{told}");
        assert!(told.detail.contains(words), "{told}");
        assert!(!told.detail.contains(SECRET), "{told}");
        assert_eq!(second.asked().len(), 1, "it has not joined");
        first.server.stop();
        second.server.stop();
    }
}

/// What is told of an attempt to join at this address, with the token of a group; nothing was joined.
fn told(lab: &Lab, at: &str, code: Code) -> String {
    let second = joining();
    let told = problem(second.client().join_group(&ask(lab, at)));
    assert_eq!(told.code, code, "{}", told.detail);
    let is_join = |asked: &GroupRequest| matches!(asked, GroupRequest::Join { .. });
    assert!(!second.asked().iter().any(is_join));
    assert!(!told.detail.contains(SECRET), "{}", told.detail);
    second.server.stop();
    told.detail
}

#[test]
fn nobody_and_something_else_than_a_member_are_told_apart() {
    let lab = Lab::make();
    // Nobody has had tcpmux (RFC 1078) for long, and no socket is given its port by chance.
    let nobody = "127.0.0.1:1";
    let sentence = told(&lab, nobody, Code::NotReached);
    let begin = format!("no member of a group answers at {nobody}: ");
    assert!(sentence.starts_with(&begin), "{sentence}");
    let hangs_up = other_than_a_member(drop);
    let speaks_http = other_than_a_member(|mut stream| {
        _ = stream.read(&mut [0; 1024]);
        _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    });
    for address in [hangs_up, speaks_http] {
        let sentence = told(&lab, &address.to_string(), Code::NotReached);
        let begin = format!("what answers at {address} does not prove that it is a member");
        assert!(sentence.starts_with(&begin), "{sentence}");
    }
}

#[test]
fn something_that_says_nothing_is_given_up() {
    let lab = Lab::make();
    let silent = other_than_a_member(|stream| {
        // Longer than it is waited for.
        thread::sleep(Duration::from_secs(30));
        drop(stream);
    });
    let sentence = told(&lab, &silent.to_string(), Code::NotReached);
    assert!(sentence.contains("does not prove that it is a member"), "{sentence}");
}

#[test]
fn another_group_hears_nothing_of_the_token() {
    let (lab, other) = (Lab::make(), Lab::make());
    let (first, address) = group(&other, || Err(RequestError::NoResult));
    let sentence = told(&lab, &address.to_string(), Code::OtherGroup);
    assert!(sentence.contains("is not of the group that the token was made in"), "{sentence}");
    assert!(first.asked().is_empty());
    first.server.stop();
}

#[test]
fn an_admission_to_another_group_is_not_followed() {
    let (lab, other) = (Lab::make(), Lab::make());
    let mut mixed = lab.admission();
    mixed.authority_key = other.admission().authority_key;
    for admission in [other.admission(), mixed] {
        let admission = Box::new(admission);
        let (first, address) = group(&lab, move || Ok(Answer::Admission(admission.clone())));
        let sentence = told(&lab, &address.to_string(), Code::OtherVersion);
        assert!(sentence.contains("that this version does not understand"), "{sentence}");
        first.server.stop();
    }
}

#[test]
fn what_does_not_read_is_refused_before_anybody_is_asked() {
    let lab = Lab::make();
    let second = joining();
    let good = ask(&lab, "127.0.0.1");
    let cut = good.token[..good.token.len() - 1].to_owned();
    let wrong = [
        (JoinGroup { token: cut, ..good.clone() }, "this is no ticket"),
        (JoinGroup { group: "https://san1".into(), ..good.clone() }, "no address of a member"),
        (JoinGroup { listen: "san2".into(), ..good.clone() }, "no address at which members"),
    ];
    for (join, words) in wrong {
        let told = problem(second.client().join_group(&join));
        assert_eq!(told.code, Code::Invalid, "{told}");
        assert!(told.detail.contains(words) && !told.detail.contains(SECRET), "{told}");
    }
    assert!(second.asked().is_empty());
    second.server.stop();
}

#[test]
fn who_cannot_join_any_group_asks_none() {
    let lab = Lab::make();
    let admission = Box::new(lab.admission());
    let (first, address) = group(&lab, move || Ok(Answer::Admission(admission.clone())));
    let second = Served::begin(|_| Err(GroupError::AlreadyIn("lab".into()).into()));
    let told = problem(second.client().join_group(&ask(&lab, &address.to_string())));
    assert_eq!(
        (told.code, told.detail.as_str()),
        (Code::WrongState, "this member is in the group 'lab' already",)
    );
    assert!(first.asked().is_empty(), "the token is worth something still");
    first.server.stop();
    second.server.stop();
}

#[test]
fn what_fails_after_the_group_has_let_it_in_is_told_as_it_is() {
    let lab = Lab::make();
    let admission = Box::new(lab.admission());
    let (first, address) = group(&lab, move || Ok(Answer::Admission(admission.clone())));
    let second = Served::begin(|asked| match asked {
        GroupRequest::Prepare { .. } => Ok(Answer::Applicant(applicant())),
        GroupRequest::Join { admission, .. } => {
            assert_eq!(admission.member, MemberId(2));
            Err(GroupError::NotTakenBack {
                refusal: Box::new(GroupError::Admission("the disk is full".into())),
                member: "san2".into(),
                source: Box::new(MembershipError::Contended.into()),
            }
            .into())
        }
        _ => Err(RequestError::NoResult),
    });
    let told = problem(second.client().join_group(&ask(&lab, &address.to_string())));
    assert_eq!(told.code, Code::Failed);
    assert!(told.detail.contains("the group has the member 'san2' now"), "{told}");
    first.server.stop();
    second.server.stop();
}

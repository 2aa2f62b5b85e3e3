//! Who comes to the port of members and is none, or says what no member says.

use std::slice;

use axum::http::{HeaderName, HeaderValue};
use group::membership::{GroupId, MoveId};
use group::pki::SERVER_NAME;
use group::settings::Arrival;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use member::audit::Action;
use member::{ArrivalStep, MoveRequest};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::*;
use crate::server::carry::ON_BEHALF;
use crate::server::carry::error::of_tls;
use crate::server::carry::tls::{Proof, client_config};

/// For whom a member asks: somebody who may do anything.
const ADA: &str =
    r#"{"who": "account 'ada'", "owner": "ada", "role": "administrator", "from": "192.0.2.1:9"}"#;

async fn willing() -> Pair {
    Pair::begin(|_| Some(Ok(Answer::Done))).await
}

/// A connection to the second member.
struct Talk(SendRequest<Empty<Bytes>>);

impl Talk {
    /// Of one that shows what it was issued, with this certificate for the group's authority.
    async fn begin(pair: &Pair, shown: &Issued) -> Self {
        let proof = Proof {
            authority: pair.authority.certificate_pem(),
            certificate: &shown.certificate_pem,
            key: &SecretWord(shown.key_pem.clone()),
        };
        let config = client_config(proof, &pair.issued[1].sha256).expect("a client");
        Self::over(pair, config).await
    }

    async fn over(pair: &Pair, config: Arc<ClientConfig>) -> Self {
        let stream = TcpStream::connect(pair.right.address()).await.expect("it listens");
        let name = ServerName::try_from(SERVER_NAME).expect("a name");
        // In TLS 1.3 whoever connects has shaken hands before the other side has looked at its certificate.
        let stream = TlsConnector::from(config).connect(name, stream).await.expect("TLS");
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        Self(sender)
    }

    /// What is answered: the status, and the body.
    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<(u16, String), hyper::Error> {
        let mut request = HttpRequest::new(Empty::new());
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a path");
        for (name, value) in headers {
            request.headers_mut().append(name.clone(), value.clone());
        }
        self.0.ready().await?;
        let answer = self.0.send_request(request).await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    async fn removes(&mut self, behalf: &str) -> (u16, String) {
        let behalf = HeaderValue::from_str(behalf).expect("a header");
        let headers = [(ON_BEHALF, behalf)];
        let asked = self.ask(Method::DELETE, "/v1/members/old", &headers);
        asked.await.expect("an answer")
    }

    /// With which alert the other side hangs up.
    async fn alert(mut self) -> AlertDescription {
        // At once: what is sent when the other side has hung up already hears nothing of why.
        let ended = self.0.send_request(HttpRequest::new(Empty::new())).await;
        let ended = ended.expect_err("nobody answers");
        match of_tls(&ended) {
            Some(rustls::Error::AlertReceived(alert)) => *alert,
            other => panic!("{other:?} of {ended:?}"),
        }
    }
}

#[tokio::test]
async fn who_shows_no_certificate_of_another_member_ends_in_the_handshake() {
    let pair = willing().await;
    let own = pair.authority.certificate_pem().as_bytes();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(own).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let nothing = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let talk = Talk::over(&pair, Arc::new(nothing)).await;
    assert_eq!(talk.alert().await, AlertDescription::CertificateRequired);
    let stranger = issue(&authority(), "left");
    let alert = Talk::begin(&pair, &stranger).await.alert().await;
    assert_eq!(alert, AlertDescription::UnknownCA);
    // Of the authority and in no roll: one that was removed, or that has the key of the authority and made it itself.
    let removed = issue(&pair.authority, "left");
    let alert = Talk::begin(&pair, &removed).await.alert().await;
    assert_eq!(alert, AlertDescription::AccessDenied);
    // What proves the group at its address is no client's at all.
    let group = GroupId::draw().unwrap();
    let of_group = pair.authority.issue_for_group(&group, [192, 0, 2, 100].into()).unwrap();
    let alert = Talk::begin(&pair, &of_group).await.alert().await;
    assert_eq!(alert, AlertDescription::UnsupportedCertificate);
    // Nobody but a thief shows a member the member's own.
    let alert = Talk::begin(&pair, &pair.issued[1]).await.alert().await;
    assert_eq!(alert, AlertDescription::AccessDenied);
    assert!(pair.right.asked().is_empty());
    assert_eq!(Talk::begin(&pair, &pair.issued[0]).await.removes(ADA).await.0, 204);
}

#[tokio::test]
async fn a_member_that_was_removed_is_refused_on_connections_that_are_open() {
    let pair = willing().await;
    let mut talk = Talk::begin(&pair, &pair.issued[0]).await;
    assert_eq!(talk.removes(ADA).await.0, 204);
    pair.right.hears(|now| {
        now.roll.members.remove(&LEFT);
    });
    let (status, body) = talk.removes(ADA).await;
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("is not in the group any more"), "{body}");
    assert_eq!(pair.right.asked(), [removal("old")], "once, before that");
    // Neither does another member with its number have its place.
    let other = record("left", &issue(&pair.authority, "left"));
    pair.right.hears(|now| {
        now.roll.members.insert(LEFT, other);
    });
    assert_eq!(talk.removes(ADA).await.0, 403);
    let entries = pair.right.entries();
    let refused: Vec<_> =
        entries.iter().filter(|entry| entry.action == Action::LoginRefused).collect();
    assert!(!refused.is_empty() && refused.iter().all(|entry| entry.who.account.is_none()));
}

#[tokio::test]
async fn who_may_not_do_it_may_not_do_it_through_a_member() {
    let pair = willing().await;
    let mut talk = Talk::begin(&pair, &pair.issued[0]).await;
    let (status, body) = talk.removes(&ADA.replace("administrator", "operator")).await;
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("this needs the role administrator, and account 'ada' has operator"));
    assert!(pair.right.asked().is_empty());
    let entries = pair.right.entries();
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((entry.action, &*entry.reason), (Action::LoginRefused, "forbidden"));
    assert_eq!(entry.who.account.as_deref(), Some("member 'left'"));
    assert_eq!(entry.operation, "DELETE /v1/members/old");
}

#[tokio::test]
async fn a_member_that_says_nothing_that_reads_of_who_asks_is_refused() {
    let pair = willing().await;
    let mut talk = Talk::begin(&pair, &pair.issued[0]).await;
    for wrong in ["", "ada", "[]", "{}", &ADA.replace("administrator", "root")] {
        let (status, body) = talk.removes(wrong).await;
        assert_eq!(status, 400, "{wrong}: {body}");
        assert!(body.contains("let all members run the same version"), "{body}");
    }
    let (status, _) = talk.ask(Method::DELETE, "/v1/members/old", &[]).await.unwrap();
    assert_eq!(status, 400, "nobody asks");
    let ada = (ON_BEHALF, HeaderValue::from_static(ADA));
    let twice = [ada.clone(), ada.clone()];
    let (status, _) = talk.ask(Method::DELETE, "/v1/members/old", &twice).await.unwrap();
    assert_eq!(status, 400, "one of two");
    assert!(pair.right.asked().is_empty());
    // Nor is there anything else than the interface.
    let (status, body) = talk.ask(Method::POST, "/door/v1/join", &[ada]).await.unwrap();
    assert_eq!(status, 404, "{body}");
}

/// What a member asks for itself: nobody has it do that, and no member has another one's move done.
#[tokio::test]
async fn a_move_is_of_the_member_that_asks_and_of_nobody_for_whom_it_asks() {
    let arrival = |id: MoveId, from: MemberId| {
        let (name, group) = ("vm".to_owned(), "0".repeat(32).parse().unwrap());
        let (from_name, serial) = (String::new(), String::new());
        Arrival { id, group, volume: 1, name, from, from_name, serial, online: true }
    };
    let (its, of_another) = (MoveId::draw().unwrap(), MoveId::draw().unwrap());
    let arrivals = vec![arrival(its.clone(), LEFT), arrival(of_another.clone(), MemberId(9))];
    let pair = Pair::begin(move |request| {
        Some(Ok(match request {
            Request::Move(MoveRequest::Arrivals) => Answer::Arrivals(arrivals.clone()),
            Request::Move(MoveRequest::Adopt { .. }) => Answer::Arrived(ArrivalStep::Waiting),
            _ => Answer::Done,
        }))
    })
    .await;
    let mut talk = Talk::begin(&pair, &pair.issued[0]).await;
    let ada = (ON_BEHALF, HeaderValue::from_static(ADA));
    for (method, path) in [
        (Method::POST, "/v1/moves".to_owned()),
        (Method::DELETE, format!("/v1/moves/{its}")),
        (Method::POST, format!("/v1/moves/{its}/adopt")),
    ] {
        let (status, body) = talk.ask(method, &path, slice::from_ref(&ada)).await.unwrap();
        assert_eq!(status, 403, "{path}: {body}");
        assert!(body.contains("asks for this itself"), "{body}");
    }
    assert!(pair.right.asked().is_empty());
    for (method, what) in
        [(Method::DELETE, ""), (Method::POST, "/adopt"), (Method::POST, "/prepare")]
    {
        let path = format!("/v1/moves/{of_another}{what}");
        let (status, body) = talk.ask(method, &path, &[]).await.unwrap();
        // What is to be prepared has to be said first.
        let wanted = if what == "/prepare" { 422 } else { 403 };
        assert_eq!(status, wanted, "{path}: {body}");
    }
    let of_none = format!("/v1/moves/{}/pieces", MoveId::draw().unwrap());
    let (status, body) = talk.ask(Method::PUT, &of_none, &[]).await.unwrap();
    assert_eq!(status, 409, "{body}");
    let looks = |asked: &Request| *asked == Request::Move(MoveRequest::Arrivals);
    assert!(pair.right.asked().iter().all(looks), "{:?}", pair.right.asked());

    let (status, body) =
        talk.ask(Method::POST, &format!("/v1/moves/{its}/adopt"), &[]).await.unwrap();
    assert_eq!((status, &*body), (200, r#"{"step":"waiting"}"#));
    let (status, _) = talk.ask(Method::DELETE, &format!("/v1/moves/{its}"), &[]).await.unwrap();
    assert_eq!(status, 204);
    let entries = pair.right.entries();
    let last = entries.last().expect("it is on record");
    assert_eq!((last.action, &*last.operation), (Action::Change, "DELETE /v1/moves/{id}"));
    assert_eq!(last.who.account.as_deref(), Some("member 'left'"));
    let refused = entries.iter().filter(|entry| entry.action == Action::LoginRefused).count();
    assert_eq!(refused, 4, "asked for somebody, and to adopt another one's: {entries:?}");
}

#[tokio::test]
async fn a_head_that_is_huge_is_refused_and_others_are_answered() {
    let pair = willing().await;
    let long = HeaderValue::try_from("a".repeat(70 << 10)).unwrap();
    let asks = [(ON_BEHALF, long)];
    let mut talk = Talk::begin(&pair, &pair.issued[0]).await;
    // Unless the other side has hung up before all of it was sent.
    if let Ok((status, _)) = talk.ask(Method::GET, "/v1/members", &asks).await {
        assert_eq!(status, 431);
    }
    let name = HeaderName::from_static("x-more");
    let many: Vec<_> = (0..100).map(|_| (name.clone(), HeaderValue::from_static("a"))).collect();
    let mut talk = Talk::begin(&pair, &pair.issued[0]).await;
    let (status, _) = talk.ask(Method::GET, "/v1/members", &many).await.unwrap();
    assert_eq!(status, 431);
    assert!(pair.right.asked().is_empty());
    assert_eq!(Talk::begin(&pair, &pair.issued[0]).await.removes(ADA).await.0, 204);
}

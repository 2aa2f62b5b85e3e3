//! What comes of it when another member cannot be asked, or does not answer as it should.

use member::events::Kind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::server::carry::tls::{Proof, server_config};

/// A pair of which the second member answers nothing.
async fn silent() -> Pair {
    Pair::begin(|_| None).await
}

#[tokio::test]
async fn who_is_not_there_is_told_by_its_name_and_why() {
    let pair = silent().await;
    // Nobody listens there, and nobody else can begin to.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let elsewhere = |now: &mut RollNow| {
        now.roll.members.get_mut(&RIGHT).unwrap().port = port - PORT_OFFSET;
    };
    pair.left.hears(elsewhere);
    let (code, sentence) = pair.left.fails(RIGHT, get("/v1/members")).await;
    assert_eq!(code, Code::NotReached);
    let begins = format!("member 'right' cannot be reached at 127.0.0.1:{port}: ");
    assert!(sentence.starts_with(&begins), "{sentence}");
    pair.left.hears(|now| {
        elsewhere(now);
        now.roll.present.clear();
    });
    let (code, sentence) = pair.left.fails(RIGHT, get("/v1/members")).await;
    assert_eq!(code, Code::NotReached);
    assert!(sentence.starts_with("member 'right' is away: "), "{sentence}");
    pair.left.hears(|now| now.roll.members.get_mut(&RIGHT).unwrap().port = u16::MAX - 1);
    assert_eq!(pair.left.fails(RIGHT, get("/v1/members")).await.0, Code::NotReached);
    // One of a time of three ports each, behind which another one has its own.
    pair.left.hears(|now| {
        let behind = now.roll.members[&LEFT].port;
        now.roll.members.get_mut(&RIGHT).unwrap().port = behind - PORT_OFFSET;
    });
    let (code, sentence) = pair.left.fails(RIGHT, get("/v1/members")).await;
    assert_eq!(code, Code::NotReached);
    assert!(sentence.starts_with("member 'right' has no port for requests of"), "{sentence}");
    assert_eq!(pair.left.fails(MemberId(9), get("/v1/members")).await.0, Code::NoSuchMember);
    pair.left.app.roll.replace(None);
    assert_eq!(pair.left.fails(RIGHT, get("/v1/members")).await.0, Code::NoGroup);
    assert!(pair.right.asked().is_empty());
}

#[tokio::test]
async fn whose_port_another_program_has_says_so_once_and_listens_when_it_is_free() {
    let pair = silent().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    pair.right.hears(|now| {
        now.roll.members.get_mut(&RIGHT).unwrap().port = address.port() - PORT_OFFSET;
    });
    let told = || {
        let all = pair.right.app.events_after(0, usize::MAX);
        all.iter().filter(|event| event.kind == Kind::MembersNotAnswered.word()).count()
    };
    until("it is told", async || told() > 0).await;
    sleep(Duration::from_millis(1500)).await;
    drop(taken);
    until("it listens", async || can_connect(address).await).await;
    assert_eq!(told(), 1);
}

#[tokio::test]
async fn who_is_another_one_than_was_meant_is_asked_nothing() {
    let pair = silent().await;
    // One of the same group, and one of another.
    let other = issue(&pair.authority, "right");
    pair.left.hears(|now| {
        now.roll.members.get_mut(&RIGHT).unwrap().certificate_sha256 = other.sha256.clone();
    });
    let (code, sentence) = pair.left.fails(RIGHT, get("/v1/members")).await;
    assert_eq!(code, Code::OtherGroup, "{sentence}");
    assert!(sentence.ends_with("nothing was asked of it"), "{sentence}");
    let theirs = authority();
    pair.left.hears(|now| now.authority = theirs.certificate_pem().to_owned());
    assert_eq!(pair.left.fails(RIGHT, get("/v1/members")).await.0, Code::OtherGroup);
    assert!(pair.right.asked().is_empty());
}

#[tokio::test]
async fn a_member_that_is_not_known_there_hears_so() {
    let pair = silent().await;
    pair.right.hears(|now| {
        now.roll.members.remove(&LEFT);
    });
    for asked in [get("/v1/members"), request(Method::DELETE, "/v1/members/old")] {
        let (code, sentence) = pair.left.fails(RIGHT, asked).await;
        assert_eq!(code, Code::NotReached, "{sentence}");
        assert!(sentence.contains("does not know this one as a member"), "{sentence}");
    }
    assert!(pair.right.asked().is_empty());
}

#[tokio::test]
async fn what_cannot_be_used_for_tls_is_told() {
    let pair = silent().await;
    let theirs = issue(&pair.authority, "other");
    pair.left.hears(|now| now.key = SecretWord(theirs.key_pem.clone()));
    let (code, sentence) = pair.left.fails(RIGHT, get("/v1/members")).await;
    assert_eq!(code, Code::Failed);
    assert!(sentence.starts_with("no TLS can be spoken with other members: "), "{sentence}");
    pair.left.hears(|now| now.key = SecretWord("no key: hush".to_owned().into()));
    let (_, sentence) = pair.left.fails(RIGHT, get("/v1/members")).await;
    assert!(!sentence.contains("hush"), "{sentence}");
}

#[tokio::test]
async fn who_goes_away_while_it_is_asked_is_not_waited_for() {
    let pair = silent().await;
    let asking = pair.left.fails(RIGHT, request(Method::DELETE, "/v1/members/old"));
    let goes_away = async {
        until("it is asked", async || pair.right.asked() == [removal("old")]).await;
        // As long as nothing is heard of the group, nobody knows who is away.
        pair.left.hears(|now| {
            now.roll.present.clear();
            now.store_fault = Some("it does not answer".to_owned());
        });
        sleep(Duration::from_secs(2)).await;
        pair.left.hears(|now| now.roll.present.clear());
    };
    let begun = Instant::now();
    let ((code, sentence), ()) = tokio::join!(asking, goes_away);
    assert!(begun.elapsed() >= Duration::from_secs(2), "{sentence}");
    assert_eq!(code, Code::Unavailable, "it may have done it");
    assert!(sentence.starts_with("member 'right' went away while it was asked"), "{sentence}");
}

/// What comes of a request to one that has the certificate of the second member and answers any head with this.
async fn answered(pair: &Pair, asked: Asked, answer: &'static str) -> (Code, String) {
    let own = &pair.right.now;
    let proof = Proof { authority: &own.authority, certificate: &own.certificate, key: &own.key };
    let config = server_config(proof, pair.right.app.roll.clone()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    pair.left.hears(|now| now.roll.members.get_mut(&RIGHT).unwrap().port = port - PORT_OFFSET);
    let answers = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = TlsAcceptor::from(config).accept(stream).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    };
    tokio::join!(pair.left.fails(RIGHT, asked), answers).0
}

#[tokio::test]
async fn what_is_no_answer_is_told_by_what_was_asked() {
    let pair = silent().await;
    let (code, sentence) = answered(&pair, get("/v1/members"), "SSH-2.0-x\r\n\r\n").await;
    assert_eq!(code, Code::OtherVersion, "{sentence}");
    let (code, sentence) = answered(&pair, get("/v1/members"), "").await;
    assert_eq!(code, Code::Unavailable);
    assert!(sentence.ends_with("try again"), "{sentence}");
    let change = request(Method::DELETE, "/v1/members/old");
    let (code, sentence) = answered(&pair, change, "").await;
    assert_eq!(code, Code::Unavailable);
    assert!(sentence.contains("look whether it has done it"), "{sentence}");
}

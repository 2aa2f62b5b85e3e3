//! What one member has another one do.

use axum::http::header::{CONTENT_TYPE, IF_MATCH};
use axum::http::{HeaderValue, StatusCode};
use group::membership::MembershipError;
use http_body_util::BodyExt;
use member::audit::Action;
use member::events::{Event, Kind};
use member::{GroupError, KeptTicket, SpreadRequest, VolumeRequest};
use tokio::time::timeout;
use tower::ServiceExt;

use super::*;
use crate::server::carry::{AnsweredBy, Budget, Carried, MEMBER, fetch};
use crate::server::connections::Means;
use crate::server::idempotency::{IDEMPOTENCY_KEY, Repeated};
use crate::server::routes;
use crate::types::JoinToken;

/// A pair of which the second member does all that it is asked.
async fn willing() -> Pair {
    Pair::begin(|_| Some(Ok(Answer::Done))).await
}

#[tokio::test]
async fn a_change_is_done_by_the_other_member_and_is_on_record_there() {
    let pair = willing().await;
    let answer = pair.left.sends(RIGHT, request(Method::DELETE, "/v1/members/old")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert_eq!(answer.headers()[MEMBER], "right");
    let answered_by = answer.extensions().get::<AnsweredBy>();
    assert_eq!(answered_by, Some(&AnsweredBy("right".to_owned())));
    assert_eq!(pair.right.asked(), [removal("old")]);
    assert!(pair.left.asked().is_empty());
    let entries = pair.right.entries();
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((entry.action, entry.done), (Action::Change, true));
    assert_eq!(entry.who.account.as_deref(), Some("user with uid 4294967288"));
    assert_eq!(entry.who.uid, None, "it is a user of another machine");
    assert_eq!(entry.from, "control socket via member 'left'");
    assert_eq!(entry.operation, "DELETE /v1/members/{name}");
}

#[tokio::test]
async fn what_is_asked_at_the_interface_for_another_member_is_on_record_at_both() {
    let pair = willing().await;
    let mut asked = request(Method::DELETE, "/v1/members/old");
    asked.extensions_mut().insert(Peer::Process { uid: u32::MAX - 7, pid: None });
    asked.headers_mut().insert(MEMBER, HeaderValue::from_static("right"));
    let answer = routes::router(pair.left.app.clone()).oneshot(asked).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert_eq!(pair.right.asked(), [removal("old")]);
    assert!(pair.left.asked().is_empty());
    let [here, there] = [&pair.left, &pair.right].map(Site::entries);
    let ([here], [there]) = (&here[..], &there[..]) else { panic!("{here:?} {there:?}") };
    assert!(here.done && here.outcome.starts_with("204 after "), "{here:?}");
    assert!(here.outcome.ends_with(" by member 'right'"), "{here:?}");
    assert_eq!((here.who.uid, &*here.from), (Some(u32::MAX - 7), "control socket"));
    assert!(there.from.ends_with(" via member 'left'"), "{there:?}");
    assert!(!there.outcome.contains("by member"), "{there:?}");
}

/// What somebody asks at the address of the group, where the first member answers now, of the member that is named.
async fn at_group(pair: &Pair, (method, path): (Method, &str), named: Option<&str>) -> Response {
    let mut asked = request(method, path);
    asked.extensions_mut().insert(Peer::Process { uid: u32::MAX - 7, pid: None });
    asked.extensions_mut().insert(Means::Group);
    if let Some(named) = named {
        asked.headers_mut().insert(MEMBER, HeaderValue::from_str(named).expect("a name"));
    }
    routes::router(pair.left.app.clone()).oneshot(asked).await.expect("it is answered")
}

#[tokio::test]
async fn at_the_address_of_the_group_what_is_about_one_member_is_done_by_the_one_that_is_named() {
    let pair = willing().await;
    let clear = || (Method::POST, "/v1/disks/2/clear");
    for named in [None, Some("@here")] {
        let refused = at_group(&pair, clear(), named).await;
        assert_eq!(refused.status(), StatusCode::CONFLICT, "{named:?}");
        assert_eq!(code(refused).await, "several-members");
    }
    // A volume has one member, but what `@here` has of it is what one member has.
    let purge = || (Method::POST, "/v1/volumes/a/purge");
    assert_eq!(at_group(&pair, purge(), Some("@here")).await.status(), StatusCode::CONFLICT);
    for path in ["/v1/events/stream?from=7", "/v1/runs/1-1", "/v1/runs/1-1/stream"] {
        let refused = at_group(&pair, (Method::GET, path), None).await;
        assert_eq!(refused.status(), StatusCode::CONFLICT, "{path}");
    }
    assert!(pair.left.asked().is_empty() && pair.right.asked().is_empty(), "nothing was done");
    // By its name it is done there, whichever member has the address.
    let done = at_group(&pair, clear(), Some("right")).await;
    assert_eq!(done.headers()[MEMBER], "right");
    assert_eq!((pair.left.asked().len(), pair.right.asked().len()), (0, 1));
    let followed = at_group(&pair, (Method::GET, "/v1/events/stream?from=7"), Some("right")).await;
    assert_eq!(followed.status(), StatusCode::OK);
    assert_eq!(followed.headers()[MEMBER], "right");
    let run = at_group(&pair, (Method::GET, "/v1/runs/1-1"), Some("right")).await;
    assert_eq!(run.headers()[MEMBER], "right");
    assert_eq!(code(run).await, "no-such-run");
    // What is the group's, or a volume's, needs no name.
    at_group(&pair, (Method::DELETE, "/v1/members/old"), None).await;
    assert_eq!(pair.left.asked(), [removal("old")]);
    let looked = at_group(&pair, (Method::GET, "/v1/runs"), None).await;
    assert_eq!(looked.status(), StatusCode::OK, "who looks only looks");
    let purged = at_group(&pair, purge(), None).await;
    assert_ne!(purged.status(), StatusCode::CONFLICT);
    // A member that is in no group any more says the same, whatever came in before.
    pair.left.app.roll.replace(None);
    assert_eq!(at_group(&pair, clear(), None).await.status(), StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_key_and_a_tag_go_along() {
    let pair = willing().await;
    let keyed = || {
        let mut asked = request(Method::POST, "/v1/volumes/a/purge");
        asked.headers_mut().insert(IDEMPOTENCY_KEY, HeaderValue::from_static("once"));
        asked
    };
    let purge = Request::Volume(VolumeRequest::Purge { name: "a".to_owned() });
    // Whether it lies on several members is looked for first.
    let is_change = |it: &Request| *it != Request::Spread(SpreadRequest::List);
    let changes = || pair.right.asked().into_iter().filter(is_change).collect::<Vec<_>>();
    for is_repeated in [false, true] {
        let answer = pair.left.sends(RIGHT, keyed()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::NO_CONTENT);
        assert_eq!(answer.extensions().get::<Repeated>().is_some(), is_repeated);
        assert!(!answer.headers().contains_key("drystone-repeated"), "it is between members");
        assert_eq!(changes(), std::slice::from_ref(&purge));
    }
    assert_eq!(pair.right.entries().len(), 1, "nothing was done the second time");
    let mut tagged = request(Method::DELETE, "/v1/members/old");
    tagged.headers_mut().insert(IF_MATCH, HeaderValue::from_static("\"1\""));
    let answer = pair.left.sends(RIGHT, tagged).await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(text(answer).await.contains("takes no If-Match"));
    assert_eq!(changes(), [purge]);
}

#[tokio::test]
async fn a_body_goes_along_and_a_refusal_comes_as_the_other_member_says_it() {
    let pair = Pair::begin(|asked| {
        let Request::Group(GroupRequest::Rename { name }) = asked else { return None };
        Some(Err(GroupError::from(MembershipError::NoSuchMember(name.clone())).into()))
    })
    .await;
    let body = Body::from("{\"name\": \"yard\"}");
    let asked = HttpRequest::patch("/v1/group").header(CONTENT_TYPE, "application/json");
    let answer = pair.left.sends(RIGHT, asked.body(body).unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    assert_eq!(answer.headers()[CONTENT_TYPE], crate::problem::PROBLEM_JSON);
    assert_eq!(code(answer).await, "no-such-member");
    let rename = Request::Group(GroupRequest::Rename { name: "yard".to_owned() });
    assert_eq!(pair.right.asked(), [rename]);
}

#[tokio::test]
async fn a_body_that_is_too_large_goes_nowhere() {
    let pair = willing().await;
    let body = Body::from(vec![b' '; (1 << 20) + 1]);
    let asked = HttpRequest::patch("/v1/group").body(body).unwrap();
    assert_eq!(pair.left.fails(RIGHT, asked).await.0, Code::BodyTooLarge);
    assert!(pair.right.asked().is_empty());
    assert!(pair.right.entries().is_empty());
}

#[tokio::test]
async fn a_list_is_fetched_to_its_last_page() {
    let ticket = |number: u64| KeptTicket {
        id: format!("{number:08x}"),
        created_unix_seconds: number,
        expires_unix_seconds: number,
    };
    let pair = Pair::begin(move |asked| {
        let is_it = *asked == Request::Group(GroupRequest::Tickets);
        is_it.then(|| Ok(Answer::JoinTickets((1..=5).map(ticket).collect())))
    })
    .await;
    let (path, budget) = ("/v1/group/tokens?limit=2", Budget::default());
    let all = fetch::<JoinToken>(&pair.left.app, RIGHT, &user(), path, &budget).await.unwrap();
    let ids: Vec<_> = all.iter().map(|token| token.id.as_str()).collect();
    assert_eq!(ids, ["00000001", "00000002", "00000003", "00000004", "00000005"]);
    assert_eq!(pair.right.asked().len(), 3, "one for each page");
    // What is no such list, and what is refused.
    let strange =
        fetch::<Vec<u8>>(&pair.left.app, RIGHT, &user(), path, &budget).await.unwrap_err();
    assert_eq!(strange.code, Code::OtherVersion);
    assert!(strange.detail.starts_with("member 'right' answers in a way"), "{strange}");
    let wrong = "/v1/group/tokens?limit=0";
    let refused =
        fetch::<JoinToken>(&pair.left.app, RIGHT, &user(), wrong, &budget).await.unwrap_err();
    assert_eq!(refused.code, Code::Invalid);
}

#[tokio::test]
async fn nothing_is_carried_on_or_to_oneself() {
    let pair = willing().await;
    let behalf = user().behalf("left").expect("nobody has carried it yet");
    let from = "127.0.0.1:9".parse().unwrap();
    let peer = Peer::Member { from, certificate: [7; 32] };
    let carried = Caller::carried(peer, Carried { behalf, member: "third".to_owned() });
    let sent = crate::server::carry::send(&pair.left.app, RIGHT, &carried, get("/v1/members"));
    let refused = sent.await.map(|answer| answer.status()).unwrap_err();
    assert_eq!(refused.code, Code::Failed);
    assert!(refused.detail.ends_with("it is not carried on"), "{refused}");
    assert_eq!(pair.left.fails(LEFT, get("/v1/members")).await.0, Code::Failed);
    // Whatever the head says: who is asked by a member does it.
    let mut asked = request(Method::DELETE, "/v1/members/old");
    asked.headers_mut().insert(MEMBER, HeaderValue::from_static("left"));
    let answer = pair.left.sends(RIGHT, asked).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert_eq!((pair.left.asked().len(), pair.right.asked().len()), (0, 1));
}

/// Follows the events of the second member.
async fn follow(pair: &Pair) -> Response {
    pair.left.sends(RIGHT, get("/v1/events/stream?from=1")).await.unwrap()
}

/// What of a stream there is until this comes.
async fn hear(body: &mut Body, wanted: &str) -> String {
    let mut heard = String::new();
    let hearing = async {
        while !heard.contains(wanted) {
            let frame = body.frame().await.expect("it goes on").expect("it goes well");
            let data = frame.into_data().expect("no trailers");
            heard.push_str(&String::from_utf8_lossy(&data));
        }
    };
    timeout(Duration::from_secs(20), hearing).await.expect("it comes");
    heard
}

#[tokio::test]
async fn a_stream_comes_as_it_is_told_and_ends_when_its_member_is_removed() {
    let pair = willing().await;
    let answer = follow(&pair).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let mut body = answer.into_body();
    let event = Event::of_member(Kind::CertificateRenewed, "as a test wants it");
    pair.right.app.logs.events.tell(event);
    let heard = hear(&mut body, "as a test wants it").await;
    assert!(heard.contains("event: event"), "{heard}");
    pair.right.hears(|now| {
        now.roll.members.remove(&LEFT);
    });
    let heard = hear(&mut body, "is not in the group any more").await;
    assert!(heard.contains("event: problem"), "{heard}");
    assert!(body.frame().await.is_none(), "that was the last");
}

#[tokio::test]
async fn who_leaves_a_stream_gives_its_place_back_at_both_ends() {
    let pair = willing().await;
    // As many as the second member lets the first one follow: half of its four.
    let followed = [follow(&pair).await, follow(&pair).await];
    assert!(followed.iter().all(|answer| answer.status() == StatusCode::OK));
    let refused = follow(&pair).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(code(refused).await, "too-busy");
    drop(followed);
    until("there is room", async || follow(&pair).await.status() == StatusCode::OK).await;
}

#[tokio::test]
async fn a_member_that_is_in_no_group_is_not_to_be_asked_until_it_is_in_one() {
    let pair = willing().await;
    let address = pair.right.address();
    pair.right.app.roll.replace(None);
    until("it does not listen", async || !can_connect(address).await).await;
    pair.right.hears(|_| ());
    until("it listens again", async || can_connect(address).await).await;
    let answer = pair.left.sends(RIGHT, request(Method::DELETE, "/v1/members/old")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
}

//! Where requests go, as far as that is known without asking another member.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Uri};
use group::accounts::{Logins, Role, Token, TokenHash, TokenText};
use group::membership::{Inventory, ListedVolume, MemberRecord, Pool, Roll, Shown};
use member::SecretWord;
use tempfile::TempDir;
use zeroize::Zeroizing;

use super::*;
use crate::server::app::{Ask, Done, Follower};
use crate::server::login::Doorkeeper;
use crate::server::peer::Peer;
use crate::server::sets::Spread;
use crate::server::testing;
use crate::types::Interface;

const LEFT: MemberId = MemberId(1);
const RIGHT: MemberId = MemberId(2);
const THIRD: MemberId = MemberId(3);
/// It is away.
const FAR: MemberId = MemberId(4);

const GIB: u64 = 1 << 30;

/// A member that answers nothing: nothing here asks it.
struct Silent;

impl Ask for Silent {
    fn ask(&self, _: member::Request, _: Follower, _: Done) {}

    fn logins(&self) -> Option<Arc<Logins>> {
        None
    }
}

fn record(number: MemberId, name: &str) -> MemberRecord {
    MemberRecord {
        name: name.to_owned(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 3262 + 10 * number.0,
        certificate_sha256: String::new(),
        array: name.to_owned(),
        version: "0.1.0".to_owned(),
        joined_unix_seconds: 7,
        incarnation: 7,
    }
}

fn inventory(volumes: &[&str], free_bytes: u64) -> Inventory {
    let listed = |name: &&str| ListedVolume {
        name: (*name).to_owned(),
        iqn: format!("iqn.2026-11.dev.drystone:01:{name}"),
        serial: String::new(),
        size_bytes: GIB,
        is_online: true,
        is_lost: false,
        shown: Shown::default(),
    };
    Inventory { volumes: volumes.iter().map(listed).collect(), free_bytes, ..Inventory::default() }
}

/// A group of four, of which one is away. Two have a volume `twice`.
fn roll() -> Roll {
    let mut roll = Roll::default();
    for (number, name, inventory) in [
        (LEFT, "left", inventory(&["a", "both"], GIB)),
        (RIGHT, "right", inventory(&["b", "both", "twice"], 4 * GIB)),
        (THIRD, "third", inventory(&["c", "twice"], 2 * GIB)),
        (FAR, "far", inventory(&["f"], 100 * GIB)),
    ] {
        roll.members.insert(number, record(number, name));
        roll.inventories.insert(number, Arc::new(inventory));
        if number != FAR {
            roll.present.insert(number, 7);
        }
    }
    roll.pools.insert("ssd".to_owned(), Pool { members: BTreeSet::from([THIRD]) });
    roll
}

struct Bed {
    app: Arc<App>,
    roll: Roll,
    store_fault: Option<String>,
    caller: Caller,
    _dir: TempDir,
}

impl Bed {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let config = testing::config(dir.path());
        let app = App::new(Arc::new(Silent), &config, 1, Interface::default());
        let caller = Caller::at_socket(Peer::Process { uid: 0, pid: None });
        Self { app: Arc::new(app), roll: roll(), store_fault: None, caller, _dir: dir }
    }

    /// What a member says anew.
    fn says(&mut self, member: MemberId, change: impl FnOnce(&mut Inventory)) {
        let inventory = self.roll.inventories.get_mut(&member).expect("it has said something");
        change(Arc::make_mut(inventory));
    }

    fn asked(&self) -> Asked<'_> {
        let now = RollNow {
            me: LEFT,
            name: "left".to_owned(),
            roll: self.roll.clone(),
            store_fault: self.store_fault.clone(),
            authority: String::new(),
            certificate: String::new(),
            key: SecretWord(Zeroizing::new(String::new())),
        };
        Asked::new(&self.app, Arc::new(now), self.caller.clone())
    }

    /// Where a request goes whose path has this name and whose body is this one.
    async fn goes(
        &self,
        whose: Whose,
        name: &str,
        body: &str,
    ) -> Result<Option<MemberId>, Problem> {
        let path = HashMap::from([("name".to_owned(), name.to_owned())]);
        let (mut parts, ()) = Request::new(()).into_parts();
        let told = told_by(&Bytes::copy_from_slice(body.as_bytes()));
        self.asked().whose(whose, &path, &told, &mut parts).await
    }

    async fn volume(&self, name: &str) -> Result<Option<MemberId>, Problem> {
        self.goes(Whose::Volume, name, "").await
    }
}

/// An administrator who has logged in over TLS.
async fn remote() -> Caller {
    let text = TokenText::draw().expect("randomness");
    let token = Token {
        role: Role::Administrator,
        hash: TokenHash::of(text.as_str()),
        created_unix_seconds: 1,
        expires_unix_seconds: None,
        used_unix_seconds: None,
    };
    let logins = Logins { tokens: [("ci".to_owned(), token)].into(), ..Logins::default() };
    let bearer = HeaderValue::try_from(format!("Bearer {}", text.as_str())).expect("plain text");
    let (headers, from) = (HeaderMap::from_iter([(AUTHORIZATION, bearer)]), "192.0.2.1:7");
    let from = from.parse().expect("an address");
    let found = Doorkeeper::default().identify(&logins, from, &headers).await;
    let (login, role) = found.expect("the token is right");
    Caller::logged_in(Peer::Remote(from), login, role)
}

/// Where a request of no route goes, which names this member.
async fn goes_to(bed: &Bed, member: &str) -> Result<Option<MemberId>, Problem> {
    let request = Request::post("/v1/accounts").header(MEMBER, member).body(Body::empty());
    bed.asked().way(request.expect("a request")).await.map(|way| way.to)
}

#[tokio::test]
async fn who_logs_in_at_a_member_that_keeps_to_its_own_accounts_is_nobody_to_others() {
    let mut bed = Bed::new();
    bed.says(RIGHT, |inventory| inventory.schedules = vec!["nightly".to_owned()]);
    assert_eq!(goes_to(&bed, "right").await.unwrap(), Some(RIGHT), "who is at the socket");
    bed.caller = remote().await;
    let keeps = |outcome| {
        let (code, told) = refused(outcome);
        assert_eq!(code, Code::Forbidden, "{told}");
        assert!(told.starts_with("this member keeps to accounts of its own"), "{told}");
    };
    for other in ["right", "far"] {
        keeps(goes_to(&bed, other).await);
    }
    keeps(bed.volume("b").await);
    keeps(bed.volume("f").await);
    keeps(bed.goes(Whose::VolumeAndNew, "b", "").await);
    keeps(bed.goes(Whose::Schedule, "nightly", "").await);
    keeps(bed.goes(Whose::Volumes, "", r#"{"volumes": ["b"]}"#).await);
    keeps(bed.goes(Whose::Placed, "", r#"{"name": "b", "size_bytes": 512}"#).await);
    let of_pool = r#"{"name": "new", "size_bytes": 512, "pool": "ssd"}"#;
    assert_eq!(refused(bed.goes(Whose::Placed, "", of_pool).await).0, Code::Invalid);
    let taken = r#"{"name": "nightly", "volumes": ["a"]}"#;
    assert_eq!(refused(bed.goes(Whose::NewSchedule, "", taken).await).0, Code::NameTaken);

    // What is of this member is done here.
    assert_eq!(goes_to(&bed, "left").await.unwrap(), None);
    assert_eq!(goes_to(&bed, HERE).await.unwrap(), None);
    assert_eq!(bed.volume("a").await.unwrap(), Some(LEFT));
    assert_eq!(bed.volume("both").await.unwrap(), Some(LEFT));
    assert_eq!(bed.volume("none").await.unwrap(), None);
    let new = r#"{"name": "new", "size_bytes": 1099511627776}"#;
    assert_eq!(bed.goes(Whose::Placed, "", new).await.unwrap(), Some(LEFT), "not where room is");
    let (mut parts, ()) = Request::new(()).into_parts();
    let (asked, none) = (bed.asked(), HashMap::new());
    let listed = asked.whose(Whose::Merged, &none, &Told::default(), &mut parts).await;
    assert_eq!(listed.unwrap(), None);
    assert!(parts.extensions.get::<Meant>().is_none(), "it is a list of this member");
    drop(asked);

    bed.says(LEFT, |inventory| inventory.shares = true);
    assert_eq!(goes_to(&bed, "right").await.unwrap(), Some(RIGHT));
    assert_eq!(bed.volume("b").await.unwrap(), Some(RIGHT));
}

#[tokio::test]
async fn a_member_that_has_said_nothing_of_itself_shares_nothing() {
    let mut bed = Bed::new();
    bed.caller = remote().await;
    bed.roll.inventories.remove(&LEFT);
    assert_eq!(refused(goes_to(&bed, "right").await).0, Code::Forbidden);
}

fn refused(outcome: Result<Option<MemberId>, Problem>) -> (Code, String) {
    let problem = outcome.expect_err("it goes nowhere");
    (problem.code, problem.detail)
}

#[tokio::test]
async fn a_volume_is_where_a_member_says_that_it_is() {
    let mut bed = Bed::new();
    bed.says(RIGHT, |inventory| inventory.deleted = vec!["old".to_owned()]);
    assert_eq!(bed.volume("a").await.unwrap(), Some(LEFT));
    assert_eq!(bed.volume("b").await.unwrap(), Some(RIGHT));
    assert_eq!(bed.volume("old").await.unwrap(), Some(RIGHT), "in the recycle bin");
    assert_eq!(bed.volume("none").await.unwrap(), None);
    let (code, told) = refused(bed.volume("twice").await);
    assert_eq!(code, Code::SeveralMembers);
    assert!(told.contains("on two members, 'right' and 'third'"), "{told}");
    assert!(told.contains("--on MEMBER"), "{told}");
    // One that has moved is where it is served, and what no serial number says to be one is two.
    for (serials, found) in [(["S1", "S1"], Some(THIRD)), (["S1", "S2"], None), (["", ""], None)] {
        for (member, serial, is_online) in [(RIGHT, serials[0], false), (THIRD, serials[1], true)] {
            bed.says(member, |inventory| {
                let all = &mut inventory.volumes;
                let twice = all.iter_mut().find(|it| it.name == "twice").expect("it is listed");
                (twice.serial, twice.is_online) = (serial.to_owned(), is_online);
            });
        }
        assert_eq!(bed.volume("twice").await.ok().flatten(), found, "{serials:?}");
    }
    // This one is no other.
    let (code, told) = refused(bed.volume("both").await);
    assert_eq!(code, Code::SeveralMembers);
    assert!(told.contains("on two members, 'left' and 'right'"), "{told}");
}

#[tokio::test]
async fn what_was_made_here_a_moment_ago_is_here_whatever_was_told_before() {
    let bed = Bed::new();
    let made = Named { made: vec![(Kind::Volume, "both".to_owned())], gone: Vec::new() };
    bed.app.whereabouts.learn(made, LEFT);
    assert_eq!(bed.volume("both").await.unwrap(), Some(LEFT));
}

#[tokio::test]
async fn what_is_found_nowhere_may_be_on_a_member_that_says_nothing() {
    let mut bed = Bed::new();
    let asked = bed.asked();
    assert_eq!(asked.look_for(Kind::Volume, "none").await.unwrap(), None);
    let why = asked.unsure.get().expect("right and third say nothing");
    assert_eq!(why.code, Code::NotReached);
    assert!(why.detail.ends_with("cannot be asked whether it has it"), "{why}");
    drop(asked);
    // What those have that are away is what they told.
    bed.roll.present.retain(|member, _| *member == LEFT);
    let asked = bed.asked();
    assert_eq!(asked.look_for(Kind::Volume, "none").await.unwrap(), None);
    assert_eq!(asked.unsure.get(), None);
}

#[tokio::test]
async fn what_was_not_answered_is_asked_for_again_where_it_may_be() {
    let bed = Bed::new();
    let told = told_by(&Bytes::from_static(br#"{"name": "new", "size_bytes": 512}"#));
    let asked = bed.asked();
    let fails = |name: &str, code: Code| {
        let named = Named { made: vec![(Kind::Volume, name.to_owned())], gone: Vec::new() };
        asked.learn_of_failure(&named, THIRD, &Problem::new(code, "so it is"));
    };
    fails("new", Code::NotReached);
    assert_eq!(asked.placed(&told).unwrap(), Some(RIGHT), "it was asked nothing");
    fails("new", Code::Unavailable);
    assert_eq!(asked.placed(&told).unwrap(), Some(THIRD));
    // Another one has this.
    fails("b", Code::Unavailable);
    assert_eq!(bed.volume("b").await.unwrap(), Some(RIGHT));
}

#[tokio::test]
async fn of_a_snapshot_the_volume_counts() {
    let bed = Bed::new();
    let words = [("volume", "b"), ("name", "a")];
    let path = words.map(|(key, word)| (key.to_owned(), word.to_owned()));
    let (mut parts, ()) = Request::new(()).into_parts();
    let (asked, told) = (bed.asked(), Told::default());
    let on = asked.whose(Whose::Volume, &HashMap::from(path), &told, &mut parts).await;
    assert_eq!(on.unwrap(), Some(RIGHT));
}

#[tokio::test]
async fn what_is_on_a_member_that_is_away_is_said_to_be_there() {
    let mut bed = Bed::new();
    let (code, told) = refused(bed.volume("f").await);
    assert_eq!(code, Code::NotReached);
    assert!(told.starts_with("volume 'f' is on member 'far', which is away: "), "{told}");
    // While the store does not answer nobody knows who is away: it is tried.
    bed.store_fault = Some("it does not answer".to_owned());
    assert_eq!(bed.volume("f").await.unwrap(), Some(FAR));
}

#[tokio::test]
async fn what_was_made_a_moment_ago_is_found_before_its_member_says_so() {
    let bed = Bed::new();
    let made = Named { made: vec![(Kind::Volume, "new".to_owned())], gone: Vec::new() };
    bed.app.whereabouts.learn(made, RIGHT);
    assert_eq!(bed.volume("new").await.unwrap(), Some(RIGHT));
    let gone = Named { made: Vec::new(), gone: vec![(Kind::Volume, "new".to_owned())] };
    bed.app.whereabouts.learn(gone, RIGHT);
    assert_eq!(bed.volume("new").await.unwrap(), None);
    // Its member was removed.
    let made = Named { made: vec![(Kind::Volume, "new".to_owned())], gone: Vec::new() };
    bed.app.whereabouts.learn(made, MemberId(9));
    assert_eq!(bed.volume("new").await.unwrap(), None);
}

#[tokio::test]
async fn snapshots_of_one_moment_are_taken_where_their_volumes_are() {
    let bed = Bed::new();
    let of = |body: &'static str| bed.goes(Whose::Volumes, "", body);
    assert_eq!(of(r#"{"volumes": ["b", "b", "none"]}"#).await.unwrap(), Some(RIGHT));
    assert_eq!(of(r#"{"volumes": ["a"]}"#).await.unwrap(), Some(LEFT));
    let unknown = r#"{"volumes": ["x"]}"#;
    for here in ["", "[]", "{}", r#"{"volumes": []}"#, r#"{"volumes": 7}"#, unknown] {
        assert_eq!(of(here).await.unwrap(), None, "{here}");
    }
    // Of several members this one has each take its own, and is asked for what nobody has.
    let (mut parts, ()) = Request::new(()).into_parts();
    let several = told_by(&Bytes::from_static(br#"{"volumes": ["b", "a", "none"]}"#));
    let asked = bed.asked();
    let on = asked.whose(Whose::Volumes, &HashMap::new(), &several, &mut parts).await;
    assert_eq!(on.unwrap(), None);
    drop(asked);
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let wanted = BTreeMap::from([(LEFT, owned(&["a", "none"])), (RIGHT, owned(&["b"]))]);
    assert_eq!(parts.extensions.get::<Spread>().map(|it| it.0.clone()), Some(wanted));
    let (code, _) = refused(of(r#"{"volumes": ["f"]}"#).await);
    assert_eq!(code, Code::NotReached);
    // More than any request may have, the last of which is elsewhere.
    let many = [["b"; LOOKED_FOR_MAX].as_slice(), &["a"]].concat();
    let many = serde_json::json!({"volumes": many}).to_string();
    assert_eq!(bed.goes(Whose::Volumes, "", &many).await.unwrap(), None, "this one has it done");
    let (code, told) = refused(
        bed.goes(Whose::NewSchedule, "", r#"{"name": "new", "volumes": ["a", "b"]}"#).await,
    );
    assert_eq!(code, Code::SeveralMembers);
    assert!(told.ends_with("yet: 'a' is on 'left', 'b' is on 'right'"), "{told}");
}

#[tokio::test]
async fn a_schedule_stays_with_its_volumes() {
    let mut bed = Bed::new();
    bed.says(RIGHT, |inventory| inventory.schedules = vec!["nightly".to_owned()]);
    bed.says(FAR, |inventory| inventory.schedules = vec!["weekly".to_owned()]);
    let change = |body: &'static str| bed.goes(Whose::ChangedSchedule, "nightly", body);
    assert_eq!(bed.goes(Whose::Schedule, "nightly", "").await.unwrap(), Some(RIGHT));
    assert_eq!(change(r#"{"keep": 7}"#).await.unwrap(), Some(RIGHT));
    assert_eq!(change(r#"{"volumes": ["b", "none"]}"#).await.unwrap(), Some(RIGHT));
    let (code, told) = refused(change(r#"{"volumes": ["a"]}"#).await);
    assert_eq!(code, Code::SeveralMembers);
    assert!(told.ends_with("the schedule is on 'right', 'a' on 'left'"), "{told}");

    let new = |body: &'static str| bed.goes(Whose::NewSchedule, "", body);
    let made = new(r#"{"name": "hourly", "volumes": ["b"]}"#).await;
    assert_eq!(made.unwrap(), Some(RIGHT));
    // Its own member refuses it, or answers what it answered before.
    let again = new(r#"{"name": "nightly", "volumes": ["b"]}"#).await;
    assert_eq!(again.unwrap(), Some(RIGHT));
    // One that is away cannot be asked whether it has it still.
    let (code, told) = refused(new(r#"{"name": "weekly", "volumes": ["b"]}"#).await);
    assert_eq!(code, Code::NameTaken);
    assert!(told.starts_with("member 'far' has a schedule 'weekly' already"), "{told}");
    // Nor can one that does not answer.
    let (code, told) = refused(new(r#"{"name": "nightly", "volumes": ["a"]}"#).await);
    assert_eq!(code, Code::NotReached);
    assert!(told.ends_with("member 'right' cannot be asked whether it has it"), "{told}");
}

#[tokio::test]
async fn a_new_volume_goes_where_most_room_is() {
    let mut bed = Bed::new();
    let placed = |bed: &Bed, body: &'static str| {
        let told = told_by(&Bytes::from_static(body.as_bytes()));
        bed.asked().placed(&told)
    };
    let thin = r#"{"name": "new", "size_bytes": 1099511627776}"#;
    assert_eq!(placed(&bed, thin).unwrap(), Some(RIGHT), "far is away");
    let of_pool = r#"{"name": "new", "size_bytes": 512, "pool": "ssd"}"#;
    assert_eq!(placed(&bed, of_pool).unwrap(), Some(THIRD));
    let (code, _) = refused(placed(&bed, r#"{"name": "n", "size_bytes": 512, "pool": "tape"}"#));
    assert_eq!(code, Code::NoSuchPool);
    let thick = r#"{"name": "new", "size_bytes": 1099511627776, "thick": true}"#;
    assert_eq!(refused(placed(&bed, thick)).0, Code::NoSpace);
    // A name that is taken: its member says so.
    assert_eq!(placed(&bed, r#"{"name": "c", "size_bytes": 512}"#).unwrap(), Some(THIRD));
    assert_eq!(placed(&bed, r#"{"name": "a", "size_bytes": 512}"#).unwrap(), Some(LEFT));
    let (code, _) = refused(placed(&bed, r#"{"name": "f", "size_bytes": 512}"#));
    assert_eq!(code, Code::NotReached);
    // What does not read is refused here.
    for here in ["", "{}", r#"{"name": "new"}"#, r#"{"name": 7, "size_bytes": 512}"#] {
        assert_eq!(placed(&bed, here).unwrap(), None, "{here}");
    }
    bed.roll.present.remove(&THIRD);
    assert_eq!(refused(placed(&bed, of_pool)).0, Code::Unavailable);
    // Without the store no name is promised: this member says so, rather than that a port of another one is closed.
    bed.store_fault = Some("it does not answer".to_owned());
    assert_eq!(placed(&bed, thin).unwrap(), Some(LEFT));
    assert_eq!(placed(&bed, r#"{"name": "c", "size_bytes": 512}"#).unwrap(), Some(THIRD));
}

#[tokio::test]
async fn a_new_volume_has_a_second_member_unless_its_name_is_taken() {
    let bed = Bed::new();
    let asked = bed.asked();
    let next = |first: MemberId, body: &'static str| {
        asked.next_best(first, &told_by(&Bytes::from_static(body.as_bytes())))
    };
    let new = r#"{"name": "new", "size_bytes": 512}"#;
    assert_eq!(next(RIGHT, new), Some(LEFT));
    assert_eq!(next(THIRD, r#"{"name": "c", "size_bytes": 512}"#), None, "it is there");
    let of_pool = r#"{"name": "new", "size_bytes": 512, "pool": "ssd"}"#;
    assert_eq!(next(THIRD, of_pool), None, "nobody else is in it");
    assert_eq!(next(RIGHT, ""), None);
}

#[test]
fn the_member_that_is_named_does_it() {
    let bed = Bed::new();
    let asked = bed.asked();
    assert_eq!(asked.named("RIGHT", None).unwrap(), RIGHT);
    assert_eq!(asked.named("left", None).unwrap(), LEFT);
    assert_eq!(asked.named(HERE, None).unwrap(), LEFT);
    let code = |name: &str, pool: Option<&str>| asked.named(name, pool).unwrap_err().code;
    assert_eq!(code("nobody", None), Code::NoSuchMember);
    assert_eq!(code("far", None), Code::NotReached);
    assert_eq!(asked.named("third", Some("ssd")).unwrap(), THIRD);
    assert_eq!(asked.named("right", Some("default")).unwrap(), RIGHT);
    assert_eq!(code("right", Some("tape")), Code::NoSuchPool);
    let wrong = asked.named("right", Some("ssd")).unwrap_err();
    assert_eq!(wrong.code, Code::Invalid);
    assert!(wrong.detail.contains("in the pool 'default', not in 'ssd'"), "{wrong}");
}

#[test]
fn one_member_is_named_or_none() {
    let mut headers = HeaderMap::new();
    assert_eq!(member_in(&headers).unwrap(), None);
    assert!(check_alone(&headers).is_ok());
    headers.insert(MEMBER, HeaderValue::from_static(" right "));
    assert_eq!(member_in(&headers).unwrap(), Some("right"));
    assert_eq!(check_alone(&headers).unwrap_err().code, Code::NoGroup);
    headers.append(MEMBER, HeaderValue::from_static("left"));
    assert_eq!(member_in(&headers).unwrap_err().code, Code::BadRequest);
    for wrong in [&b""[..], b"  ", b"\xff"] {
        headers.insert(MEMBER, HeaderValue::from_bytes(wrong).expect("a header can hold it"));
        assert_eq!(member_in(&headers).unwrap_err().code, Code::BadRequest, "{wrong:?}");
    }
    headers.insert(MEMBER, HeaderValue::from_static(HERE));
    assert!(check_alone(&headers).is_ok(), "whoever is asked is there");
}

#[tokio::test]
async fn lists_are_of_all_members_unless_they_are_of_a_volume() {
    let bed = Bed::new();
    let asked = bed.asked();
    let none = (HashMap::new(), Told::default());
    for (uri, whose, on, is_of_all) in [
        ("/v1/volumes", Whose::Merged, None, true),
        ("/v1/snapshots?space=true", Whose::SnapshotsAsked, None, true),
        ("/v1/snapshots?volume=b&limit=1", Whose::SnapshotsAsked, Some(RIGHT), false),
        ("/v1/snapshots?volume=none", Whose::SnapshotsAsked, None, false),
        ("/v1/disks", Whose::Here, None, false),
    ] {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.uri = Uri::from_static(uri);
        let went = asked.whose(whose, &none.0, &none.1, &mut parts).await;
        assert_eq!(went.unwrap(), on, "{uri}");
        let meant = parts.extensions.get::<Meant>();
        assert_eq!(matches!(meant, Some(Meant::Group(..))), is_of_all, "{uri}");
    }
}

#[test]
fn what_a_request_makes_and_ends_is_known_by_its_route() {
    let changed = |method: &str, route: &str, body: &str| {
        let path = HashMap::from([("name".to_owned(), "old".to_owned())]);
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let told = told_by(&Bytes::copy_from_slice(body.as_bytes()));
        let Named { made, gone } = names_changed(&method, route, path, told);
        let words = |all: Vec<(Kind, String)>| {
            let all = all.iter().map(|(kind, name)| format!("{} {name}", kind.word()));
            all.collect::<Vec<_>>().join(", ")
        };
        (words(made), words(gone))
    };
    let told = |made: &str, gone: &str| (made.to_owned(), gone.to_owned());
    let new = r#"{"name": "new"}"#;
    assert_eq!(changed("POST", "/v1/volumes", new), told("volume new", ""));
    let route = "/v1/snapshots/{volume}/{name}/clone";
    assert_eq!(changed("POST", route, r#"{"to": "twin"}"#), told("volume twin", ""));
    let renamed = told("volume new", "volume old");
    assert_eq!(changed("PATCH", "/v1/volumes/{name}", new), renamed);
    assert_eq!(changed("PATCH", "/v1/volumes/{name}", r#"{"online": true}"#), told("", ""));
    assert_eq!(changed("POST", "/v1/volumes/{name}/purge", ""), told("", "volume old"));
    assert_eq!(changed("POST", "/v1/schedules", new), told("schedule new", ""));
    assert_eq!(changed("DELETE", "/v1/schedules/{name}", ""), told("", "schedule old"));
    assert_eq!(changed("DELETE", "/v1/volumes/{name}", ""), told("", ""), "it is in the bin");
}

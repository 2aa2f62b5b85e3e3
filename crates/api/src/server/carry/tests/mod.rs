//! Members that carry requests to each other, over TLS and on this machine.

mod between;
mod failing;
mod moves;
mod sets;
mod spread;
mod strangers;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request as Asked;
use axum::http::{Method, Request as HttpRequest};
use axum::response::Response;
use group::accounts::Logins;
use group::membership::{GroupId, MemberRecord, Roll};
use group::ownership::MemberId;
use group::pki::{Authority, Issued};
use member::audit::Entry;
use member::{Answer, GroupRequest, Request, RequestError, RollNow, SecretWord};
use tempfile::TempDir;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{PORT_OFFSET, address, attend};
use crate::problem::{Code, Problem};
use crate::server::admit::Caller;
use crate::server::app::{App, Ask, Done, Follower};
use crate::server::peer::Peer;
use crate::server::{testing, thread_of};
use crate::types::Interface;

const LEFT: MemberId = MemberId(1);
const RIGHT: MemberId = MemberId(2);

/// How a member answers; `None` of what it never answers.
type Answers = Box<dyn Fn(&Request) -> Option<Result<Answer, RequestError>> + Send + Sync>;

/// A member that answers so, and keeps what it was asked.
struct Fake {
    answers: Answers,
    asked: Arc<Mutex<Vec<Request>>>,
    waiting: Mutex<Vec<Done>>,
}

impl Ask for Fake {
    fn ask(&self, request: Request, _: Follower, done: Done) {
        let answer = (self.answers)(&request);
        self.asked.lock().expect("no test has failed").push(request);
        match answer {
            Some(answer) => done(answer),
            None => self.waiting.lock().expect("no test has failed").push(done),
        }
    }

    fn logins(&self) -> Option<Arc<Logins>> {
        Some(Arc::default())
    }
}

/// A member that others can ask.
struct Site {
    app: Arc<App>,
    /// The group as it knows it at first.
    now: RollNow,
    asked: Arc<Mutex<Vec<Request>>>,
    ends: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    _dir: TempDir,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.ends.send_replace(true);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|it| it.is_ok()), "others were answered to the end");
    }
}

impl Site {
    fn begin(now: RollNow, answers: Answers) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let config = testing::config(dir.path());
        config.roll.replace(Some(now.clone()));
        let asked = Arc::<Mutex<Vec<Request>>>::default();
        let fake = Fake { answers, asked: asked.clone(), waiting: Mutex::default() };
        let app = Arc::new(App::new(Arc::new(fake), &config, 8, Interface::default()));
        let (ends, ending) = watch::channel(false);
        let answering = app.clone();
        let thread = thread_of("members", move |told| async move {
            told(Ok(()));
            attend(answering, ending).await;
        });
        let thread = Some(thread.expect("a thread"));
        Self { app, now, asked, ends, thread, _dir: dir }
    }

    fn asked(&self) -> Vec<Request> {
        self.asked.lock().expect("no test has failed").clone()
    }

    /// The audit log.
    fn entries(&self) -> Vec<Entry> {
        self.app.logs.audit.after(0).iter().map(|record| record.what.clone()).collect()
    }

    /// Where others ask it.
    fn address(&self) -> SocketAddr {
        address(&self.now.roll, &self.now.roll.members[&self.now.me]).expect("it has a port")
    }

    /// It hears this of the group.
    fn hears(&self, change: impl FnOnce(&mut RollNow)) {
        let mut now = self.now.clone();
        change(&mut now);
        self.app.roll.replace(Some(now));
    }

    /// It sends this to the other member for a user of its machine.
    async fn sends(&self, to: MemberId, request: Asked) -> Result<Response, Problem> {
        super::send(&self.app, to, &user(), request).await
    }

    /// The kind of the problem because of which it has no answer.
    async fn fails(&self, to: MemberId, request: Asked) -> (Code, String) {
        match self.sends(to, request).await {
            Ok(answer) => panic!("it was answered: {}", answer.status()),
            Err(problem) => (problem.code, problem.detail),
        }
    }
}

/// Two members of one group.
struct Pair {
    authority: Authority,
    left: Site,
    right: Site,
    /// What they prove themselves with.
    issued: [Issued; 2],
}

impl Pair {
    /// They know each other, and the second one answers so.
    async fn begin(
        answers: impl Fn(&Request) -> Option<Result<Answer, RequestError>> + Send + Sync + 'static,
    ) -> Self {
        Self::with(|_| Some(Err(RequestError::NoResult)), answers).await
    }

    /// They know each other, and answer so.
    async fn with(
        of_left: impl Fn(&Request) -> Option<Result<Answer, RequestError>> + Send + Sync + 'static,
        of_right: impl Fn(&Request) -> Option<Result<Answer, RequestError>> + Send + Sync + 'static,
    ) -> Self {
        let authority = authority();
        let issued = ["left", "right"].map(|name| issue(&authority, name));
        let [left, right] = &issued;
        let roll = roll_of(&[record("left", left), record("right", right)]);
        let knows = |me: MemberId, own: &Issued| known(&authority, me, own, &roll);
        let left_site = Site::begin(knows(LEFT, left), Box::new(of_left));
        let right_site = Site::begin(knows(RIGHT, right), Box::new(of_right));
        for site in [&left_site, &right_site] {
            let address = site.address();
            until("it listens", async || can_connect(address).await).await;
        }
        Self { authority, left: left_site, right: right_site, issued }
    }
}

fn authority() -> Authority {
    Authority::make(&GroupId::draw().expect("randomness")).expect("an authority")
}

fn issue(authority: &Authority, name: &str) -> Issued {
    authority.issue(name, IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("a certificate")
}

/// A member at ports of which the last is free.
fn record(name: &str, issued: &Issued) -> MemberRecord {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    MemberRecord {
        name: name.to_owned(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: free.expect("a port").port() - PORT_OFFSET,
        certificate_sha256: issued.sha256.clone(),
        array: "0123456789abcdef0123456789abcdef".to_owned(),
        version: "0.1.0".to_owned(),
        joined_unix_seconds: 7,
        incarnation: 1,
    }
}

/// Members 1 and so on, all of which are present.
fn roll_of(records: &[MemberRecord]) -> Roll {
    let mut roll = Roll::default();
    for (number, record) in (1..).map(MemberId).zip(records) {
        roll.members.insert(number, record.clone());
        roll.present.insert(number, record.incarnation);
    }
    roll
}

/// The group as this member knows it.
fn known(authority: &Authority, me: MemberId, own: &Issued, roll: &Roll) -> RollNow {
    RollNow {
        me,
        name: roll.members[&me].name.clone(),
        roll: roll.clone(),
        store_fault: None,
        authority: authority.certificate_pem().to_owned(),
        certificate: own.certificate_pem.clone(),
        key: SecretWord(own.key_pem.clone()),
    }
}

/// From another address than that, so that no port is connected to itself.
async fn can_connect(address: SocketAddr) -> bool {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.9:0".parse().expect("an address")).expect("a port");
    socket.connect(address).await.is_ok()
}

/// Waits until this holds.
async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Somebody at the socket of a member.
fn user() -> Caller {
    Caller::at_socket(Peer::Process { uid: u32::MAX - 7, pid: None })
}

fn request(method: Method, path: &str) -> Asked {
    HttpRequest::builder().method(method).uri(path).body(Body::empty()).expect("a request")
}

fn get(path: &str) -> Asked {
    request(Method::GET, path)
}

/// What is asked for by `DELETE /v1/members/NAME`.
fn removal(name: &str) -> Request {
    Request::Group(GroupRequest::Remove {
        member: name.to_owned(),
        despite_moves: false,
        despite_spreads: false,
    })
}

/// The body of an answer.
async fn text(answer: Response) -> String {
    let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.expect("a whole answer");
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// The code of a problem that was answered.
async fn code(answer: Response) -> String {
    let problem: serde_json::Value = serde_json::from_str(&text(answer).await).expect("JSON");
    problem["code"].as_str().expect("a code").to_owned()
}

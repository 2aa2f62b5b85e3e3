//! Members that are one group: the interface, the door where servers are let in, and how a member joins there, with
//! members that do what a test wants.

mod carried;
mod door;
mod joining;
mod requests;
mod tls;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use api::client::{Client, ClientError};
use api::problem::Problem;
use api::server::{Ask, Config, Done, Follower, Notifications, Server};
use group::accounts::Logins;
use group::membership::{Applicant, GroupId};
use group::ownership::MemberId;
use group::pki::{Authority, Ticket};
use member::{
    Admission, Answer, ConnectionsShown, CurrentAddress, CurrentDestinations, CurrentDoor,
    CurrentRoll, Door, GroupConnections, GroupRequest, GroupShown, GroupState, Logs, Request,
    RequestError, SecretWord,
};
use ring::testing::free_ports;
use tempfile::TempDir;
use zeroize::Zeroizing;

/// How a member answers about its group.
type Answers = Box<dyn Fn(&GroupRequest) -> Result<Answer, RequestError> + Send + Sync>;

/// What it was asked.
type Requests = Arc<Mutex<Vec<GroupRequest>>>;

/// A member that answers about its group, and about nothing else.
struct Fake {
    answers: Answers,
    asked: Requests,
}

impl Ask for Fake {
    fn ask(&self, request: Request, _: Follower, done: Done) {
        let Request::Group(request) = request else { return done(Err(RequestError::NoResult)) };
        self.asked.lock().expect("no test has failed").push(request.clone());
        done((self.answers)(&request));
    }

    fn logins(&self) -> Option<Arc<Logins>> {
        Some(Arc::default())
    }
}

/// A server of such a member.
struct Served {
    dir: TempDir,
    server: Server,
    logs: Logs,
    asked: Requests,
    door: CurrentDoor,
    roll: CurrentRoll,
    address: CurrentAddress,
}

impl Served {
    fn begin(
        answers: impl Fn(&GroupRequest) -> Result<Answer, RequestError> + Send + Sync + 'static,
    ) -> Self {
        let asked = Requests::default();
        let fake = Fake { answers: Box::new(answers), asked: asked.clone() };
        Self::of(fake, asked)
    }

    /// The same of any member, and of what that notes that it was asked.
    fn of(member: impl Ask, asked: Requests) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let logs = Logs::open(dir.path()).expect("threads");
        let (door, roll) = (CurrentDoor::default(), CurrentRoll::default());
        let address = CurrentAddress::default();
        let config = Config {
            socket: dir.path().join("s"),
            connections_max: 8,
            sentence: ToString::to_string,
            logs: logs.clone(),
            advice: |_| String::new(),
            notifications: Notifications {
                destinations: CurrentDestinations::default(),
                statuses: notify::Statuses::default(),
                sender: notify::Sender::new("0", |_| String::new(), |_| String::new()),
            },
            tls: Ok(None),
            door: door.clone(),
            roll: roll.clone(),
            group_address: address.clone(),
        };
        let server = Server::start(config, member).expect("it can be started");
        Self { dir, server, logs, asked, door, roll, address }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    fn client(&self) -> Client {
        Client::new(self.socket())
    }

    /// What it was asked so far.
    fn asked(&self) -> Vec<GroupRequest> {
        self.asked.lock().expect("no test has failed").clone()
    }

    /// Opens the door of a group, and waits until it is open.
    fn open(&self, lab: &Lab) -> SocketAddr {
        let address = free_address();
        self.door.replace(Some(lab.door(address)));
        until("the door opens", || tls::try_tcp(address, 9).is_ok());
        address
    }
}

/// Waits until this holds.
fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Where nobody listens now.
fn free_address() -> SocketAddr {
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    SocketAddr::new(localhost, free_ports(localhost))
}

/// What nobody may see but who it is for.
const SECRET: &str = "5ec1e7";

/// A group with a token to join it.
struct Lab {
    id: String,
    authority: Authority,
    ticket: Ticket,
}

impl Lab {
    fn make() -> Self {
        let id = GroupId::draw().expect("randomness");
        let authority = Authority::make(&id).expect("an authority");
        let ticket = Ticket {
            authority_sha256: authority.sha256(),
            id: "00c0ffee".to_owned(),
            secret: Zeroizing::new(format!("drystone_{SECRET}{}", "0".repeat(58))),
        };
        Self { id: id.to_string(), authority, ticket }
    }

    /// The door of its first member.
    fn door(&self, address: SocketAddr) -> Door {
        let issued = self.authority.issue("san1", address.ip()).expect("a certificate");
        Door {
            address,
            authority: self.authority.certificate_pem().to_owned(),
            certificate: issued.certificate_pem,
            key: SecretWord(issued.key_pem),
        }
    }

    /// What its second member needs.
    fn admission(&self) -> Admission {
        let issued = self.authority.issue("san2", applicant().address).expect("a certificate");
        Admission {
            group: self.id.clone(),
            group_name: "lab".to_owned(),
            member: MemberId(2),
            authority: self.authority.certificate_pem().to_owned(),
            authority_key: SecretWord(self.authority.key_pem().clone()),
            certificate: issued.certificate_pem,
            key: SecretWord(issued.key_pem),
            endpoints: vec!["https://127.0.0.1:3263".to_owned()],
            further_endpoints: Vec::new(),
        }
    }
}

/// A server that wants to be a member.
fn applicant() -> Applicant {
    Applicant {
        name: "san2".to_owned(),
        address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)),
        port: 3262,
        certificate_sha256: String::new(),
        array: "0123456789abcdef0123456789abcdef".to_owned(),
        version: "0.1.0".to_owned(),
        clock_unix_seconds: 7,
    }
}

/// A group, as its second member knows it.
fn shown() -> GroupShown {
    GroupShown::In(Box::new(GroupState {
        id: "0123456789abcdef0123456789abcdef".to_owned(),
        name: "lab".to_owned(),
        here: "san2".to_owned(),
        door: "127.0.0.2:3262".parse().expect("an address"),
        members: 2,
        away: vec!["san1".to_owned()],
        connections: Some(GroupConnections {
            now: ConnectionsShown {
                limit: Some(4096),
                taken: 12,
                members: [("san1", 7), ("san2", 5)].map(|(name, n)| (name.to_owned(), n)).into(),
            },
            pool_limit: Some(1024),
        }),
        address: Some("127.0.0.100/8".parse().expect("it is one")),
        address_member: Some("san2".to_owned()),
        address_fault: None,
        store_fault: None,
        store_part_fault: Some("etcd has ended".to_owned()),
        store: vec!["san1".to_owned()],
        shares: false,
        settings_differ: vec!["policy 'esx'".to_owned()],
        settings_fault: None,
    }))
}

/// The problem that a call ended with.
fn problem<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> Problem {
    match outcome {
        Err(ClientError::Problem(problem)) => *problem,
        other => panic!("it is no problem: {other:?}"),
    }
}

//! Members that are managed as one: what any of them is asked is done where it is to be done, and lists are of all.
//! They reach each other over TLS, and what they have is what a test says.

mod changes;
mod has;
mod http;
mod lists;
mod moves;
mod moving;
mod placed;
mod transits;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use api::client::{Client, ClientError};
use api::problem::Problem;
use api::server::{Config, Notifications, Server};
use group::membership::{GroupId, Inventory, ListedVolume, MemberRecord, Roll, Shown};
use group::ownership::MemberId;
use group::pki::Authority;
use member::{
    CurrentAddress, CurrentDestinations, CurrentDoor, CurrentRoll, Door, Logs, RollNow, SecretWord,
};
use ring::testing::free_ports;
use tempfile::TempDir;

use has::Has;
use http::{Reply, ask};
use moves::Claims;

const GIB: u64 = 1 << 30;

/// A member of a group.
struct Node {
    number: MemberId,
    name: &'static str,
    dir: TempDir,
    server: Server,
    has: Arc<Has>,
    roll: CurrentRoll,
    door: CurrentDoor,
    /// As the group has it.
    record: MemberRecord,
    issued: (String, SecretWord),
}

impl Node {
    /// A member that is in no group yet.
    fn start(number: u16, name: &'static str, authority: &Authority) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let has = Arc::new(Has::default());
        let (roll, door) = (CurrentRoll::default(), CurrentDoor::default());
        let config = Config {
            socket: dir.path().join("s"),
            connections_max: 16,
            sentence: ToString::to_string,
            logs: Logs::open(dir.path()).expect("threads"),
            advice: |_| String::new(),
            notifications: Notifications {
                destinations: CurrentDestinations::default(),
                statuses: notify::Statuses::default(),
                sender: notify::Sender::new("0", |_| String::new(), |_| String::new()),
            },
            tls: Ok(None),
            door: door.clone(),
            roll: roll.clone(),
            group_address: CurrentAddress::default(),
        };
        let server = Server::start(config, has::Asked(has.clone())).expect("it can be started");
        let address = free_address();
        let issued = authority.issue(name, address.ip()).expect("a certificate");
        let record = MemberRecord {
            name: name.to_owned(),
            address: address.ip(),
            port: address.port(),
            certificate_sha256: issued.sha256.clone(),
            array: name.to_owned(),
            version: "0.1.0".to_owned(),
            joined_unix_seconds: 7,
            incarnation: 7,
        };
        let issued = (issued.certificate_pem, SecretWord(issued.key_pem));
        Self { number: MemberId(number), name, dir, server, has, roll, door, record, issued }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    fn client(&self) -> Client {
        Client::new(self.socket())
    }

    /// Asks it over its socket.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        ask(&self.socket(), method, path, headers, body)
    }

    /// What it tells the others.
    fn inventory(&self) -> Inventory {
        let listed = |name: String| ListedVolume {
            iqn: format!("iqn.2026-11.dev.drystone:{}:{name}", self.number.0),
            serial: String::new(),
            name,
            size_bytes: GIB,
            is_online: true,
            is_lost: false,
            shown: Shown::default(),
        };
        Inventory {
            volumes: self.has.names().into_iter().map(listed).collect(),
            free_bytes: u64::from(self.number.0) * GIB,
            schedules: self.has.schedules(),
            ..Inventory::default()
        }
    }
}

/// A group whose members know of each other.
struct Group {
    authority: Authority,
    nodes: Vec<Node>,
    /// As all of them have heard of it.
    roll: Roll,
}

impl Group {
    /// Of these members, with their volumes; the last one has most room.
    fn start<const N: usize>(all: [(&'static str, &[&str]); N]) -> Self {
        let authority = Authority::make(&GroupId::draw().expect("randomness")).expect("one");
        let numbers = 1..;
        let nodes: Vec<Node> = numbers
            .zip(all)
            .map(|(number, (name, volumes))| {
                let node = Node::start(number, name, &authority);
                volumes.iter().for_each(|volume| node.has.make(volume));
                node
            })
            .collect();
        let members: Vec<_> = nodes.iter().map(|node| (node.name, node.number)).collect();
        let claims = Claims::default();
        for node in &nodes {
            node.has.moves.join(node.number, &members, &claims);
        }
        let mut group = Self { authority, nodes, roll: Roll::default() };
        group.hear();
        for node in &group.nodes {
            let door = Door {
                address: free_address(),
                authority: group.authority.certificate_pem().to_owned(),
                certificate: node.issued.0.clone(),
                key: node.issued.1.clone(),
            };
            node.door.replace(Some(door));
            let address = SocketAddr::new(node.record.address, node.record.port + 3);
            until("others are answered", || TcpStream::connect(address).is_ok());
        }
        group
    }

    fn node(&self, name: &str) -> &Node {
        self.nodes.iter().find(|node| node.name == name).expect("there is one")
    }

    /// All members hear what each has to tell now.
    fn hear(&mut self) {
        let each = |node: &Node| (node.number, node.record.clone());
        self.roll.members = self.nodes.iter().map(each).collect();
        self.roll.present = self.nodes.iter().map(|node| (node.number, 7)).collect();
        let told = self.nodes.iter().map(|node| (node.number, Arc::new(node.inventory())));
        self.roll.inventories = told.collect::<BTreeMap<_, _>>();
        self.tell();
    }

    /// All members hear of the group as it is in `roll`, each with what it has itself.
    fn tell(&self) {
        for node in &self.nodes {
            let mut roll = self.roll.clone();
            roll.inventories.insert(node.number, Arc::new(node.inventory()));
            node.roll.replace(Some(RollNow {
                me: node.number,
                name: node.name.to_owned(),
                roll,
                store_fault: None,
                authority: self.authority.certificate_pem().to_owned(),
                certificate: node.issued.0.clone(),
                key: node.issued.1.clone(),
            }));
        }
    }

    /// One member takes the group to be otherwise, until all hear of it again.
    fn mislead(&self, name: &str, change: impl FnOnce(&mut Roll)) {
        let current = &self.node(name).roll;
        let mut now = RollNow::clone(&*current.now().expect("it is in the group"));
        change(&mut now.roll);
        current.replace(Some(now));
    }

    /// A member gives no sign of life any more, as all others hear.
    fn is_away(&mut self, name: &str) {
        let is_it =
            |(number, record): (&MemberId, &MemberRecord)| (record.name == name).then_some(*number);
        let number = self.roll.members.iter().find_map(is_it).expect("there is one");
        self.roll.present.remove(&number);
        self.tell();
    }

    /// Ends a member. The others have heard nothing of that yet.
    fn kill(&mut self, name: &str) {
        let at = self.nodes.iter().position(|node| node.name == name).expect("there is one");
        self.nodes.remove(at).server.stop();
    }

    fn stop(self) {
        self.nodes.into_iter().for_each(|node| node.server.stop());
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

/// The problem that a call ended with.
fn problem<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> Problem {
    match outcome {
        Err(ClientError::Problem(problem)) => *problem,
        other => panic!("it is no problem: {other:?}"),
    }
}

//! Members on this machine, each at an address of its own, with certificates of one authority.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ring::testing::free_ports;
use tempfile::TempDir;
use zeroize::Zeroizing;

use crate::cluster::{Begin, Server, ServerConfig, ServerState, client_url, peer_url};
use crate::membership::GroupId;
use crate::ownership::MemberId;
use crate::pki::{Authority, Issued};
use crate::store::suite::wait;
use crate::store::{Etcd, EtcdOptions, EtcdTls, Op, Selection, Store, Transaction};

/// Longer than anything takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Ports of one member: for clients, and for other members.
pub(super) type Ports = (u16, u16);

/// A group of members, by their numbers.
pub(super) struct Bed {
    pub(super) dir: TempDir,
    pub(super) group: GroupId,
    authority: Authority,
    ports: Vec<Ports>,
}

/// Where a member is.
pub(super) fn address(member: u16) -> IpAddr {
    IpAddr::from([127, 0, 0, u8::try_from(member).expect("there are few")])
}

/// What a member is started with whose files are in `dir`.
pub(super) fn config_in(dir: &Path, member: u16, group: GroupId, ports: Ports) -> ServerConfig {
    ServerConfig {
        member: MemberId(member),
        group,
        address: address(member),
        client_port: ports.0,
        peer_port: ports.1,
        certificate: dir.join("certificate.pem"),
        key: dir.join("key.pem"),
        authority: dir.join("authority.pem"),
        begin: Begin::New,
        dir: dir.join("etcd"),
    }
}

impl Bed {
    pub(super) fn new(members: u16) -> Self {
        let group = GroupId::draw().expect("there is randomness");
        let authority = Authority::make(&group).expect("there is randomness");
        let dir = tempfile::tempdir().expect("there is room");
        let ports = (1..=members)
            .map(|member| free_ports(address(member)))
            .map(|first| (first, first + 1))
            .collect();
        let bed = Self { dir, group, authority, ports };
        for member in 1..=members {
            let place = bed.place(member);
            fs::create_dir(&place).expect("there is room");
            let issued = bed.issue(member);
            let files = [
                ("certificate.pem", issued.certificate_pem.as_str()),
                ("key.pem", issued.key_pem.as_str()),
                ("authority.pem", bed.authority.certificate_pem()),
            ];
            for (name, content) in files {
                fs::write(place.join(name), content).expect("there is room");
            }
        }
        bed
    }

    fn issue(&self, member: u16) -> Issued {
        self.authority.issue("somebody", address(member)).expect("a member has a certificate")
    }

    /// Where the files of a member are.
    pub(super) fn place(&self, member: u16) -> PathBuf {
        self.dir.path().join(member.to_string())
    }

    pub(super) fn ports(&self, member: u16) -> Ports {
        self.ports[usize::from(member) - 1]
    }

    pub(super) fn peer_url(&self, member: u16) -> String {
        peer_url(address(member), self.ports(member).1)
    }

    pub(super) fn client_url(&self, member: u16) -> String {
        client_url(address(member), self.ports(member).0)
    }

    pub(super) fn config(&self, member: u16, begin: Begin) -> ServerConfig {
        let config = config_in(&self.place(member), member, self.group.clone(), self.ports(member));
        ServerConfig { begin, ..config }
    }

    pub(super) fn start(&self, member: u16, begin: Begin) -> Server {
        Server::start(self.config(member, begin)).expect("etcd is there: scripts/setup.sh test")
    }

    /// What a client proves itself with, as one that this authority has signed.
    pub(super) fn identity(&self) -> (Vec<u8>, Zeroizing<Vec<u8>>) {
        let issued = self.issue(1);
        let key = Zeroizing::new(issued.key_pem.as_bytes().to_vec());
        (issued.certificate_pem.into_bytes(), key)
    }

    /// A store at the etcds of these members, for one who proves himself so.
    pub(super) fn store_as(
        &self,
        members: &[u16],
        identity: Option<(Vec<u8>, Zeroizing<Vec<u8>>)>,
    ) -> Etcd {
        let authority = self.authority.certificate_pem().as_bytes().to_vec();
        let options = EtcdOptions {
            endpoints: members.iter().map(|member| self.client_url(*member)).collect(),
            namespace: b"drystone/test/".to_vec(),
            tls: Some(EtcdTls { authority, identity }),
            user: None,
        };
        Etcd::new(options).expect("a thread starts")
    }

    pub(super) fn store(&self, members: &[u16]) -> Etcd {
        self.store_as(members, Some(self.identity()))
    }

    /// What the etcds have said, for a test that fails.
    fn logs(&self) -> String {
        let places = (1..=self.ports.len()).map(|member| self.dir.path().join(member.to_string()));
        let logs = places.map(|place| fs::read_to_string(place.join("etcd/etcd.log")));
        logs.map(Result::unwrap_or_default).collect::<Vec<_>>().join("\n\n")
    }

    /// Waits until something is so, which it is soon.
    pub(super) fn eventually<T>(&self, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            assert!(begin.elapsed() < LIMIT, "not in time: {what}\n{}", self.logs());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the store says this of the key `a`.
    pub(super) fn await_value(&self, store: &Etcd, value: &str) {
        self.eventually("the store answers", || {
            let found = wait(store.range(Selection::key("a"))).ok()?;
            assert_eq!(found.kvs.first().map(|kv| &kv.value[..]), Some(value.as_bytes()));
            Some(())
        });
    }

    /// Waits until the store answers, and sets the key `a`.
    pub(super) fn put(&self, store: &Etcd, value: &str) {
        self.eventually("the store takes a change", || {
            let put = Transaction::always(vec![Op::put("a", value)]);
            wait(store.commit(put)).ok()
        });
    }

    /// The process that runs, when it is another one than that.
    pub(super) fn await_process(&self, server: &Server, other_than: Option<u32>) -> u32 {
        self.eventually("a process runs", || match server.state() {
            ServerState::Running { pid } if Some(pid) != other_than => Some(pid),
            _ => None,
        })
    }
}

/// Whether a process is there, and no corpse.
pub(super) fn is_alive(pid: u32) -> bool {
    let Ok(about) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name, in parentheses, may hold anything.
    about.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

//! What an etcd is started with, and where its data are.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::admin::{client_url, etcd_name, peer_url};
use crate::membership::GroupId;
use crate::ownership::MemberId;
use crate::store::{DATA_BYTES_MAX, HISTORY_SECONDS, OPERATIONS_MAX, TRANSACTION_BYTES_MAX};

/// What a request may have, with what goes around a transaction.
const REQUEST_BYTES_MAX: usize = 4 << 20;

const _: () = assert!(TRANSACTION_BYTES_MAX * 2 < REQUEST_BYTES_MAX);

/// An election time is how long the others wait for a leader that is gone; it has to be ten heartbeats.
const HEARTBEAT_MS: u32 = 300;
const ELECTION_MS: u32 = 3_000;

/// By this option an etcd takes certificates of the others of its cluster for what they are, wherever a connection
/// comes from. Else it wants to see that come from the address that the certificate names, and a server with several
/// addresses chooses another one at times. Who signed it is what counts. The second name is that of etcd 3.4.23, with
/// which this was tried; the first is what one is expected to list that takes it for no experiment any more.
const ANY_ORIGIN: [&str; 2] =
    ["--peer-skip-client-san-verification", "--experimental-peer-skip-client-san-verification"];

/// The option of an etcd that says this of itself when it is asked for help.
pub(super) fn any_origin(help: &str) -> String {
    let [plain, experimental] = ANY_ORIGIN;
    let mut words = help.split(|c: char| c.is_whitespace() || c == '=');
    let name = if words.any(|word| word == plain) { plain } else { experimental };
    format!("{name}=true")
}

/// What an etcd is started with.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Its data are in `data` there, and what it says in `etcd.log`.
    pub dir: PathBuf,
    /// Whose it is.
    pub member: MemberId,
    /// Whose store: etcds of different groups do not speak to each other.
    pub group: GroupId,
    /// Where it listens.
    pub address: IpAddr,
    /// The port for clients.
    pub client_port: u16,
    /// The port for the others of its cluster.
    pub peer_port: u16,
    /// The certificate of the member, a file in PEM.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who must have signed the certificates of all others.
    pub authority: PathBuf,
    /// How it begins, where it has no data yet.
    pub begin: Begin,
}

/// How an etcd without data begins. One that has data ([`has_data`]) goes on with them, whatever this says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// A cluster of its own, which is empty.
    New,
    /// The seat that was added for it in a cluster: the names and peer URLs of all that have one. A name may be
    /// empty, and the own seat may be left out.
    Existing(Vec<(String, String)>),
}

pub(super) fn data_dir(dir: &Path) -> PathBuf {
    dir.join("data")
}

pub(super) fn log_file(dir: &Path) -> PathBuf {
    dir.join("etcd.log")
}

/// Whether an etcd that is started in `dir` goes on with what it had, as it decides that: by its log of changes.
#[must_use]
pub fn has_data(dir: &Path) -> bool {
    let Ok(files) = fs::read_dir(data_dir(dir).join("member/wal")) else { return false };
    files.flatten().any(|file| file.path().extension() == Some(OsStr::new("wal")))
}

/// Deletes the data of an etcd that does not run and has no seat any more.
///
/// # Errors
/// They cannot be deleted; data that are not there are none.
pub fn forget(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(data_dir(dir)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl ServerConfig {
    /// The options of etcd, as 3.4 knows them; later ones do too.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let (name, peer) = (etcd_name(self.member), peer_url(self.address, self.peer_port));
        let client = client_url(self.address, self.client_port);
        let state = match self.begin {
            Begin::New => "new",
            Begin::Existing(_) => "existing",
        };
        let flag = |name: &str, value: &dyn AsRef<OsStr>| {
            let mut flag = OsString::from(format!("--{name}="));
            flag.push(value);
            flag
        };
        let mut arguments = vec![
            flag("name", &name),
            flag("data-dir", &data_dir(&self.dir)),
            flag("initial-cluster", &self.initial_cluster(&name, &peer)),
            flag("initial-cluster-state", &state),
            flag("initial-cluster-token", &self.group.as_str()),
            flag("initial-advertise-peer-urls", &peer),
            flag("listen-peer-urls", &peer),
            flag("advertise-client-urls", &client),
            flag("listen-client-urls", &client),
            flag("cert-file", &self.certificate),
            flag("key-file", &self.key),
            flag("trusted-ca-file", &self.authority),
            flag("peer-cert-file", &self.certificate),
            flag("peer-key-file", &self.key),
            flag("peer-trusted-ca-file", &self.authority),
            flag("max-txn-ops", &OPERATIONS_MAX.to_string()),
            flag("max-request-bytes", &REQUEST_BYTES_MAX.to_string()),
            flag("quota-backend-bytes", &DATA_BYTES_MAX.to_string()),
            flag("auto-compaction-retention", &format!("{HISTORY_SECONDS}s")),
            flag("heartbeat-interval", &HEARTBEAT_MS.to_string()),
            flag("election-timeout", &ELECTION_MS.to_string()),
        ];
        let fixed = [
            "--client-cert-auth=true",
            "--peer-client-cert-auth=true",
            // Who comes back does not end the term of a leader that is well.
            "--pre-vote=true",
            "--strict-reconfig-check=true",
            "--auto-compaction-mode=periodic",
            // A hundred thousand changes in memory are for busier clusters.
            "--snapshot-count=10000",
            "--enable-grpc-gateway=false",
            "--logger=zap",
            "--log-outputs=stderr",
        ];
        arguments.extend(fixed.map(OsString::from));
        arguments
    }

    fn initial_cluster(&self, own_name: &str, own_url: &str) -> String {
        let own = format!("{own_name}={own_url}");
        let Begin::Existing(seats) = &self.begin else { return own };
        let others = seats.iter().enumerate().filter(|(_, (_, url))| url != own_url);
        // It compares the URLs, and hears the names from the others; each wants one of its own.
        let others = others.map(|(at, (name, url))| match name.as_str() {
            "" => format!("seat{at}={url}"),
            name => format!("{name}={url}"),
        });
        others.chain([own]).collect::<Vec<_>>().join(",")
    }
}

//! What a target serves, to whom, and within which limits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice;
use scsi::referrals::ReferralMap;

use crate::access::Access;
use crate::audit::AccessListener;
use crate::store::UnitStore;

/// Everything [`crate::Server::start`] needs.
#[derive(Debug)]
pub struct Config {
    /// What is served from the start; more may come and go ([`crate::Targets`]).
    pub targets: Vec<TargetSpec>,
    /// Addresses to listen on; port 0 takes any free port. All are one portal group.
    pub portals: Vec<SocketAddr>,
    /// The number of that portal group, and so of the SCSI target port and of its target port
    /// group, not 0. Servers that serve one disk together differ in it: it is part of a nexus.
    pub port_group: u16,
    /// Who may log in to targets that have no rules of their own.
    pub access: Access,
    /// Who may ask for targets by discovery; `None`: whom `access` or the rules of a target may let in. Of
    /// targets each sees only those that it may use.
    pub discovery: Option<Access>,
    /// Cores (threads) that serve sessions, at least 1.
    pub cores: u16,
    /// How each core runs.
    pub core: ring::CoreConfig,
    /// TCP congestion control of data sockets; `None` keeps the system's.
    pub congestion: Option<String>,
    /// Where persistent reservations that outlive a loss of power (APTPL) are kept.
    pub store: Arc<dyn UnitStore>,
    /// Bounds and time-outs.
    pub limits: Limits,
    /// Sends initiators elsewhere at login; the group will use it.
    pub redirect: Option<Arc<dyn Redirect>>,
    /// Hears who logs in, who is refused, and whose session ends.
    pub listener: Option<Arc<dyn AccessListener>>,
}

/// One target.
#[derive(Debug)]
pub struct TargetSpec {
    /// Its iSCSI name.
    pub iqn: String,
    /// TargetAlias, a text for people.
    pub alias: Option<String>,
    /// The logical units, in LUN order from 0; at least one.
    pub units: Vec<UnitSpec>,
    /// Who may log in; `None` takes the server's rules. [`crate::Targets::set_access`] changes it.
    pub access: Option<Access>,
}

/// One logical unit.
#[derive(Debug)]
pub struct UnitSpec {
    /// The disk behind it.
    pub device: Arc<dyn BlockDevice>,
    /// Unit serial number (VPD 80h), 1 to 32 printable ASCII characters. The NAA name is derived
    /// from it, so it must be stable over restarts and differ between disks.
    pub serial: String,
    /// WCE=1: writes are durable at SYNCHRONIZE CACHE or FUA only.
    pub write_cache: bool,
    /// Refuse writes.
    pub read_only: bool,
    /// Which target port groups lead best to which blocks, for a disk that lies on several
    /// members; [`crate::Targets::set_referrals`] changes it.
    pub referrals: Option<Arc<ReferralMap>>,
    /// A word for logs, such as the path.
    pub name: String,
}

/// Where an initiator should log in instead (RFC 7143 §11.13.5, status class 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// `address:port`, with IPv6 in brackets.
    pub address: String,
    /// Moved for good (0102h) rather than for now (0101h).
    pub permanent: bool,
}

/// Decides at login whether an initiator is served here.
pub trait Redirect: Send + Sync + std::fmt::Debug {
    /// `None`: here. `portal` is the local address the initiator came to.
    fn elsewhere(&self, portal: SocketAddr) -> Option<Elsewhere>;
}

/// Bounds and time-outs of a server. Each keeps a misbehaving peer from hurting the others.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once; further ones are refused, unless logins or discovery sessions give way.
    pub connections: usize,
    /// Connections of one address at once, which are never more than are still free.
    pub connections_per_address: usize,
    /// Connections that have not finished logging in, at once; the oldest gives way to one more, as
    /// it does where no connection is left.
    pub logins: usize,
    /// Those of one address.
    pub logins_per_address: usize,
    /// Discovery sessions of one address at once; the oldest gives way to one more. All together
    /// may have a quarter of the connections.
    pub discoveries_per_address: usize,
    /// How long a discovery session lives.
    pub discovery_time: Duration,
    /// Commands under way per session (the CmdSN window).
    pub queue_depth: u32,
    /// Time from accept to the end of login.
    pub login_timeout: Duration,
    /// Silence after which a connection is asked for a sign of life (NOP-In).
    pub nop_interval: Duration,
    /// Time for the answer to that.
    pub nop_timeout: Duration,
    /// Time in which announced data must go on arriving, and output must go on leaving.
    pub stall_timeout: Duration,
    /// Output bytes that a connection may keep waiting at most; one that takes little keeps less.
    pub output_bytes: usize,
    /// Logins without CRC32C over headers and data are refused.
    pub must_digest: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8192,
            connections_per_address: 2048,
            logins: 1024,
            logins_per_address: 64,
            discoveries_per_address: 64,
            discovery_time: Duration::from_secs(60),
            queue_depth: 128,
            login_timeout: Duration::from_secs(15),
            nop_interval: Duration::from_secs(30),
            nop_timeout: Duration::from_secs(15),
            stall_timeout: Duration::from_secs(30),
            output_bytes: 16 << 20,
            must_digest: false,
        }
    }
}

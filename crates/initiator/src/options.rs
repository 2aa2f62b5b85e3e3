//! How sessions are made and kept.

use std::net::IpAddr;
use std::time::Duration;

use iscsi::chap::InitiatorChap;
use iscsi::discovery::PortalAddress;
use iscsi::params::LocalLimits;
use iscsi::pdu::Isid;
use iscsi::text::IscsiName;

/// What a session brings to its login, and its times.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Our name. Persistent reservations and access rules go by it, so it must stay the same.
    pub initiator_name: IscsiName,
    /// Initiator Session ID; `None` draws a random one. It stays the same over all logins of the
    /// session, so that each ends what is left of the one before (RFC 7143 6.3.5).
    pub isid: Option<Isid>,
    /// The address of this host to connect from; `None` leaves it to the kernel.
    pub local: Option<IpAddr>,
    /// What we authenticate with.
    pub chap: Option<InitiatorChap>,
    /// What we offer in the negotiation.
    pub limits: LocalLimits,
    /// TCP connections of the session, 1 to 64; the target may allow fewer. When one ends, all are
    /// ended and the session logs in again.
    pub connections: u16,
    /// Commands under way at once; the target's window can be smaller.
    pub queue_depth: u32,
    /// Time for a TCP connection, name resolution included.
    pub connect_timeout: Duration,
    /// Time for the whole login, redirections included.
    pub login_timeout: Duration,
    /// Time for the answer to a task management function. A connection on which an ABORT TASK has
    /// none is given up.
    pub abort_timeout: Duration,
    /// Silence after which the target is asked for a sign of life.
    pub nop_interval: Duration,
    /// Time for the answer to that; also the longest time that output may be stuck.
    pub nop_timeout: Duration,
    /// As `nop_interval`, while commands are under way.
    pub probe_interval: Duration,
    /// Time for the answer to a ping, or for anything else, after which a session with commands
    /// under way counts as silent ([`crate::Session::is_silent`]).
    pub silence: Duration,
    /// The same, after which its connection is given up, if the network does not even deliver: the
    /// kernel has sent again and again, and heard nothing. A target that is slow, and whose kernel
    /// is there, has `nop_timeout`.
    pub cut_timeout: Duration,
    /// The first pause between two attempts to log in again; each further one is twice as long.
    pub backoff_min: Duration,
    /// The longest of these pauses.
    pub backoff_max: Duration,
    /// Other portals of the same target. When the session's own cannot be reached, a login through
    /// one of them makes sure that the lost session's tasks have ended.
    pub alternates: Vec<PortalAddress>,
}

impl SessionOptions {
    /// Times that suit a network within one building.
    #[must_use]
    pub fn new(initiator_name: IscsiName) -> Self {
        Self {
            initiator_name,
            isid: None,
            local: None,
            chap: None,
            limits: LocalLimits {
                max_connections: 1,
                error_recovery_level: 0,
                default_time2wait_s: 0,
                ..LocalLimits::default()
            },
            connections: 1,
            queue_depth: 128,
            connect_timeout: Duration::from_secs(3),
            login_timeout: Duration::from_secs(10),
            abort_timeout: Duration::from_secs(5),
            nop_interval: Duration::from_secs(5),
            nop_timeout: Duration::from_secs(5),
            probe_interval: Duration::from_millis(400),
            silence: Duration::from_millis(600),
            cut_timeout: Duration::from_millis(1400),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            alternates: Vec::new(),
        }
    }
}

/// A random ISID (RFC 7143 11.12.5, type 10b).
pub(crate) fn random_isid() -> Isid {
    const TYPE_RANDOM: u8 = 0x80;
    let mut isid = [0; 6];
    random(&mut isid);
    isid[0] = TYPE_RANDOM;
    isid
}

/// Unpredictable bytes.
pub(crate) fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the kernel has randomness once it has booted");
}

/// A random part of `time`.
pub(crate) fn share_of(time: Duration) -> Duration {
    let mut byte = [0];
    random(&mut byte);
    time * u32::from(byte[0]) / u32::from(u8::MAX)
}

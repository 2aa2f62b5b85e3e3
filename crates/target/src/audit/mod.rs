//! Who logs in, who is refused and whose session ends, for whoever runs the server.
//!
//! What happens is put into a queue of bounded length by the cores, which never wait, and told to the
//! [`AccessListener`] by a thread of its own. Of what a listener cannot take in time, the count is told.

mod feed;
mod flood;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use iscsi::login::{AuthRefusal, LoginClaim, LoginRefusal};

use crate::datamover::Ends;

pub(crate) use feed::Feed;

/// Hears of logins. It is called on a thread of its own, one event after the other, while no lock of the
/// server is held: it may take its time. Events that it is too slow for are dropped and counted.
pub trait AccessListener: Send + Sync + fmt::Debug {
    /// Something happened.
    fn hear(&self, event: &AccessEvent);
}

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessEvent {
    /// When it happened.
    pub at: SystemTime,
    /// What it was.
    pub what: Happened,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A connection has logged in to a target, to a session of its own or as one more of a session.
    /// Discovery sessions are not told of, unless they are refused.
    LoggedIn {
        /// Who; the names are proved as far as the target's rules ask for it.
        who: Who,
        /// The number of the session.
        tsih: u16,
        /// The number of the connection in its session.
        cid: u16,
    },
    /// A login was refused. After [`REFUSALS_TOLD_MAX`] of one address the rest is only counted for a while.
    Refused {
        /// Who it says it is.
        who: Who,
        /// What it was refused for.
        why: RefusalKind,
        /// The same in a sentence, for people.
        reason: String,
    },
    /// So many more logins were refused that came from one address.
    RefusedMore {
        /// Where they came from.
        from: IpAddr,
        /// How many there were since the last event of this address.
        count: u64,
    },
    /// A session has ended: its host has no connection to the target by it any more.
    Ended {
        /// Whose, and where its last connection came from.
        who: Who,
        /// The number of the session.
        tsih: u16,
        /// Why, for people.
        reason: String,
    },
    /// A host has set or cleared the write protection of a unit, which holds for all its hosts (SWP of SPC-5 §7.5.8).
    /// After [`REFUSALS_TOLD_MAX`] of one address no more are told for a while, and none is counted as missed.
    WriteProtection {
        /// Who.
        who: Who,
        /// The name of the unit.
        unit: String,
        /// It is set now.
        on: bool,
    },
    /// Events were dropped, as the listener was too slow.
    Missed(Missed),
}

/// How many events of each kind were dropped: who was let in is another matter than who was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Hosts that logged in.
    pub logged_in: u64,
    /// Logins that were refused.
    pub refused: u64,
    /// Sessions that ended.
    pub ended: u64,
}

impl Missed {
    /// One more was dropped.
    fn add(&mut self, what: &Happened) {
        match what {
            Happened::LoggedIn { .. } => self.logged_in += 1,
            Happened::Refused { .. } => self.refused += 1,
            Happened::RefusedMore { count, .. } => self.refused += count,
            Happened::Ended { .. } => self.ended += 1,
            // Whether it is set can be asked for.
            Happened::WriteProtection { .. } => {}
            Happened::Missed(more) => {
                self.logged_in += more.logged_in;
                self.refused += more.refused;
                self.ended += more.ended;
            }
        }
    }
}

/// How many refused logins of one address are told one by one in ten seconds.
pub const REFUSALS_TOLD_MAX: u64 = 10;

/// Who logs in or out, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Its initiator name, if it gave one.
    pub initiator: Option<String>,
    /// The CHAP user, if it named one.
    pub chap_user: Option<String>,
    /// The target's name; `None` is discovery, or a login that was refused before it said so.
    pub target: Option<String>,
    /// Where it comes from.
    pub from: SocketAddr,
    /// The portal that it came to.
    pub portal: SocketAddr,
}

impl Who {
    /// Who it says it is.
    pub(crate) fn claiming(claim: LoginClaim, ends: Ends) -> Self {
        let text = |name: iscsi::text::IscsiName| name.as_str().to_owned();
        Self {
            initiator: claim.initiator.map(text),
            chap_user: claim.chap_user,
            target: claim.target.map(text),
            from: ends.peer,
            portal: ends.local,
        }
    }
}

/// What a login was refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// No rule of the target lets it in.
    NotAuthorized,
    /// It did not prove who it says it is.
    Authentication,
    /// Another host uses the target, which is not shared.
    InUse,
    /// There is no such target.
    NoTarget,
    /// Hosts have as many connections as they [may have](crate::Targets::set_connections_max).
    Full,
    /// It asked for something that cannot be, or the server cannot take it now.
    Other,
}

impl From<&LoginRefusal> for RefusalKind {
    fn from(refusal: &LoginRefusal) -> Self {
        match refusal {
            LoginRefusal::NotAuthorized => Self::NotAuthorized,
            // It did not get so far as to prove anything.
            LoginRefusal::Authentication(AuthRefusal::Algorithm) => Self::Other,
            LoginRefusal::Authentication(_) => Self::Authentication,
            LoginRefusal::TargetNotFound | LoginRefusal::TargetRemoved => Self::NoTarget,
            _ => Self::Other,
        }
    }
}

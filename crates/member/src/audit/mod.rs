//! The audit log: who logged in, who was refused, and who changed what, from where and when.
//!
//! It can be read and never changed by what a member is asked. Hosts come from the target
//! (`Logins`), changes from whoever asks the member for them ([`AuditLog::change`]).
//!
//! It has three parts, each with files and a bound of its own: changes that were done; logins and ends of
//! sessions; and what was refused or failed. So whoever logs in or is refused again and again pushes no change
//! out of it. Earlier versions had all in the files of logins.

mod logins;
#[cfg(test)]
mod tests;

use group::words::counted;
use serde::{Deserialize, Serialize};

use crate::events::{Event, Kind, Severity};
use crate::records::{Fold, Log, Recorded, clipped};

pub(crate) use logins::Logins;

/// What somebody did, or wanted to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A host logged in to a target, or somebody at the interface from an address.
    Login,
    /// A host was refused, or somebody at the interface.
    LoginRefused,
    /// A session of a host ended.
    SessionEnded,
    /// Somebody asked for a change.
    Change,
    /// More was done at once than could be told of.
    Missed,
}

impl Action {
    /// How it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::LoginRefused => "login_refused",
            Self::SessionEnded => "session_ended",
            Self::Change => "change",
            Self::Missed => "missed",
        }
    }
}

/// Who did it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Actor {
    /// The initiator name of a host, proved as far as the target asks for it.
    pub host: Option<String>,
    /// The CHAP user that it named.
    pub chap_user: Option<String>,
    /// The account or token of a person or program that asked from afar.
    pub account: Option<String>,
    /// The user of this machine, by its number.
    pub uid: Option<u32>,
    /// The name of that user.
    pub user: Option<String>,
    /// The process.
    pub pid: Option<i32>,
}

/// One entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What was done.
    pub action: Action,
    /// Who did it.
    pub who: Actor,
    /// From where: an address, or a word for the socket of this machine.
    pub from: String,
    /// To what: the name of a target, or the path of a request. Empty where nobody said.
    pub object: String,
    /// The operation of a change: its method and its route.
    #[serde(default)]
    pub operation: String,
    /// Whether it was done.
    pub done: bool,
    /// Why a host was refused, as a word that stays.
    #[serde(default)]
    pub reason: String,
    /// How it ended, in words.
    pub outcome: String,
}

/// The audit log of a member.
pub type AuditLog = Log<Entry>;

/// A change that somebody asked for.
#[derive(Debug, Clone)]
pub struct Change {
    /// Who asked.
    pub who: Actor,
    /// From where.
    pub from: String,
    /// Method and route, without what is asked about.
    pub operation: String,
    /// The path that was asked for, without its query.
    pub path: String,
    /// Whether it was done.
    pub done: bool,
    /// How it ended, in words.
    pub outcome: String,
}

impl AuditLog {
    /// Records a change. Each that was done is recorded by itself; of those that failed, repeats are counted.
    pub fn change(&self, change: Change) {
        let entry = Entry {
            action: Action::Change,
            who: change.who,
            from: clipped(&change.from),
            object: clipped(&change.path),
            operation: clipped(&change.operation),
            done: change.done,
            reason: String::new(),
            outcome: clipped(&change.outcome),
        };
        self.record(entry, 1);
    }

    /// Records that somebody was refused who asked for something from afar. Repeats are counted.
    pub fn refused(&self, refused: Refused) {
        let Refused { who, from, operation, reason, sentence } = refused;
        let entry = Entry {
            action: Action::LoginRefused,
            who: Actor { account: who.account.as_deref().map(clipped), ..who },
            from: clipped(&from),
            object: INTERFACE.to_owned(),
            operation: clipped(&operation),
            done: false,
            reason: clipped(&reason),
            outcome: clipped(&sentence),
        };
        self.record(entry, 1);
    }

    /// Records that an account or a token was used from there, and what it may do. Who calls this does not do
    /// so for each request.
    pub fn logged_in(&self, who: Actor, from: &str, role: &str) {
        let entry = Entry {
            action: Action::Login,
            who,
            from: clipped(from),
            object: INTERFACE.to_owned(),
            operation: String::new(),
            done: true,
            reason: String::new(),
            outcome: format!("let in as {role}"),
        };
        self.record(entry, 1);
    }
}

/// What somebody was let in or refused at who asked over TLS.
const INTERFACE: &str = "interface";

/// Somebody who asked from afar and was refused.
#[derive(Debug, Clone)]
pub struct Refused {
    /// Who it was, or said to be.
    pub who: Actor,
    /// From where.
    pub from: String,
    /// Method and path, without a query.
    pub operation: String,
    /// Why, as a word that stays.
    pub reason: String,
    /// The sentence that said so.
    pub sentence: String,
}

/// What the parts of the log hold, in the order in which who is given all of it is to be given them: what accounts did
/// waits for no login of a host.
pub const PARTS: [&str; 3] = ["changes", "logins and ends of sessions", "refusals"];

/// That entries of a part were pushed out, of which the newest is so old.
pub(crate) fn pushed_out(part: usize, age_seconds: u64) -> Event {
    let what = PARTS[part];
    let age = match age_seconds / HOUR_SECONDS {
        0 => "less than an hour".to_owned(),
        hours @ 1..48 => counted(hours, "hour"),
        hours => counted(hours / 24, "day"),
    };
    let text = format!(
        "so many {what} came that entries of the audit log about others, the newest of them {age} old, are kept no longer"
    );
    let event = Event::of_member(Kind::AuditPushedOut, text);
    // Hosts may log in and out often, and anybody can be refused.
    if part == CHANGES { event } else { event.with_severity(Severity::Info) }
}

const HOUR_SECONDS: u64 = 60 * 60;

/// The parts of the log, by their places in [`PARTS`] and [`Recorded::PARTS`].
const CHANGES: usize = 0;
const LOGINS: usize = 1;
const REFUSALS: usize = 2;

/// Where refused logins come from that are not told apart.
const ELSEWHERE: &str = "other addresses";

impl Recorded for Entry {
    /// So that hosts that are refused again and again, from however many addresses, need days to push out
    /// the rest.
    const FOLDS_MAX: usize = 32;

    /// Enough for where people and programs usually are. A token that has leaked is used from addresses without end.
    const FOLDS_OF_OWNER_MAX: usize = 4;

    const PARTS: &'static [&'static str] = &["audit-changes", "audit", "audit-refused"];

    /// 30 days: who looks once a month finds all of it.
    const YOUNG_SECONDS: u64 = 30 * 24 * 60 * 60;

    fn part(&self) -> usize {
        match self.action {
            Action::Change if self.done => CHANGES,
            Action::Change | Action::LoginRefused => REFUSALS,
            Action::Missed if !self.done => REFUSALS,
            Action::Login | Action::SessionEnded | Action::Missed => LOGINS,
        }
    }

    fn fold(&self) -> Fold {
        match self.action {
            Action::Change if self.done => Fold::Never,
            Action::Change => {
                let Actor { account, uid, .. } = &self.who;
                Fold::By(format!("change {account:?} {uid:?} {}", self.operation))
            }
            Action::Missed => Fold::By(format!("missed {}", self.outcome)),
            Action::LoginRefused => {
                let (reason, operation) = (&self.reason, &self.operation);
                let account = self.who.account.as_deref().unwrap_or_default();
                Fold::By(format!("{} {reason} {operation} {account}", self.address()))
            }
            Action::Login | Action::SessionEnded => {
                let Actor { host, account, .. } = &self.who;
                let who = host.as_deref().or(account.as_deref()).unwrap_or_default();
                Fold::By(format!("{:?} {} {who} {}", self.action, self.address(), self.object))
            }
        }
    }

    /// An account or a token that was let in: it exists, and no other one that is used from many addresses hides that
    /// it was used.
    fn owner(&self) -> Option<&str> {
        let is_managed = self.action == Action::Login && self.object == INTERFACE;
        self.who.account.as_deref().filter(|_| is_managed)
    }

    fn others(&self) -> Option<Self> {
        if self.owner().is_some() {
            return Some(Self { from: ELSEWHERE.to_owned(), ..self.clone() });
        }
        let is_refused = matches!(self.action, Action::LoginRefused)
            || self.action == Action::Change && !self.done;
        let outcome = match self.action {
            Action::Change => "other changes that were refused or failed",
            _ => "refused or failed",
        };
        is_refused.then(|| Self {
            who: Actor::default(),
            from: ELSEWHERE.to_owned(),
            object: String::new(),
            operation: String::new(),
            reason: String::new(),
            outcome: outcome.to_owned(),
            ..self.clone()
        })
    }
}

impl Entry {
    /// Where it came from, without the port.
    fn address(&self) -> &str {
        match self.from.parse::<std::net::SocketAddr>() {
            Ok(_) => self.from.rsplit_once(':').map_or(&self.from, |(address, _)| address),
            Err(_) => &self.from,
        }
    }
}

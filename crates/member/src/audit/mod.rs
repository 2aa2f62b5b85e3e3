//! The audit log: who logged in, who was refused, and who changed what, from where and when.
//!
//! It can be read and never changed by what a member is asked. Hosts come from the target
//! (`Logins`), changes from whoever asks the member for them ([`AuditLog::change`]).

mod logins;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::records::{Fold, Log, Recorded, clipped};

pub(crate) use logins::Logins;

/// What somebody did, or wanted to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A host logged in to a target.
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
    /// Records a change. Each is recorded by itself.
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

    /// Records that somebody who asked for something from afar was refused, and the sentence that said so.
    /// Repeats from one address are counted.
    pub fn refused(&self, from: &str, path: &str, sentence: &str) {
        let entry = Entry {
            action: Action::LoginRefused,
            who: Actor::default(),
            from: clipped(from),
            object: clipped(path),
            operation: String::new(),
            done: false,
            reason: INTERFACE.to_owned(),
            outcome: clipped(sentence),
        };
        self.record(entry, 1);
    }
}

/// The reason of those who were refused at the interface.
const INTERFACE: &str = "interface";

/// Where refused logins come from that are not told apart.
const ELSEWHERE: &str = "other addresses";

impl Recorded for Entry {
    /// So that hosts that are refused again and again, from however many addresses, need days to push out
    /// the rest.
    const FOLDS_MAX: usize = 32;

    fn fold(&self) -> Fold {
        match self.action {
            Action::Change => Fold::Never,
            Action::Missed => Fold::By("missed".to_owned()),
            Action::LoginRefused => Fold::By(format!("{} {}", self.address(), self.reason)),
            Action::Login | Action::SessionEnded => {
                let host = self.who.host.as_deref().unwrap_or_default();
                Fold::By(format!("{:?} {} {host} {}", self.action, self.address(), self.object))
            }
        }
    }

    fn others(&self) -> Option<Self> {
        (self.action == Action::LoginRefused).then(|| Self {
            who: Actor::default(),
            from: ELSEWHERE.to_owned(),
            object: String::new(),
            reason: String::new(),
            outcome: "refused".to_owned(),
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

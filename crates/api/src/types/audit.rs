//! The audit log.

use member::Record;
use member::audit;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::same_words;

/// What somebody did, or wanted to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditAction {
    /// A host logged in to a target, or somebody at the interface from an address, told once an hour.
    Login,
    /// A host was refused.
    LoginRefused,
    /// A session of a host ended.
    SessionEnded,
    /// Somebody asked for a change.
    Change,
    /// More was done at once than could be told of.
    Missed,
}

same_words!(AuditAction, audit::Action: Login, LoginRefused, SessionEnded, Change, Missed);

impl AuditAction {
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

/// Who did it. What is not known is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditActor {
    /// The iSCSI name of a host.
    pub host: Option<String>,
    /// The CHAP user that it named.
    pub chap_user: Option<String>,
    /// The account or token of a person or program that asked from afar.
    pub account: Option<String>,
    /// The user of the member's machine, by its number.
    pub uid: Option<u32>,
    /// The name of that user.
    pub user: Option<String>,
    /// The process.
    pub pid: Option<i32>,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Grows by one with each entry; numbers that are left out were of entries that are kept no more.
    pub number: u64,
    /// When it was done.
    pub time_unix_seconds: u64,
    /// What was done.
    pub action: AuditAction,
    /// Who did it.
    pub who: AuditActor,
    /// From where: an address, or `control socket`.
    pub from: String,
    /// To what: the name of a target, or the path of a request. Empty where nobody said.
    pub object: String,
    /// The operation of a change: its method and its route.
    #[schema(example = "POST /v1/volumes/{name}/access")]
    pub operation: String,
    /// Whether it was done.
    pub done: bool,
    /// Why a host was refused, as a word: `not_authorized`, `authentication`, `in_use`, `no_target`,
    /// `out_of_resources` or `other`.
    pub reason: String,
    /// How it ended, in words.
    pub outcome: String,
    /// How often: more than 1 where repeats were counted.
    pub count: u64,
}

impl From<&Record<audit::Entry>> for AuditEntry {
    fn from(record: &Record<audit::Entry>) -> Self {
        let Record { number, unix_seconds, count, what } = record.clone();
        let audit::Actor { host, chap_user, account, uid, user, pid } = what.who;
        Self {
            number,
            time_unix_seconds: unix_seconds,
            action: what.action.into(),
            who: AuditActor { host, chap_user, account, uid, user, pid },
            from: what.from,
            object: what.object,
            operation: what.operation,
            done: what.done,
            reason: what.reason,
            outcome: what.outcome,
            count,
        }
    }
}

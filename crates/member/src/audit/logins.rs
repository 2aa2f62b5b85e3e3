//! Hosts that log in or are refused, as the target tells of them.

use target::{AccessEvent, AccessListener, Happened, Missed, RefusalKind, Who};

use super::{Action, Actor, AuditLog, Entry};
use crate::events::{Event, EventLog, Kind, ObjectKind};
use crate::records::clipped;

/// Hears of logins, and records them.
#[derive(Debug)]
pub(crate) struct Logins {
    pub(crate) audit: AuditLog,
    pub(crate) events: EventLog,
}

impl AccessListener for Logins {
    fn hear(&self, event: &AccessEvent) {
        if let Happened::Refused { who, why: RefusalKind::InUse, reason } = &event.what {
            self.events.hear(second_host(who, reason));
        }
        if let Happened::WriteProtection { who, unit, on } = &event.what {
            self.events.tell(write_protection(who, unit, *on));
        }
        if let Happened::Missed(missed) = &event.what {
            self.events.tell(Event::of_member(Kind::EventsMissed, in_words(missed)));
            missed_entries(missed).for_each(|(entry, times)| _ = self.audit.record(entry, times));
        }
        if let Some((entry, times)) = entry(&event.what) {
            self.audit.record(entry, times);
        }
    }
}

fn second_host(who: &Who, reason: &str) -> Event {
    let target = who.target.as_deref().unwrap_or_default();
    let host = who.initiator.as_deref().unwrap_or("a host");
    let text = format!("{host} at {} was refused at {target}: {reason}", who.from);
    Event::about(Kind::SecondHostRefused, ObjectKind::Target, target, text)
}

/// That a host has made all writes to a volume or snapshot fail, or has let them through again.
fn write_protection(who: &Who, unit: &str, on: bool) -> Event {
    let host = who.initiator.as_deref().unwrap_or("a host");
    let (kind, has) = match on {
        true => (Kind::WriteProtected, "write-protected, so that no host can write"),
        false => (Kind::WriteProtectionEnded, "made writable again"),
    };
    let text = format!("volume {unit} was {has}, by {host} at {}", who.from.ip());
    let volume = unit.split('@').next().unwrap_or(unit);
    Event::about(kind, ObjectKind::Volume, volume, text)
}

/// One kind of what was not told of one by one.
struct MissedKind {
    one: &'static str,
    many: &'static str,
    count: u64,
    /// It was no refusal.
    done: bool,
}

/// Those that there are some of, each by itself: a flood of refused logins is none of hosts that were let in.
fn kinds(missed: &Missed) -> impl Iterator<Item = MissedKind> {
    let Missed { logged_in, refused, ended } = *missed;
    let of = |one, many, count, done| MissedKind { one, many, count, done };
    let all = [
        of("refused login", "refused logins", refused, false),
        of("login that was let in", "logins that were let in", logged_in, true),
        of("end of a session", "ends of sessions", ended, true),
    ];
    all.into_iter().filter(|kind| kind.count > 0)
}

fn in_words(missed: &Missed) -> String {
    let counted = kinds(missed).map(|MissedKind { one, many, count, .. }| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    });
    let counted: Vec<String> = counted.collect();
    format!("{} came too fast to be told of one by one", counted.join(", "))
}

fn missed_entries(missed: &Missed) -> impl Iterator<Item = (Entry, u64)> {
    kinds(missed).map(|MissedKind { many, count, done, .. }| {
        let outcome = format!("{many}, which came too fast to be told of one by one");
        (Entry { done, outcome, ..nobody(Action::Missed) }, count)
    })
}

/// What is recorded of it, and how often it happened.
fn entry(what: &Happened) -> Option<(Entry, u64)> {
    Some(match what {
        Happened::LoggedIn { who, .. } => (of(who, Action::Login, "logged in"), 1),
        Happened::Refused { who, why, reason } => {
            let entry = of(who, Action::LoginRefused, reason);
            (Entry { reason: word_of(*why).to_owned(), ..entry }, 1)
        }
        Happened::Ended { who, reason, .. } => (of(who, Action::SessionEnded, reason), 1),
        Happened::RefusedMore { from, count } => {
            let outcome = "refused, as often before".to_owned();
            (Entry { from: from.to_string(), outcome, ..nobody(Action::LoginRefused) }, *count)
        }
        Happened::WriteProtection { .. } | Happened::Missed(_) => return None,
    })
}

const fn word_of(why: RefusalKind) -> &'static str {
    match why {
        RefusalKind::NotAuthorized => "not_authorized",
        RefusalKind::Authentication => "authentication",
        RefusalKind::InUse => "in_use",
        RefusalKind::NoTarget => "no_target",
        RefusalKind::Full => "out_of_resources",
        RefusalKind::Other => "other",
    }
}

fn of(who: &Who, action: Action, outcome: &str) -> Entry {
    let text = |text: &Option<String>| text.as_deref().map(clipped);
    Entry {
        who: Actor {
            host: text(&who.initiator),
            chap_user: text(&who.chap_user),
            ..Actor::default()
        },
        from: who.from.to_string(),
        object: who.target.as_deref().map(clipped).unwrap_or_default(),
        done: action != Action::LoginRefused,
        outcome: clipped(outcome),
        ..nobody(action)
    }
}

fn nobody(action: Action) -> Entry {
    Entry {
        action,
        who: Actor::default(),
        from: String::new(),
        object: String::new(),
        operation: String::new(),
        done: false,
        reason: String::new(),
        outcome: String::new(),
    }
}

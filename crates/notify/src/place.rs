//! How far a destination has been told, and what repeats itself. It reads no clock and sends nothing.
//!
//! ```text
//!            first                                again
//!   (none) ─────────▶ sent, window opens ──────────────────▶ counted
//!                        │        ▲                             │
//!            fold is over│        │ N more: sent, opens anew    │ fold is over
//!                        ▼        ╰─────────────────────────────╯
//!                     (none)
//! ```
//!
//! Invariants, which [`Place::is_sound`] states:
//! 1. There are at most [`WINDOWS_MAX`] windows and two more, at most [`KIND_WINDOWS_MAX`] of one kind and one
//!    for the rest of the kind: so many messages at most go out at once, whatever happens.
//! 2. What a window counts has a number up to `after`: no event is both counted and to come.

use std::collections::BTreeMap;
use std::sync::Arc;

use group::destinations::{Choice, Severity};
use member::Record;
use member::events::{Event, ObjectKind};
use serde::{Deserialize, Serialize};

use crate::message::{Message, More, Of};
use crate::mutants::{self, Mutant};

/// Things of one kind that are told apart while they repeat themselves.
pub(crate) const KIND_WINDOWS_MAX: usize = 20;

/// Things of all kinds that are.
pub(crate) const WINDOWS_MAX: usize = 200;

/// What repeats itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Window {
    /// What is the same in all of it.
    of: Of,
    /// When it was told of last, in seconds since 1970.
    since: u64,
    /// How often it has happened since.
    more: u64,
    /// The last of those.
    last: Record<Event>,
}

/// How far a destination has been told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Events up to this number are done, apart from what windows have counted.
    after: u64,
    /// Where the destination began when this was made.
    began: u64,
    /// By what repeats itself.
    windows: BTreeMap<String, Window>,
    /// Entries of each part of the audit log up to these numbers are done; `None` where none go there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audit: Option<Audited>,
    /// The same for all parts, as an earlier version wrote it.
    #[serde(default, skip_serializing)]
    audit_after: Option<u64>,
}

/// Up to which number each part of the audit log is done.
pub(crate) type Audited = [u64; member::audit::PARTS.len()];

/// By what rule events go on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule<'a> {
    /// Which do.
    pub(crate) choice: Choice,
    /// The destination, which is not told of itself.
    pub(crate) name: &'a str,
    /// How many messages it takes at once.
    pub(crate) messages_max: usize,
}

impl Rule<'_> {
    fn takes(&self, event: &Event) -> bool {
        let is_about_it = event.object.kind == ObjectKind::Destination
            && event.object.name == self.name
            && !mutants::is(Mutant::TellItself);
        event.severity >= self.choice.severity && !is_about_it
    }
}

/// What is to be sent, and where the destination is when it has taken it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) messages: Vec<Message>,
    pub(crate) place: Place,
    /// Events that the log had given up before they were looked at.
    pub(crate) lost: u64,
}

impl Place {
    /// The place from which a destination goes on in a log: the one that was `stored`, unless the destination was
    /// told to begin elsewhere since. Numbers behind `begun_after` were given in this start: what a crash has
    /// taken from the log is recorded anew under the same ones.
    pub(crate) fn of(
        stored: Option<Self>,
        begins_after: u64,
        (begun_after, last): (u64, u64),
    ) -> Self {
        match stored.filter(|place| place.began == begins_after) {
            Some(place) if mutants::is(Mutant::OldPlace) => place,
            Some(place) => Self { after: place.after.min(begun_after), ..place },
            // Of another log: the disks have come to a machine without it.
            None if begins_after > last => Self { began: begins_after, ..Self::default() },
            None => Self { after: begins_after, began: begins_after, ..Self::default() },
        }
    }

    /// Up to which number all is done.
    pub(crate) const fn after(&self) -> u64 {
        self.after
    }

    /// The same, or where the destination says since it was changed.
    pub(crate) fn beginning(self, begins_after: u64) -> Self {
        match self.began == begins_after {
            true => self,
            false => Self { after: begins_after, began: begins_after, ..Self::default() },
        }
    }

    /// Where the destination goes on in the audit log, if that goes there. `log` is as of [`Place::of`], and
    /// `is_running` says that the place is of this start. No entry is left out because a destination was paused.
    /// One that has had none yet begins after `begins_after`.
    pub(crate) fn auditing(
        self,
        before: Option<Audited>,
        is_audit: bool,
        is_running: bool,
        (begun_after, begins_after): (u64, u64),
    ) -> Self {
        let begins = [begins_after; member::audit::PARTS.len()];
        let after = match before {
            Some(_) if mutants::is(Mutant::ForgetAudit) => begins,
            Some(after) if is_running => after,
            Some(after) => after.map(|number| number.min(begun_after)),
            None => begins,
        };
        Self { audit: is_audit.then_some(after), audit_after: None, ..self }
    }

    /// Up to which number all of each part of the audit log is done.
    pub(crate) fn audit(&self) -> Option<Audited> {
        self.audit.or_else(|| self.audit_after.map(|number| [number; member::audit::PARTS.len()]))
    }

    /// The destination has taken all up to these numbers of the audit log.
    pub(crate) fn audited(&mut self, numbers: Audited) {
        let goes_on = |after: Audited| after.iter().zip(&numbers).all(|(after, now)| after <= now);
        debug_assert!(self.audit.is_some_and(goes_on), "it goes on");
        self.audit = Some(numbers);
    }

    /// Gives up all events that are older than this, and what is counted.
    pub(crate) fn give_up(&mut self, log: &[Arc<Record<Event>>], before_unix_seconds: u64) -> u64 {
        let is_old = |record: &&Arc<Record<Event>>| record.unix_seconds < before_unix_seconds;
        let after = self.after;
        let behind = log.iter().skip_while(|record| record.number <= after);
        let given_up: Vec<u64> = behind.take_while(is_old).map(|record| record.number).collect();
        if let Some(last) = given_up.last() {
            self.after = *last;
            self.windows.clear();
        }
        given_up.len() as u64
    }

    /// Whether there may be something to send: the log has gone on, or a fold is over.
    pub(crate) fn is_due(&self, last_number: u64, fold_seconds: u32, now: u64) -> bool {
        self.after < last_number
            || self.windows.values().any(|window| window.is_over(fold_seconds, now))
    }

    /// What is to be sent of the log, and where that leads.
    pub(crate) fn next(&self, log: &[Arc<Record<Event>>], rule: Rule<'_>, now: u64) -> Step {
        let mut place = self.clone();
        let mut messages = Vec::new();
        place.end_windows(&mut messages, rule, now);
        let mut lost = 0;
        for record in log.iter().skip_while(|record| record.number <= self.after) {
            if messages.len() >= rule.messages_max {
                break;
            }
            lost += record.number - place.after - 1;
            place.after = record.number;
            if rule.takes(&record.what) {
                messages.extend(place.take(record, now));
            }
        }
        debug_assert!(place.is_sound());
        Step { messages, place, lost }
    }

    /// Tells what was counted by windows that are over.
    fn end_windows(&mut self, messages: &mut Vec<Message>, rule: Rule<'_>, now: u64) {
        self.windows.retain(|_, window| {
            if !window.is_over(rule.choice.fold_seconds, now) || messages.len() >= rule.messages_max
            {
                return true;
            }
            let is_again = window.more > 0;
            if is_again {
                let more = More { of: window.of, seconds: rule.choice.fold_seconds };
                let record = Record { count: window.more, ..window.last.clone() };
                messages.push(Message::again(record, more));
                (window.since, window.more) = (now, 0);
            }
            is_again
        });
    }

    /// Counts an event, or says that it is to be sent.
    fn take(&mut self, record: &Record<Event>, now: u64) -> Option<Message> {
        let (key, of) = self.key(&record.what);
        if let Some(window) = self.windows.get_mut(&key) {
            window.more += record.count;
            window.last = record.clone();
            return None;
        }
        let window = Window { of, since: now, more: 0, last: record.clone() };
        self.windows.insert(key, window);
        Some(Message::first(record.clone()))
    }

    /// What an event is counted by: itself, its kind where there are many of that, or nothing at all.
    fn key(&self, event: &Event) -> (String, Of) {
        let own = format!("{} {}", event.severity.word(), event.repeats());
        if self.windows.contains_key(&own) {
            return (own, Of::Thing);
        }
        let is_of_kind = |window: &&Window| window.last.what.kind == event.kind;
        if self.windows.values().filter(is_of_kind).count() >= KIND_WINDOWS_MAX {
            return (format!("kind {}", event.kind), Of::Kind);
        }
        if self.windows.len() >= WINDOWS_MAX {
            // What matters most is told apart from the rest.
            let is_critical = event.severity == Severity::Critical;
            return (if is_critical { "critical" } else { "all" }.to_owned(), Of::Any);
        }
        (own, Of::Thing)
    }

    /// The invariants at the head of this file.
    pub(crate) fn is_sound(&self) -> bool {
        let kinds = self.windows.values().map(|window| window.last.what.kind.as_str());
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        kinds.for_each(|kind| *count.entry(kind).or_default() += 1);
        let rest = self.windows.values().filter(|window| window.of != Of::Thing).count();
        self.windows.len() - rest <= WINDOWS_MAX
            && count.values().all(|count| *count <= KIND_WINDOWS_MAX + 3)
            && self
                .windows
                .values()
                .all(|window| window.last.number <= self.after || self.after == 0)
    }
}

impl Window {
    fn is_over(&self, fold_seconds: u32, now: u64) -> bool {
        // A clock that was set back ends it, too.
        now < self.since || now - self.since >= fold_seconds.into()
    }
}

#[cfg(test)]
mod tests;

//! One destination: what is next is sent, again and again until it is taken or given up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use group::destinations::{Destination, Way};
use group::secrets::Secret;
use member::audit::AuditLog;
use member::events::{Event, EventLog, Kind};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::mutants::{self, Mutant};
use crate::place::{Place, Rule, Step};
use crate::places::Places;
use crate::pulse::{PAUSE, now_unix_seconds};
use crate::send::{AuditPlaces, AuditSent, Sender, behind, messages_max, numbers_of, places_of};
use crate::status::Statuses;

/// Before the second attempt; twice as long before each further one.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// At most so long before an attempt.
const RETRY_MAX: Duration = Duration::from_secs(300);

/// Attempts that fail before it is told: many a server is away for a moment.
const FAILURES_TOLD: u32 = 3;

/// Events that could not be sent for so long are given up.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(24 * 60 * 60);

/// What all workers share.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) events: EventLog,
    pub(crate) audit: AuditLog,
    pub(crate) sender: Sender,
    pub(crate) statuses: Statuses,
    /// Where all destinations are. It is written down by somebody else.
    places: Arc<Mutex<Places>>,
    pub(crate) ending: watch::Receiver<bool>,
}

impl Shared {
    pub(crate) fn new(
        (events, audit): (EventLog, AuditLog),
        sender: Sender,
        statuses: Statuses,
        places: Places,
        ending: watch::Receiver<bool>,
    ) -> Self {
        Self { events, audit, sender, statuses, places: Arc::new(Mutex::new(places)), ending }
    }

    pub(crate) fn places(&self) -> MutexGuard<'_, Places> {
        // Each change is one assignment.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After which entry of the audit log a destination begins that none was sent to yet. Where only what it was sent
    /// `is_forgotten`, that is where it was made, as far as the time of events tells, as with events: some may come
    /// again, and none is left out.
    fn audit_begins(&self, begins_after: u64, is_forgotten: bool) -> u64 {
        if !is_forgotten || mutants::is(Mutant::SkipAudit) {
            return self.audit.last_number();
        }
        let made = self.events.after(begins_after.saturating_sub(1)).into_iter().next();
        match made {
            Some(record) if begins_after > 0 && record.number == begins_after => {
                self.audit.last_before(record.unix_seconds)
            }
            _ => self.audit.last_before(0),
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }
}

/// A destination and what is sent to it.
pub(crate) struct Worker {
    shared: Shared,
    name: String,
    destination: Destination<Secret>,
    place: Place,
    /// Where it is in the audit log, if that goes there.
    audit: Option<AuditPlaces>,
    /// It took not all of that at once.
    is_careful: bool,
    /// Attempts that have failed since the last that did not, and since when.
    failures: u32,
    failing_since: Instant,
    /// It was told that it fails.
    is_told: bool,
    /// Events that were given up since.
    given_up: u64,
}

impl Worker {
    /// One that goes on where the destination was.
    pub(crate) fn new(shared: Shared, name: String, destination: Destination<Secret>) -> Self {
        let stored = shared.places().get(&destination.id).cloned();
        let log = (shared.events.begun_after(), shared.events.last_number());
        let is_running = shared.statuses.has(&name);
        let is_forgotten = stored.is_none() && !is_running && destination.begins_after <= log.0;
        let audit_begins = shared.audit_begins(destination.begins_after, is_forgotten);
        let audit = (shared.audit.begun_after(), audit_begins);
        let audit_before = stored.as_ref().and_then(Place::audit);
        let place = match stored {
            // Of this start: what it says is of this log.
            Some(place) if is_running => place.beginning(destination.begins_after),
            stored => Place::of(stored, destination.begins_after, log),
        };
        let is_audit = matches!(&destination.way, Way::Syslog(syslog) if syslog.audit);
        let place = place.auditing(audit_before, is_audit, is_running, audit);
        shared.statuses.note(&name, |_| {});
        shared.places().insert(destination.id, place.clone());
        let (failing_since, is_told) = (Instant::now(), shared.statuses.of(&name).is_told);
        let audit = place.audit().map(places_of);
        Self {
            shared,
            name,
            destination,
            place,
            audit,
            is_careful: false,
            failures: 0,
            failing_since,
            is_told,
            given_up: 0,
        }
    }

    /// Sends until the end; at the end once more what there is.
    pub(crate) async fn run(mut self) {
        loop {
            let is_ending = self.shared.is_ending();
            let is_idle = self.attempt().await && self.attempt_audit().await;
            if is_ending && (is_idle || self.failures > 0) {
                return;
            }
            let pause = match self.failures {
                0 if is_idle => PAUSE,
                0 => continue,
                failures => backoff(failures),
            };
            let mut ending = self.shared.ending.clone();
            // It is woken by the end.
            drop(timeout(pause, ending.wait_for(|is_ending| *is_ending)).await);
        }
    }

    /// Sends what is next; says whether there was nothing.
    async fn attempt(&mut self) -> bool {
        let now = now_unix_seconds();
        let Destination { id, choice, way, .. } = &self.destination;
        let last = self.shared.events.last_number();
        if !self.place.is_due(last, choice.fold_seconds, now) {
            return true;
        }
        let log = self.shared.events.after(self.place.after());
        let rule = Rule { choice: *choice, name: &self.name, messages_max: messages_max(way) };
        let step = self.place.next(&log, rule, now);
        if mutants::is(Mutant::EarlyPlace) {
            self.shared.places().insert(*id, step.place.clone());
        }
        if step.messages.is_empty() {
            self.take(step);
            return true;
        }
        match self.shared.sender.send(*id, way, &step.messages).await {
            Ok(()) => {
                let count = step.messages.len();
                self.take(step);
                self.delivered(count, now);
            }
            Err(error) => {
                // What is told of destinations is no reason to tell more of them.
                let is_reason = step.messages.iter().any(|message| !message.is_of_destination());
                self.failed(is_reason, &error.to_string(), now);
            }
        }
        false
    }

    /// Sends what is next of the audit log, if that goes there; says whether there was nothing. It waits for as long as
    /// the destination takes nothing, and is given up only when the log has no room for it.
    async fn attempt_audit(&mut self) -> bool {
        let (Way::Syslog(syslog), Some(places)) = (&self.destination.way, &self.audit) else {
            self.shared.statuses.note(&self.name, |status| status.audit_behind = 0);
            return true;
        };
        let last = self.shared.audit.last_number();
        if places.iter().all(|place| place.number >= last) {
            self.is_careful = false;
            return true;
        }
        let now = now_unix_seconds();
        let from = (&self.shared.audit, places);
        let sent = self.shared.sender.send_audit(syslog, from, self.is_careful).await;
        self.is_careful |= sent.is_err();
        let is_sent = match sent {
            Ok(sent) => self.audited(sent, now),
            Err(error) => {
                self.failed(true, &error.to_string(), now);
                true
            }
        };
        let behind = self.audit_behind();
        self.shared.statuses.note(&self.name, |status| status.audit_behind = behind);
        !is_sent
    }

    /// How many entries of the audit log it has still to be sent.
    fn audit_behind(&self) -> u64 {
        self.audit.as_ref().map_or(0, |places| behind(&self.shared.audit, places))
    }

    /// The destination has taken so much of the audit log; says whether that was anything.
    fn audited(&mut self, sent: AuditSent, now: u64) -> bool {
        self.place.audited(numbers_of(&sent.places));
        self.audit = Some(sent.places);
        self.shared.places().insert(self.destination.id, self.place.clone());
        if sent.entries == 0 && sent.missing == 0 {
            return false;
        }
        self.shared.statuses.note(&self.name, |status| status.audit_not_sent += sent.missing);
        self.delivered(usize::try_from(sent.entries).unwrap_or(usize::MAX), now);
        if sent.missing > 0 {
            let text = format!(
                "entries of the audit log were pushed out of it before they could be sent to '{}', which was told so: \
                 {} of them",
                self.name, sent.missing
            );
            self.tell(Kind::AuditNotSent, text);
        }
        true
    }

    fn take(&mut self, step: Step) {
        self.given_up += step.lost;
        self.shared.statuses.note(&self.name, |status| status.given_up += step.lost);
        self.shared.places().insert(self.destination.id, step.place.clone());
        self.place = step.place;
    }

    /// So many were taken.
    fn delivered(&mut self, count: usize, now: u64) {
        self.failures = 0;
        let was_told = std::mem::take(&mut self.is_told);
        self.shared.statuses.note(&self.name, |status| {
            status.delivered += count as u64;
            status.last_unix_seconds = Some(now);
            status.failing = None;
            status.is_told = false;
        });
        let given_up = std::mem::take(&mut self.given_up);
        if was_told {
            let lost = match given_up {
                0 => String::new(),
                lost => {
                    format!("; {lost} were given up meanwhile: 'drystone events' has what is kept")
                }
            };
            let text = format!("events reach the destination '{}' again{lost}", self.name);
            self.tell(Kind::DestinationWorks, text);
        }
    }

    /// It took nothing; `is_reason` says whether that is to be told at all.
    fn failed(&mut self, is_reason: bool, why: &str, now: u64) {
        if self.failures == 0 {
            self.failing_since = Instant::now();
        }
        self.failures = self.failures.saturating_add(1);
        let is_told = self.failures >= FAILURES_TOLD && is_reason && !self.is_told;
        self.is_told |= is_told;
        let behind = self.audit_behind();
        self.shared.statuses.note(&self.name, |status| {
            status.audit_behind = behind;
            status.failed += 1;
            status.failing = Some(why.to_owned());
            status.is_told = self.is_told;
        });
        if is_told {
            let text = format!("events do not reach the destination '{}': {why}", self.name);
            self.tell(Kind::DestinationFailed, text);
        }
        if self.failing_since.elapsed() >= GIVE_UP {
            let log = self.shared.events.after(self.place.after());
            let given_up = self.place.give_up(&log, now.saturating_sub(GIVE_UP.as_secs()));
            self.given_up += given_up;
            self.shared.statuses.note(&self.name, |status| status.given_up += given_up);
            self.shared.places().insert(self.destination.id, self.place.clone());
        }
    }

    fn tell(&self, kind: Kind, text: String) {
        self.shared.events.tell(Event::of_destination(kind, &self.name, text));
    }
}

/// How long after so many failures, give or take a quarter: many members do not knock at the same moment.
fn backoff(failures: u32) -> Duration {
    let doubled = RETRY_FIRST.saturating_mul(1 << (failures - 1).min(16));
    doubled.min(RETRY_MAX).mul_f64(0.75 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_grow_rarer_and_never_cease() {
        for (failures, seconds) in [(1, 1.0), (2, 2.0), (5, 16.0), (10, 300.0), (u32::MAX, 300.0)] {
            let pause = backoff(failures).as_secs_f64();
            assert!((0.75 * seconds..=1.25 * seconds).contains(&pause), "{failures}: {pause}");
        }
    }
}

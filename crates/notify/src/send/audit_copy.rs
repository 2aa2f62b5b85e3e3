//! The copy of the audit log at a syslog server: in batches over one connection for as long as there is more.
//!
//! Each part of the log has a place of its own, and each batch begins with what accounts did: however many hosts log
//! in, no change waits for them. What the log has pushed out before it was sent is a line of its own.

use std::time::Duration;

use group::destinations::Syslog;
use member::PartPlace;
use member::audit::{AuditLog, PARTS};
use tokio::time::Instant;

use super::audit::{audit_line, missing_line};
use super::syslog::{END_TIME, Link, REFUSAL_TIME};
use super::{SendError, Sender};
use crate::mutants::{self, Mutant};
use crate::place::Audited;

/// Entries of each part in one batch.
pub(crate) const ENTRIES_MAX: usize = 100;

/// After so long a connection ends although there is more, so that what was taken is known, and events have their turn.
const ROUND_TIME: Duration = Duration::from_secs(5);

/// Between two batches of datagrams, which nobody holds up.
const DATAGRAMS_PAUSE: Duration = Duration::from_millis(20);

/// Where a server is in each part.
pub(crate) type Places = [PartPlace; PARTS.len()];

pub(crate) fn places_of(numbers: Audited) -> Places {
    numbers.map(PartPlace::of)
}

pub(crate) fn numbers_of(places: &Places) -> Audited {
    places.map(|place| place.number)
}

/// How many entries are still to be sent.
pub(crate) fn behind(log: &AuditLog, places: &Places) -> u64 {
    (0..PARTS.len()).map(|part| log.behind(part, places[part])).sum()
}

/// What a server was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) places: Places,
    pub(crate) entries: u64,
    /// Entries that it was not sent.
    pub(crate) missing: u64,
}

/// A batch as lines, and where it leads.
struct Batch {
    lines: Vec<String>,
    sent: Sent,
    is_all: bool,
}

impl Sender {
    /// Sends the audit log from these places on, all of it or an error; then some may have been taken. Where that went
    /// wrong before it is one batch, `carefully`: a server that ends each connection after so many lines would be sent
    /// the same ones for ever.
    pub(crate) async fn send_audit(
        &self,
        syslog: &Syslog,
        (log, places): (&AuditLog, &Places),
        carefully: bool,
    ) -> Result<Sent, SendError> {
        let begun = Instant::now();
        let mut sent = Sent { places: *places, entries: 0, missing: 0 };
        let mut link = None;
        loop {
            let Batch { lines, sent: more, is_all } = self.batch(log, &sent.places);
            let is_last = is_all || carefully && !mutants::is(Mutant::AllAgain);
            if !lines.is_empty() {
                let link = match &mut link {
                    Some(link) => link,
                    none => none.insert(self.in_time(syslog, Link::open(syslog)).await?),
                };
                let refusal_time = if is_last { REFUSAL_TIME } else { DATAGRAMS_PAUSE };
                self.in_time(syslog, link.write(&lines, refusal_time)).await?;
            }
            sent = Sent {
                places: more.places,
                entries: sent.entries + more.entries,
                missing: sent.missing + more.missing,
            };
            if is_last || begun.elapsed() >= ROUND_TIME {
                if let Some(link) = link {
                    // While there is more, a server that leaves the connection open is waited for less.
                    let end_time = if is_last { END_TIME } else { REFUSAL_TIME };
                    self.in_time(syslog, link.end(end_time)).await?;
                }
                return Ok(sent);
            }
        }
    }

    fn batch(&self, log: &AuditLog, places: &Places) -> Batch {
        let sent = Sent { places: *places, entries: 0, missing: 0 };
        let mut batch = Batch { lines: Vec::new(), sent, is_all: true };
        let last_first = mutants::is(Mutant::LoginsFirst);
        for part in 0..PARTS.len() {
            let part = if last_first { PARTS.len() - 1 - part } else { part };
            if last_first && !batch.is_all {
                break;
            }
            let next = log.next_of(part, places[part], ENTRIES_MAX);
            if next.missing > 0 && !mutants::is(Mutant::HideMissing) {
                let numbers = (places[part].number + 1, next.missing_to);
                batch.lines.push(missing_line(self, PARTS[part], next.missing, numbers));
                batch.sent.missing += next.missing;
            }
            batch.lines.extend(next.records.iter().map(|entry| audit_line(self, entry)));
            batch.sent.entries += next.records.len() as u64;
            batch.sent.places[part] = next.place;
            batch.is_all &= next.is_all;
        }
        batch
    }
}

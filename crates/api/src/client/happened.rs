//! What is asked about what happened, and about who did what.

use axum::http::Method;

use super::http::Sent;
use super::printed::printed;
use super::{Client, Result, events, with_query};
use crate::types::{AuditEntry, Event, Severity};

/// From when on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// So many seconds before now, by the clock of the member: what it recorded has its times, and who asks may have
    /// another clock.
    Ago(u64),
    /// Seconds since 1970 (UTC).
    At(u64),
}

impl Since {
    /// As the query has it.
    fn word(self) -> (&'static str, String) {
        match self {
            Self::Ago(seconds) => ("seconds_ago", seconds.to_string()),
            Self::At(seconds) => ("since", seconds.to_string()),
        }
    }
}

/// The same beside others, some of which are left out.
fn word<'a>(since: Option<&'a (&'static str, String)>) -> (&'static str, Option<&'a str>) {
    since.map_or(("since", None), |(name, value)| (*name, Some(value)))
}

/// Which events are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct WhichEvents<'a> {
    /// Those since then; not for those that are followed.
    pub since: Option<Since>,
    /// Those that matter at least as much.
    pub severity: Option<Severity>,
    /// Those about things whose name has this text in it.
    pub object: Option<&'a str>,
    /// Of those, so many of the last; not for those that are followed.
    pub last: Option<usize>,
}

impl Client {
    /// What happened, oldest first.
    pub fn events(&self, which: &WhichEvents<'_>) -> Result<Vec<Event>> {
        let since = which.since.map(Since::word);
        let last = which.last.map(|last| last.to_string());
        let words = [
            word(since.as_ref()),
            ("last", last.as_deref()),
            ("severity", which.severity.map(Severity::word)),
            ("object", which.object),
        ];
        self.list(&with_query("/v1/events", &words))
    }

    /// Hears of events from this number on, for as long as `hear` says so. That the member stops is an error.
    pub fn follow_events(
        &self,
        from: u64,
        which: &WhichEvents<'_>,
        hear: &mut dyn FnMut(Event) -> bool,
    ) -> Result<()> {
        let from = from.to_string();
        let words = [
            ("from", Some(from.as_str())),
            ("severity", which.severity.map(Severity::word)),
            ("object", which.object),
        ];
        let path = with_query("/v1/events/stream", &words);
        let mut each = |name: &str, data: &str| {
            if name == "event" {
                return printed(data.as_bytes()).map(&mut *hear);
            }
            Ok(true)
        };
        let sent = self.addressed(&Sent::new(Method::GET, &path));
        events::follow(&self.way, &sent, &mut each).map(drop)
    }

    /// Who did what, oldest first; `done` leaves what was done, or what was refused or failed.
    pub fn audit(
        &self,
        since: Option<Since>,
        done: Option<bool>,
        last: Option<usize>,
    ) -> Result<Vec<AuditEntry>> {
        let since = since.map(Since::word);
        let (done, last) = (done.map(|done| done.to_string()), last.map(|last| last.to_string()));
        let words = [word(since.as_ref()), ("done", done.as_deref()), ("last", last.as_deref())];
        self.list(&with_query("/v1/audit", &words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a caller whose clock is wrong the answer would be wrong, and nobody would see it.
    #[test]
    fn how_long_ago_is_left_to_the_clock_of_the_member() {
        assert_eq!(Since::Ago(3600).word(), ("seconds_ago", "3600".to_owned()));
        assert_eq!(Since::At(3600).word(), ("since", "3600".to_owned()));
        assert_eq!(word(None), ("since", None));
    }
}

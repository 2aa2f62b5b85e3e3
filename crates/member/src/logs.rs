//! What is kept of what happened: events and the audit log, in the data directory of a member.

use std::io;
use std::path::Path;
use std::sync::Arc;

use target::AccessListener;

use crate::audit::{AuditLog, Logins, pushed_out};
use crate::events::{Event, EventLog, Kind};
use crate::records::{Heard, Log, not_written};

/// The logs of a member.
#[derive(Debug, Clone)]
pub struct Logs {
    /// What operators should know of.
    pub events: EventLog,
    /// Who did what.
    pub audit: AuditLog,
}

impl Logs {
    /// Reads what there is in the directory `data`, and goes on there. Where nothing can be written, memory
    /// keeps what it can.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn open(data: &Path) -> io::Result<Self> {
        let about = Arc::new(std::sync::OnceLock::<EventLog>::new());
        let hears = |what: &'static str| {
            let about = about.clone();
            Box::new(move |heard: Heard<'_>| {
                let Some(events) = about.get() else { return };
                match heard {
                    Heard::PushedOut { part, age_seconds } => {
                        events.tell(pushed_out(part, age_seconds));
                    }
                    Heard::NotWritten(error) => {
                        let text = not_written(what, &error.to_string());
                        events.hear(Event::of_member(Kind::LogNotWritten, text));
                    }
                    Heard::Written => {
                        let text = format!("the {what} is written to the data directory again");
                        events.hear(Event::of_member(Kind::LogWritten, text));
                    }
                }
            })
        };
        let events = Log::start("event log", data, hears("event log"))?;
        about.get_or_init(|| events.clone());
        let audit = Log::start("audit log", data, hears("audit log"))?;
        Ok(Self { events, audit })
    }

    /// Who is to hear of the logins of hosts.
    #[must_use]
    pub fn listener(&self) -> Arc<dyn AccessListener> {
        Arc::new(Logins { audit: self.audit.clone(), events: self.events.clone() })
    }

    /// Notes that the member serves, and whether it stopped in order before.
    pub fn started(&self, version: &str) {
        let event = match self.events.ended_in_order() {
            true => {
                let text = format!("the member has started, version {version}");
                Event::of_member(Kind::MemberStarted, text)
            }
            false => {
                let text = format!(
                    "the member has started, version {version}, and did not stop in order before: what \
                     was acknowledged is there"
                );
                Event::of_member(Kind::MemberStartedUnclean, text)
            }
        };
        self.events.hear(event);
    }

    /// Which of them are in memory only, and why, one sentence each.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        self.audit.fault().into_iter().chain(self.events.fault()).collect()
    }

    /// Nothing happens any more: waits a moment until all is on the disk.
    pub fn end(&self) {
        self.audit.end();
        self.events.end();
    }
}

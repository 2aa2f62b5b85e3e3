//! How messages reach a destination. Each attempt makes its own connections, and ends within [`SEND_TIME`].

mod audit;
mod audit_copy;
mod bounded;
mod email;
mod syslog;
mod tls;
mod webhook;

use std::error::Error;
use std::io;
use std::time::Duration;

use group::destinations::{HostPort, Syslog, Way};
use group::secrets::Secret;
use member::Record;
use member::events::Event;
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) use audit_copy::{
    Places as AuditPlaces, Sent as AuditSent, behind, numbers_of, places_of,
};

use crate::message::{Message, cut, line};

/// How long an attempt may take.
pub const SEND_TIME: Duration = Duration::from_secs(30);

/// Bytes of what a server says that are passed on.
const SAID_BYTES_MAX: usize = 200;

/// Why a destination did not take what it was sent. No secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Nobody is there.
    #[error("'{place}' cannot be reached: {why}")]
    Unreachable {
        /// Where.
        place: String,
        /// What the system says.
        why: String,
    },
    /// Its certificate is not trusted, or it speaks no TLS.
    #[error("'{place}' is not trusted, and was told nothing: {why}")]
    Untrusted {
        /// Where.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// It says no.
    #[error("'{place}' did not take it: {why}")]
    Refused {
        /// Where.
        place: String,
        /// What it says.
        why: String,
    },
    /// It says nothing.
    #[error("'{place}' did not answer in time")]
    Silent {
        /// Where.
        place: String,
    },
    /// It cannot be sent.
    #[error("it cannot be sent: {0}")]
    Unsendable(String),
}

impl SendError {
    fn unreachable(place: &str, error: &dyn Error) -> Self {
        Self::Unreachable { place: place.to_owned(), why: said(error) }
    }

    fn untrusted(place: &str, error: &dyn Error) -> Self {
        Self::Untrusted { place: place.to_owned(), why: said(error) }
    }

    fn refused(place: &str, why: &str) -> Self {
        Self::Refused { place: place.to_owned(), why: cut(&line(why), SAID_BYTES_MAX) }
    }
}

/// An error and what is behind it, as one line. What a server has said is a part of it.
fn said(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    cut(&line(&text), SAID_BYTES_MAX)
}

/// Whether an error of this type is behind another.
fn has_cause<E: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if error.is::<E>() || inner.is_some_and(|inner| inner.is::<E>()) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Who sends, and how it shows events.
#[derive(Debug, Clone)]
pub struct Sender {
    /// The name of this machine: letters, digits, `-` and `.`.
    host: String,
    version: &'static str,
    time: Duration,
    /// What to do about an event; empty where nothing is to be done.
    pub(crate) advice: fn(&Event) -> String,
    /// An event as JSON.
    json: fn(&Record<Event>) -> String,
}

impl Sender {
    /// One that calls itself by the name of this machine.
    #[must_use]
    pub fn new(
        version: &'static str,
        advice: fn(&Event) -> String,
        json: fn(&Record<Event>) -> String,
    ) -> Self {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { host: plain_host(&name), version, time: SEND_TIME, advice, json }
    }

    /// The same with less patience.
    #[cfg(test)]
    pub(crate) fn with_time(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// Sends messages, all of them or an error; then some may have been taken. `id` tells destinations apart.
    ///
    /// # Errors
    /// [`SendError`]
    pub async fn send(
        &self,
        id: u64,
        way: &Way<Secret>,
        messages: &[Message],
    ) -> Result<(), SendError> {
        let sent = async {
            match way {
                Way::Webhook(webhook) => webhook::send(self, webhook, messages).await,
                Way::Email(email) => email::send(self, id, email, messages).await,
                Way::Syslog(syslog) => syslog::send(self, syslog, messages).await,
            }
        };
        let silent = |_| SendError::Silent { place: place(way) };
        timeout(self.time, sent).await.unwrap_or_else(|late| Err(silent(late)))
    }

    /// A step on the way to a syslog server, within the time for it.
    async fn in_time<T>(
        &self,
        syslog: &Syslog,
        step: impl Future<Output = Result<T, SendError>>,
    ) -> Result<T, SendError> {
        let silent = SendError::Silent { place: place_of(&syslog.server) };
        timeout(self.time, step).await.unwrap_or(Err(silent))
    }
}

/// How many messages go there in one attempt.
pub(crate) const fn messages_max(way: &Way<Secret>) -> usize {
    match way {
        // Each is a request of its own, and what was taken of several would be sent again.
        Way::Webhook(_) => 1,
        Way::Email(_) => 50,
        Way::Syslog(_) => 100,
    }
}

/// Where it is, for people.
fn place(way: &Way<Secret>) -> String {
    match way {
        Way::Webhook(webhook) => webhook.url.place().to_owned(),
        Way::Email(email) => place_of(&email.smtp),
        Way::Syslog(syslog) => place_of(&syslog.server),
    }
}

fn place_of(server: &HostPort) -> String {
    server.to_string()
}

async fn connect(server: &HostPort, port: u16, place: &str) -> Result<TcpStream, SendError> {
    let unreachable = |error: io::Error| SendError::unreachable(place, &error);
    let stream = TcpStream::connect((server.host.as_str(), port)).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    Ok(stream)
}

/// The name of a machine as protocols take it.
fn plain_host(name: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let plain: String = name.chars().filter(is_plain).take(253).collect();
    let plain = plain.trim_matches(['-', '.']);
    if plain.is_empty() { "localhost".to_owned() } else { plain.to_owned() }
}

#[cfg(test)]
pub(crate) mod tests;

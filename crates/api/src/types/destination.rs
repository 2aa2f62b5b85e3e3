//! Where events go on to.

use group::destinations::{self, AddressError, Choice, FOLD_SECONDS, Syslog as StoredSyslog};
use group::secrets::Secret as Opened;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Severity, same_words};

/// A secret of a destination: one line of 1 to 1024 characters. It is taken and never given or shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = Password, min_length = 1, max_length = 1024)]
pub struct DestinationSecret(pub String);

impl std::fmt::Debug for DestinationSecret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("DestinationSecret(..)")
    }
}

impl From<DestinationSecret> for Opened {
    fn from(DestinationSecret(text): DestinationSecret) -> Self {
        Self::new(text.into_bytes())
    }
}

/// How a connection to an SMTP server is kept from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MailTls {
    /// Not at all.
    None,
    /// Before anything else is said; a server that cannot do it is given nothing.
    #[default]
    Starttls,
    /// From its beginning.
    Tls,
}

same_words!(MailTls, destinations::MailTls: None, Starttls, Tls);

/// How messages reach a syslog server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyslogTransport {
    /// A datagram each.
    #[default]
    Udp,
    /// In a stream.
    Tcp,
    /// In a stream over TLS.
    Tls,
}

same_words!(SyslogTransport, destinations::SyslogTransport: Udp, Tcp, Tls);

/// How events go on: one of the three.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NewWay {
    /// Each as JSON to a URL.
    Webhook(NewWebhook),
    /// As e-mail.
    Email(NewEmail),
    /// As lines of RFC 5424.
    Syslog(Syslog),
}

/// A URL that events are sent to, as `GET /v1/events` shows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWebhook {
    /// Where: `https://HOST/PATH`, or `http://`.
    pub url: String,
    /// Authorities in PEM to trust, instead of those that the member's machine does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub roots: Option<String>,
    /// What bodies are signed with: `Drystone-Signature: sha256=` and their HMAC-SHA256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub secret: Option<DestinationSecret>,
    /// A token that goes along as `Authorization: Bearer`; over `https` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub token: Option<DestinationSecret>,
}

/// Addresses, and the server that takes e-mail for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEmail {
    /// Whom it is for: 1 to 16 addresses.
    #[schema(min_items = 1, max_items = 16)]
    pub to: Vec<String>,
    /// From whom it is.
    pub from: String,
    /// Who takes it: `HOST` or `HOST:PORT`.
    #[schema(example = "mail.example.com:587")]
    pub smtp: String,
    /// How the way there is kept from others.
    #[serde(default)]
    pub tls: MailTls,
    /// Authorities in PEM to trust, instead of those that the member's machine does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub roots: Option<String>,
    /// As whom to log in there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub user: Option<String>,
    /// By what; over TLS only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub password: Option<DestinationSecret>,
}

/// A syslog server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Syslog {
    /// Where it is: `HOST` or `HOST:PORT`.
    #[schema(example = "log.example.com:514")]
    pub server: String,
    /// How it is reached.
    #[serde(default)]
    pub transport: SyslogTransport,
    /// Authorities in PEM to trust, instead of those that the member's machine does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub roots: Option<String>,
    /// Each entry of the audit log goes there too.
    #[serde(default)]
    pub audit: bool,
}

impl TryFrom<NewWay> for destinations::Way<Opened> {
    type Error = AddressError;

    fn try_from(way: NewWay) -> Result<Self, AddressError> {
        Ok(match way {
            NewWay::Webhook(NewWebhook { url, roots, secret, token }) => {
                let (secret, token) = (secret.map(Into::into), token.map(Into::into));
                Self::Webhook(destinations::Webhook { url: url.parse()?, roots, secret, token })
            }
            NewWay::Email(NewEmail { to, from, smtp, tls, roots, user, password }) => {
                Self::Email(destinations::Email {
                    to: to.iter().map(|to| to.parse()).collect::<Result<_, _>>()?,
                    from: from.parse()?,
                    smtp: smtp.parse()?,
                    tls: tls.into(),
                    roots,
                    user,
                    password: password.map(Into::into),
                })
            }
            NewWay::Syslog(Syslog { server, transport, roots, audit }) => {
                Self::Syslog(StoredSyslog {
                    server: server.parse()?,
                    transport: transport.into(),
                    roots,
                    audit,
                })
            }
        })
    }
}

/// A destination to be added. What happens from then on goes there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDestination {
    /// Unique: 1 to 40 letters, digits, `-`, `_` or `.`, a letter or digit first.
    pub name: String,
    /// How events go there.
    pub to: NewWay,
    /// Events that matter at least as much go there.
    #[serde(default = "warning")]
    pub severity: Severity,
    /// How long repeats of one are folded: the first goes at once, the others as one when this is over.
    #[serde(default = "fold_seconds")]
    #[schema(minimum = 1, maximum = 86_400)]
    pub fold_seconds: u32,
    /// None goes there at first.
    #[serde(default)]
    pub paused: bool,
}

const fn warning() -> Severity {
    Severity::Warning
}

const fn fold_seconds() -> u32 {
    FOLD_SECONDS
}

impl NewDestination {
    /// As a member is asked for it.
    pub(crate) fn request(self) -> Result<member::DestinationRequest, AddressError> {
        let (name, choice, way) = self.parts()?;
        Ok(member::DestinationRequest::Add { name, choice, way })
    }

    /// The same among other changes.
    pub(crate) fn into_step(self) -> Result<member::DestinationToDo, AddressError> {
        let (name, choice, way) = self.parts()?;
        Ok(member::DestinationToDo::Add { name, choice, way })
    }

    fn parts(self) -> Result<(String, Choice, destinations::Way<Opened>), AddressError> {
        let Self { name, to, severity, fold_seconds, paused } = self;
        let choice = Choice { severity: severity.into(), fold_seconds, paused };
        Ok((name, choice, to.try_into()?))
    }
}

/// What is to be changed of a destination; what is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DestinationChange {
    /// Where events go and how, all of it: secrets that are not given again are forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub to: Option<NewWay>,
    /// Which do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub severity: Option<Severity>,
    /// How long repeats of one are folded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1, maximum = 86_400)]
    pub fold_seconds: Option<u32>,
    /// None goes there, or it goes on. What happens meanwhile is not made up for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub paused: Option<bool>,
}

impl TryFrom<DestinationChange> for destinations::DestinationChange<Opened> {
    type Error = AddressError;

    fn try_from(change: DestinationChange) -> Result<Self, AddressError> {
        let DestinationChange { to, severity, fold_seconds, paused } = change;
        let way = to.map(TryInto::try_into).transpose()?;
        Ok(Self { severity: severity.map(Into::into), fold_seconds, paused, way })
    }
}

/// How events go on, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Each as JSON to a URL.
    Webhook(Webhook),
    /// As e-mail.
    Email(Email),
    /// As lines of RFC 5424.
    Syslog(Syslog),
}

/// A URL that events are sent to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Webhook {
    /// Its server. The path is not shown: that is often all that such a URL is kept by.
    pub server: String,
    /// Bodies are signed.
    pub has_secret: bool,
    /// A token goes along.
    pub has_token: bool,
    /// Authorities in PEM that are trusted, if they are not those of the member's machine.
    pub roots: Option<String>,
}

/// Addresses, and the server that takes e-mail for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Email {
    /// Whom it is for.
    pub to: Vec<String>,
    /// From whom it is.
    pub from: String,
    /// Who takes it.
    pub smtp: String,
    /// How the way there is kept from others.
    pub tls: MailTls,
    /// Authorities in PEM that are trusted, if they are not those of the member's machine.
    pub roots: Option<String>,
    /// As whom to log in there.
    pub user: Option<String>,
}

impl From<destinations::Way<()>> for Way {
    fn from(way: destinations::Way<()>) -> Self {
        match way {
            destinations::Way::Webhook(webhook) => Self::Webhook(Webhook {
                server: webhook.url.place().to_owned(),
                has_secret: webhook.secret.is_some(),
                has_token: webhook.token.is_some(),
                roots: webhook.roots,
            }),
            destinations::Way::Email(email) => Self::Email(Email {
                to: email.to.into_iter().map(Into::into).collect(),
                from: email.from.into(),
                smtp: email.smtp.into(),
                tls: email.tls.into(),
                roots: email.roots,
                user: email.user,
            }),
            destinations::Way::Syslog(syslog) => Self::Syslog(Syslog {
                server: syslog.server.into(),
                transport: syslog.transport.into(),
                roots: syslog.roots,
                audit: syslog.audit,
            }),
        }
    }
}

/// Where events go on to, as it is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfiguredDestination {
    /// Its name.
    pub name: String,
    /// How events go there.
    pub to: Way,
    /// Events that matter at least as much do.
    pub severity: Severity,
    /// How long repeats of one are folded.
    pub fold_seconds: u32,
    /// None goes there for now.
    pub paused: bool,
    /// Its secrets can be used; see [`Destination`].
    #[serde(default = "usable")]
    pub usable: bool,
    /// As of [`Destination`].
    #[serde(skip)]
    pub(crate) changed: u64,
    /// As of [`Destination`].
    #[serde(skip)]
    pub(crate) id: u64,
}

/// What a member of an earlier version does not tell.
const fn usable() -> bool {
    true
}

impl From<member::DestinationShown> for ConfiguredDestination {
    fn from(shown: member::DestinationShown) -> Self {
        let member::DestinationShown { name, id, choice, way, is_usable, changed } = shown;
        Self {
            name,
            to: way.into(),
            severity: choice.severity.into(),
            fold_seconds: choice.fold_seconds,
            paused: choice.paused,
            usable: is_usable,
            changed,
            id,
        }
    }
}

/// Where events go on to, and how that does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Destination {
    /// Its name.
    pub name: String,
    /// How events go there.
    pub to: Way,
    /// Events that matter at least as much do.
    pub severity: Severity,
    /// How long repeats of one are folded.
    pub fold_seconds: u32,
    /// None goes there for now.
    pub paused: bool,
    /// Its secrets can be used. Otherwise nothing is sent, and they must be given again, as the key that they were
    /// encrypted with is not here.
    pub usable: bool,
    /// Messages that it has taken since the member was started.
    pub delivered: u64,
    /// Attempts that have failed since then.
    pub failed: u64,
    /// Events that were given up since then: it took none for a day, or the log has no room for more.
    pub given_up: u64,
    /// Entries of the audit log that were still to be sent to it when it was looked last.
    #[serde(default)]
    pub audit_behind: u64,
    /// Entries of the audit log that it was not sent since the member was started: the log had no room for more.
    #[serde(default)]
    pub audit_not_sent: u64,
    /// When it took something last; null if nothing since then.
    pub last_unix_seconds: Option<u64>,
    /// Why the last attempt has failed; null if it has not. It is tried again.
    pub failing: Option<String>,
    /// The number of its last change, which its tag is made of and which does not travel.
    #[serde(skip)]
    pub(crate) changed: u64,
    /// The number that no other one has, for the same.
    #[serde(skip)]
    pub(crate) id: u64,
}

impl From<member::DestinationShown> for Destination {
    fn from(shown: member::DestinationShown) -> Self {
        let member::DestinationShown { name, id, choice, way, is_usable, changed } = shown;
        Self {
            name,
            to: way.into(),
            severity: choice.severity.into(),
            fold_seconds: choice.fold_seconds,
            paused: choice.paused,
            usable: is_usable,
            delivered: 0,
            failed: 0,
            given_up: 0,
            audit_behind: 0,
            audit_not_sent: 0,
            last_unix_seconds: None,
            failing: None,
            changed,
            id,
        }
    }
}

impl Destination {
    /// With how it does.
    pub(crate) fn with(self, status: notify::Status) -> Self {
        let notify::Status { delivered, failed, given_up, .. } = status;
        let notify::Status { audit_behind, audit_not_sent, last_unix_seconds, failing, .. } =
            status;
        Self {
            delivered,
            failed,
            given_up,
            audit_behind,
            audit_not_sent,
            last_unix_seconds,
            failing,
            ..self
        }
    }
}

/// What came of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DestinationTest {
    /// The destination has taken it. Of syslog this says that it was sent: nobody answers there.
    pub taken: bool,
    /// Why it did not.
    pub why: Option<String>,
}

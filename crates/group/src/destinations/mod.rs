//! Where the events of a member go on to: an e-mail address, a webhook, a syslog server.
//!
//! Invariants of what is stored, which [`Destination::check`] keeps:
//! 1. An address holds nothing that ends a line, a header or a word of a protocol.
//! 2. A secret never travels in the clear: a token needs `https`, a password TLS.
//! 3. Whoever says where events go says the secrets anew: none is sent to a place that it was not given for.
//!
//! This room sends nothing.

mod address;

use serde::{Deserialize, Serialize};

use crate::record::Setting;

pub use address::{AddressError, HostPort, MailAddress, WebhookUrl};

/// Destinations of a member, at most.
pub const DESTINATIONS_MAX: usize = 16;

/// Addressees of one destination, at most.
pub const ADDRESSEES_MAX: usize = 16;

/// How long repeats are folded unless it is said otherwise.
pub const FOLD_SECONDS: u32 = 300;

/// The longest time for which they are.
pub const FOLD_SECONDS_MAX: u32 = 86_400;

/// The longest name of a destination.
const NAME_BYTES_MAX: usize = 40;

/// The longest secret: more than any token of somebody else's.
const SECRET_BYTES_MAX: usize = 1024;

/// Authorities in PEM, at most.
const ROOTS_BYTES_MAX: usize = 64 << 10;

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Info,
    /// Somebody should look at it.
    Warning,
    /// Something does not work, or has lost its redundancy.
    Error,
    /// Hosts do not reach their data, or data is lost.
    Critical,
}

impl Severity {
    /// All, from the least to the most.
    pub const ALL: [Self; 4] = [Self::Info, Self::Warning, Self::Error, Self::Critical];

    /// How it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// Why a destination is not made or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// A name that none can have.
    #[error(
        "'{0}' cannot be the name of a destination: write 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.', and a letter or digit first"
    )]
    Name(String),
    /// None has this name.
    #[error("there is no destination '{0}'")]
    NoSuchDestination(String),
    /// One has this name.
    #[error("there is a destination '{0}' already: choose another name, or change that one")]
    DestinationExists(String),
    /// There are as many as there may be.
    #[error("there are {DESTINATIONS_MAX} destinations already: delete one first")]
    TooManyDestinations,
    /// An address that none can be.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// No addressee, or too many.
    #[error("an e-mail cannot go to {0} addresses: write 1 to {ADDRESSEES_MAX}")]
    Addressees(usize),
    /// A time that is too long.
    #[error("repeats are folded for 1 to {FOLD_SECONDS_MAX} seconds")]
    Fold,
    /// A secret that cannot be one.
    #[error(
        "the {0} has to be one line of 1 to {SECRET_BYTES_MAX} characters without control characters"
    )]
    Secret(&'static str),
    /// A token that would be read on the way.
    #[error(
        "a token would be read by others on the way to an http address: write one that begins with https"
    )]
    TokenInClear,
    /// A password that would be.
    #[error(
        "a password would be read by others on the way: have the connection encrypted, by STARTTLS or by TLS from its beginning"
    )]
    PasswordInClear,
    /// A user without a password, or the other way round.
    #[error("a login at an SMTP server is a user and a password: give both or none")]
    HalfLogin,
    /// Authorities without a use for them.
    #[error(
        "certificates to trust are of no use without TLS: leave them out, or have the connection encrypted"
    )]
    RootsUnused,
    /// No certificates.
    #[error("the certificates to trust have to be in PEM, and {ROOTS_BYTES_MAX} bytes at most")]
    Roots,
}

/// How a connection to an SMTP server is kept from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailTls {
    /// Not at all.
    None,
    /// Before anything else is said (RFC 3207). A server that cannot do it is given nothing.
    Starttls,
    /// From its beginning (RFC 8314 §3.3).
    Tls,
}

/// How messages reach a syslog server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyslogTransport {
    /// A datagram each (RFC 5426).
    Udp,
    /// Counted, in a stream (RFC 6587 §3.4.1).
    Tcp,
    /// The same over TLS (RFC 5425).
    Tls,
}

/// How events go on. `S` is what a secret is: sealed in the store, in the clear for whoever sends, and whether
/// there is one for whoever looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way<S> {
    /// Each as JSON to a URL.
    Webhook(Webhook<S>),
    /// As e-mail.
    Email(Email<S>),
    /// As lines of RFC 5424.
    Syslog(Syslog),
}

/// A URL that events are sent to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook<S> {
    /// Where.
    pub url: WebhookUrl,
    /// Authorities in PEM to trust, instead of those that the system does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<String>,
    /// What bodies are signed with.
    pub secret: Option<S>,
    /// A token that goes along (RFC 6750).
    pub token: Option<S>,
}

/// Addresses, and the server that takes e-mail for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Email<S> {
    /// Whom it is for.
    pub to: Vec<MailAddress>,
    /// From whom it is.
    pub from: MailAddress,
    /// Who takes it.
    pub smtp: HostPort,
    /// How the way there is kept from others.
    pub tls: MailTls,
    /// Authorities in PEM to trust, instead of those that the system does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<String>,
    /// As whom to log in there.
    pub user: Option<String>,
    /// By what.
    pub password: Option<S>,
}

/// A syslog server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Syslog {
    /// Where it is.
    pub server: HostPort,
    /// How it is reached.
    pub transport: SyslogTransport,
    /// Authorities in PEM to trust, instead of those that the system does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<String>,
    /// Entries of the audit log go there too, each by itself.
    #[serde(default, skip_serializing_if = "is_off")]
    pub audit: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_off(switch: &bool) -> bool {
    !*switch
}

impl<S> Way<S> {
    /// The same with each secret made into something else; it is given the word for what the secret is.
    ///
    /// # Errors
    /// The first that `change` says.
    pub fn try_map<T, E>(
        self,
        mut change: impl FnMut(&'static str, S) -> Result<T, E>,
    ) -> Result<Way<T>, E> {
        Ok(match self {
            Self::Webhook(Webhook { url, roots, secret, token }) => Way::Webhook(Webhook {
                url,
                roots,
                secret: secret.map(|it| change("secret", it)).transpose()?,
                token: token.map(|it| change("token", it)).transpose()?,
            }),
            Self::Email(Email { to, from, smtp, tls, roots, user, password }) => {
                let password = password.map(|it| change("password", it)).transpose()?;
                Way::Email(Email { to, from, smtp, tls, roots, user, password })
            }
            Self::Syslog(syslog) => Way::Syslog(syslog),
        })
    }

    /// Refuses what cannot be; secrets are not looked at.
    ///
    /// # Errors
    /// [`DestinationError`]
    pub fn check(&self) -> Result<(), DestinationError> {
        let (roots, is_encrypted) = match self {
            Self::Webhook(Webhook { url, roots, token, .. }) => {
                if token.is_some() && !url.is_https() {
                    return Err(DestinationError::TokenInClear);
                }
                (roots, url.is_https())
            }
            Self::Email(email) => {
                email.check()?;
                (&email.roots, email.tls != MailTls::None)
            }
            Self::Syslog(Syslog { transport, roots, .. }) => {
                (roots, *transport == SyslogTransport::Tls)
            }
        };
        match roots {
            Some(_) if !is_encrypted => Err(DestinationError::RootsUnused),
            Some(pem)
                if pem.len() > ROOTS_BYTES_MAX || !pem.contains("-----BEGIN CERTIFICATE-----") =>
            {
                Err(DestinationError::Roots)
            }
            _ => Ok(()),
        }
    }
}

impl<S> Email<S> {
    fn check(&self) -> Result<(), DestinationError> {
        if !(1..=ADDRESSEES_MAX).contains(&self.to.len()) {
            return Err(DestinationError::Addressees(self.to.len()));
        }
        if self.user.is_some() != self.password.is_some() {
            return Err(DestinationError::HalfLogin);
        }
        if let Some(user) = &self.user {
            check_secret("user", user)?;
        }
        if self.password.is_some() && self.tls == MailTls::None {
            return Err(DestinationError::PasswordInClear);
        }
        Ok(())
    }
}

/// Refuses a secret that no header and no login can hold.
///
/// # Errors
/// [`DestinationError::Secret`]
pub fn check_secret(what: &'static str, text: &str) -> Result<(), DestinationError> {
    let fits = (1..=SECRET_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control);
    // What goes into a header of HTTP is plain.
    let is_plain = what != "token" || text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits && is_plain { Ok(()) } else { Err(DestinationError::Secret(what)) }
}

/// Which events go on, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Those that matter at least as much.
    pub severity: Severity,
    /// How long repeats of one are folded, in seconds.
    pub fold_seconds: u32,
    /// None goes on for now.
    #[serde(default)]
    pub paused: bool,
}

/// Where events go on to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destination<S> {
    /// A number that no other one has: what has gone on to one of the same name before is nothing of this one.
    pub id: u64,
    /// Events up to this number are none of its business.
    pub begins_after: u64,
    /// Which.
    pub choice: Choice,
    /// How.
    pub way: Way<S>,
}

impl Setting for Destination<crate::secrets::Sealed> {
    const WHAT: &'static str = "a destination of events";
}

/// What is to be changed of a destination; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in Destination and Choice")]
pub struct DestinationChange<S> {
    pub severity: Option<Severity>,
    pub fold_seconds: Option<u32>,
    pub paused: Option<bool>,
    /// With all of its secrets.
    pub way: Option<Way<S>>,
}

impl<S> Destination<S> {
    /// Refuses what cannot be.
    ///
    /// # Errors
    /// [`DestinationError`]
    pub fn check(&self) -> Result<(), DestinationError> {
        if !(1..=FOLD_SECONDS_MAX).contains(&self.choice.fold_seconds) {
            return Err(DestinationError::Fold);
        }
        self.way.check()
    }

    /// Changes it. Events that come while it is paused are not for it.
    ///
    /// # Errors
    /// [`DestinationError`]; then nothing is changed.
    pub fn change(
        &mut self,
        change: DestinationChange<S>,
        last_event: u64,
    ) -> Result<(), DestinationError>
    where
        S: Clone,
    {
        let DestinationChange { severity, fold_seconds, paused, way } = change;
        let before = self.choice;
        let choice = Choice {
            severity: severity.unwrap_or(before.severity),
            fold_seconds: fold_seconds.unwrap_or(before.fold_seconds),
            paused: paused.unwrap_or(before.paused),
        };
        let begins_after =
            if before.paused && !choice.paused { last_event } else { self.begins_after };
        let way = way.unwrap_or_else(|| self.way.clone());
        let changed = Self { id: self.id, begins_after, choice, way };
        changed.check()?;
        *self = changed;
        Ok(())
    }
}

/// Refuses a name that no destination can have.
///
/// # Errors
/// [`DestinationError::Name`]
pub fn check_name(name: &str) -> Result<(), DestinationError> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let begins_well = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    if begins_well && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_known) {
        Ok(())
    } else {
        Err(DestinationError::Name(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(url: &str, token: Option<&str>) -> Destination<String> {
        let url = url.parse().expect("a URL");
        let webhook = Webhook { url, roots: None, secret: None, token: token.map(str::to_owned) };
        let choice = Choice { severity: Severity::Warning, fold_seconds: 300, paused: false };
        Destination { id: 1, begins_after: 7, choice, way: Way::Webhook(webhook) }
    }

    fn email(tls: MailTls, login: Option<(&str, &str)>) -> Way<String> {
        Way::Email(Email {
            to: vec!["ops@example.com".parse().expect("an address")],
            from: "san@example.com".parse().expect("an address"),
            smtp: "mail.example.com:587".parse().expect("a server"),
            tls,
            roots: None,
            user: login.map(|(user, _)| user.to_owned()),
            password: login.map(|(_, password)| password.to_owned()),
        })
    }

    #[test]
    fn no_secret_goes_where_others_read_it() {
        assert_eq!(webhook("https://h/x", Some("t")).check(), Ok(()));
        assert_eq!(webhook("http://h/x", None).check(), Ok(()));
        let clear = webhook("http://h/x", Some("t")).check();
        assert_eq!(clear, Err(DestinationError::TokenInClear));
        assert_eq!(email(MailTls::None, None).check(), Ok(()));
        assert_eq!(email(MailTls::Starttls, Some(("al", "hush"))).check(), Ok(()));
        let clear = email(MailTls::None, Some(("al", "hush"))).check();
        assert_eq!(clear, Err(DestinationError::PasswordInClear));
        for bad in ["", "a\r\nb", "a\u{85}b", &"x".repeat(1025)] {
            assert!(check_secret("password", bad).is_err(), "{bad:?}");
        }
        assert!(check_secret("password", "zwölf wörter").is_ok());
        assert!(check_secret("token", "zwölf").is_err() && check_secret("token", "a b").is_err());
    }

    #[test]
    fn a_change_that_is_refused_changes_nothing_and_a_pause_is_not_made_up_for() {
        let mut known = webhook("https://h/x", Some("t"));
        let before = known.clone();
        let elsewhere = webhook("http://h/x", Some("t")).way;
        let change = DestinationChange { way: Some(elsewhere), ..DestinationChange::default() };
        assert_eq!(known.change(change, 20), Err(DestinationError::TokenInClear));
        let change = DestinationChange { fold_seconds: Some(0), ..DestinationChange::default() };
        assert_eq!(known.change(change, 20), Err(DestinationError::Fold));
        assert_eq!(known, before);
        let pause = |paused| DestinationChange { paused: Some(paused), ..Default::default() };
        known.change(pause(true), 20).unwrap();
        assert_eq!(known.begins_after, 7);
        known.change(pause(false), 30).unwrap();
        assert_eq!(known.begins_after, 30);
    }

    #[test]
    fn secrets_are_made_into_something_else_and_nothing_else_is() {
        let way = email(MailTls::Tls, Some(("al", "hush")));
        let shown = way.clone().try_map(|what, _| Ok::<_, ()>(what)).unwrap();
        let Way::Email(shown) = shown else { panic!("it is e-mail") };
        assert_eq!((shown.password, shown.user.as_deref()), (Some("password"), Some("al")));
        assert_eq!(way.clone().try_map(|_, text| Ok::<_, ()>(text)).unwrap(), way);
    }

    #[test]
    fn names_are_words_and_roots_are_for_tls() {
        assert!(check_name("ops-1.mail_x").is_ok());
        for bad in ["", "-a", "a b", "a/b", "a\n", &"a".repeat(41)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        let pem = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n".to_owned();
        let server: HostPort = "log.example.com".parse().unwrap();
        let syslog = |transport, roots| -> Way<String> {
            Way::Syslog(Syslog { server: server.clone(), transport, roots, audit: false })
        };
        assert_eq!(syslog(SyslogTransport::Tls, Some(pem.clone())).check(), Ok(()));
        let unused = syslog(SyslogTransport::Tcp, Some(pem)).check();
        assert_eq!(unused, Err(DestinationError::RootsUnused));
        let none = syslog(SyslogTransport::Tls, Some("x".to_owned())).check();
        assert_eq!(none, Err(DestinationError::Roots));
    }
}

//! Destinations of events in a file: `[webhook.NAME]`, `[email.NAME]` and `[syslog.NAME]`.
//!
//! Secrets are never told, and the URL of a webhook is one. So a file says by `signed`, `bearer` and `user` which there
//! are, and who changes where events go gives all of them again, by the names of files.

use super::diff::KeyDifference;
use super::plan::{needed, number, word};
use super::schema::{NO_USER, SYSTEM_TRUST, in_order};
use super::{Keys, Value};
use api::types::{
    ConfiguredDestination, DestinationChange, DestinationSecret, MailTls, NewDestination, NewEmail,
    NewWay, NewWebhook, Severity, Syslog, SyslogTransport, Way,
};

/// What a destination is that a file says nothing of.
const FOLD_SECONDS_USUAL: u32 = group::destinations::FOLD_SECONDS;

/// The kind of section of a destination, and its keys.
pub(super) fn of_destination(destination: &ConfiguredDestination) -> (&'static str, Keys) {
    let ConfiguredDestination { to, severity, fold_seconds, paused, .. } = destination;
    let text = |text: &str| Value::Text(text.to_owned());
    let trust = |roots: &Option<String>| text(roots.as_deref().unwrap_or(SYSTEM_TRUST));
    let (kind, way) = match to {
        Way::Webhook(webhook) => (
            "webhook",
            vec![
                ("server", text(&webhook.server)),
                ("signed", Value::Switch(webhook.has_secret)),
                ("bearer", Value::Switch(webhook.has_token)),
                ("trust", trust(&webhook.roots)),
            ],
        ),
        Way::Email(email) => (
            "email",
            vec![
                ("to", in_order(email.to.clone())),
                ("from", text(&email.from)),
                ("smtp", text(&email.smtp)),
                ("tls", text(mail_word(email.tls))),
                ("user", text(email.user.as_deref().unwrap_or(NO_USER))),
                ("trust", trust(&email.roots)),
            ],
        ),
        Way::Syslog(syslog) => (
            "syslog",
            vec![
                ("server", text(&syslog.server)),
                ("transport", text(transport_word(syslog.transport))),
                ("audit", Value::Switch(syslog.audit)),
                ("trust", trust(&syslog.roots)),
            ],
        ),
    };
    let choice = [
        ("severity", text(severity.word())),
        ("fold-seconds", Value::Number((*fold_seconds).into())),
        ("paused", Value::Switch(*paused)),
    ];
    (kind, way.into_iter().chain(choice).collect())
}

fn mail_word(tls: MailTls) -> &'static str {
    match tls {
        MailTls::None => "none",
        MailTls::Starttls => "starttls",
        MailTls::Tls => "tls",
    }
}

fn transport_word(transport: SyslogTransport) -> &'static str {
    match transport {
        SyslogTransport::Udp => "udp",
        SyslogTransport::Tcp => "tcp",
        SyslogTransport::Tls => "tls",
    }
}

/// Reads a secret of the section from the file that a key of it names; `None` where there is no such key.
type Secret<'a> = &'a dyn Fn(&'static str) -> Result<Option<String>, String>;

/// A destination that is only in the file.
///
/// # Errors
/// What has to be written, too.
pub(super) fn new(
    kind: &str,
    name: &str,
    keys: &Keys,
    secret: Secret<'_>,
) -> Result<NewDestination, String> {
    let severity = keys.get("severity").map(word::<Severity>).transpose()?;
    let fold_seconds = keys.get("fold-seconds").map(number).transpose()?;
    Ok(NewDestination {
        name: name.to_owned(),
        to: way(kind, keys, secret)?,
        severity: severity.unwrap_or(Severity::Warning),
        fold_seconds: fold_seconds.unwrap_or(FOLD_SECONDS_USUAL),
        paused: keys.get("paused") == Some(&Value::Switch(true)),
    })
}

/// What makes a destination of the member as the file says.
///
/// # Errors
/// What has to be written, too.
pub(super) fn change(
    kind: &str,
    keys: &Keys,
    differences: &[KeyDifference],
    is_lost: bool,
    secret: Secret<'_>,
) -> Result<DestinationChange, String> {
    let mut change = DestinationChange::default();
    for KeyDifference { key, file, .. } in differences {
        match (*key, file) {
            ("severity", severity) => change.severity = Some(word(severity)?),
            ("fold-seconds", seconds) => change.fold_seconds = Some(number(seconds)?),
            ("paused", Value::Switch(paused)) => change.paused = Some(*paused),
            _ => {}
        }
    }
    let is_choice = |key: &str| ["severity", "fold-seconds", "paused"].contains(&key);
    let moves = differences.iter().any(|difference| !is_choice(difference.key));
    if moves || is_lost {
        // What a file does not say would be forgotten.
        let all: &[&str] = match kind {
            "webhook" => &["signed", "bearer", "trust"],
            "email" => &["to", "from", "smtp", "tls", "user", "trust"],
            _ => &["server", "transport", "audit", "trust"],
        };
        if let Some(missing) = all.iter().find(|key| !keys.contains_key(*key)) {
            let why = match moves {
                true => "where it goes is to change",
                false => "its secrets are to be set anew",
            };
            return Err(format!(
                "{why}, and a file that says so says all of it: write {missing} too"
            ));
        }
        change.to = Some(way(kind, keys, secret)?);
    }
    Ok(change)
}

fn way(kind: &str, keys: &Keys, secret: Secret<'_>) -> Result<NewWay, String> {
    let text = |key: &str| match keys.get(key) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let roots = text("trust").filter(|trust| trust != SYSTEM_TRUST);
    // What is said to be there has to be given, and nothing else.
    let given = |key: &'static str, is_there: Option<bool>| -> Result<_, String> {
        match (is_there, secret(key)?) {
            (Some(true), None) => Err(format!(
                "its secrets are never told, and have to be given again: write {key} = \"FILE\""
            )),
            (Some(false), Some(_)) => Ok(None),
            (_, secret) => Ok(secret.map(DestinationSecret)),
        }
    };
    let is_on = |key: &str| keys.get(key).map(|value| *value == Value::Switch(true));
    Ok(match kind {
        "webhook" => {
            let url = secret("url-file")?;
            let url = url.ok_or(
                "its URL is a secret, which is never told and has to be given: write url-file = \"FILE\"",
            )?;
            NewWay::Webhook(NewWebhook {
                url,
                roots,
                secret: given("secret-file", is_on("signed"))?,
                token: given("token-file", is_on("bearer"))?,
            })
        }
        "email" => {
            let Value::Texts(to) = needed(keys, "to")? else {
                return Err("write to = [\"ADDRESS\"]".into());
            };
            needed(keys, "from").and(needed(keys, "smtp"))?;
            let user = text("user").filter(|user| user != NO_USER);
            let password = given("password-file", Some(user.is_some()))?;
            NewWay::Email(NewEmail {
                to: to.clone(),
                from: text("from").unwrap_or_default(),
                smtp: text("smtp").unwrap_or_default(),
                tls: keys.get("tls").map(word::<MailTls>).transpose()?.unwrap_or_default(),
                roots,
                user,
                password,
            })
        }
        _ => {
            needed(keys, "server")?;
            let transport = keys.get("transport").map(word::<SyslogTransport>).transpose()?;
            NewWay::Syslog(Syslog {
                server: text("server").unwrap_or_default(),
                transport: transport.unwrap_or_default(),
                roots,
                audit: is_on("audit") == Some(true),
            })
        }
    })
}

//! Events as e-mail: one for all that is to be told at a time (RFC 5322, RFC 5321).
//!
//! Names that hosts choose are in it. They are made one line each before they come near a header, and `lettre`
//! encodes what is not plain.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use group::destinations::{Email, MailTls};
use group::secrets::Secret;
use lettre::Address;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, AsyncTokioStream, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::extension::ClientId;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::bounded::{Lines, TooMuch};
use super::tls::{is_of_tls, shake};
use super::{SendError, Sender, connect, has_cause, place_of, said};
use crate::message::{Message, cut, line};

/// How long a server that has taken a letter may take for its goodbye.
const GOODBYE_TIME: Duration = Duration::from_secs(2);

/// When the last year ends whose number a date in a header can hold, in seconds since 1970.
const DATES_END_UNIX_SECONDS: u64 = 253_402_300_800;

/// The longest subject in bytes.
const SUBJECT_BYTES_MAX: usize = 150;

/// Sends all messages as one e-mail.
pub(super) async fn send(
    sender: &Sender,
    id: u64,
    email: &Email<Secret>,
    messages: &[Message],
) -> Result<(), SendError> {
    let place = place_of(&email.smtp);
    let letter = letter(sender, id, email, messages)?;
    let starttls = (email.tls == MailTls::Starttls).then(|| parameters(email)).transpose()?;
    let stream = open(email, &place).await?;
    converse(sender, email, stream, starttls, &letter).await.map_err(
        |Broken { error, at_login }| {
            let why = match at_login {
                // Some quote what they were told, and events are for more people than the password.
                true => error.status().map_or_else(
                    || "the login failed".to_owned(),
                    |code| format!("it refuses the user and the password (code {code})"),
                ),
                false => said(&error),
            };
            if error.is_tls() || is_of_tls(&error) || error.to_string().contains("STARTTLS") {
                SendError::Untrusted { place, why }
            } else if error.is_timeout() {
                SendError::Silent { place }
            } else if error.is_permanent()
                || error.is_transient()
                || error.is_response()
                || has_cause::<TooMuch>(&error)
            {
                SendError::refused(&place, &why)
            } else {
                SendError::Unreachable { place, why }
            }
        },
    )
}

/// Reaches the server, over TLS if that is there from the first byte on.
async fn open(email: &Email<Secret>, place: &str) -> Result<Box<dyn AsyncTokioStream>, SendError> {
    let usual = match email.tls {
        MailTls::None => 25,
        MailTls::Starttls => 587,
        MailTls::Tls => 465,
    };
    let stream = connect(&email.smtp, email.smtp.port_or(usual), place).await?;
    let peer = stream.peer_addr().map_err(|error| SendError::unreachable(place, &error))?;
    Ok(match email.tls {
        MailTls::None | MailTls::Starttls => Box::new(Lines::new(stream, peer)),
        MailTls::Tls => {
            let stream = shake(stream, &email.smtp, email.roots.as_deref(), place).await?;
            Box::new(Lines::new(stream, peer))
        }
    })
}

/// Why a letter was not taken.
struct Broken {
    error: smtp::Error,
    /// While it was said who sends it.
    at_login: bool,
}

impl From<smtp::Error> for Broken {
    fn from(error: smtp::Error) -> Self {
        Self { error, at_login: false }
    }
}

/// Speaks SMTP until the letter is taken.
async fn converse(
    sender: &Sender,
    email: &Email<Secret>,
    stream: Box<dyn AsyncTokioStream>,
    starttls: Option<TlsParameters>,
    letter: &lettre::Message,
) -> Result<(), Broken> {
    let hello = ClientId::Domain(sender.host.clone());
    let mut server = AsyncSmtpConnection::connect_with_transport(stream, &hello).await?;
    if let Some(parameters) = starttls {
        server.starttls(parameters, &hello).await?;
    }
    if let (Some(user), Some(password)) = (&email.user, &email.password) {
        let password = String::from_utf8_lossy(password.as_bytes()).into_owned();
        let login = Credentials::new(user.clone(), password);
        let admitted = server.auth(DEFAULT_MECHANISMS, &login).await;
        admitted.map_err(|error| Broken { error, at_login: true })?;
    }
    server.send(letter.envelope(), &letter.formatted()).await?;
    // It has the letter, whatever it says now.
    drop(timeout(GOODBYE_TIME, server.quit()).await);
    Ok(())
}

fn parameters(email: &Email<Secret>) -> Result<TlsParameters, SendError> {
    let place = place_of(&email.smtp);
    let untrusted = |error: lettre::transport::smtp::Error| SendError::untrusted(&place, &error);
    let mut builder = TlsParameters::builder(email.smtp.host.clone());
    if let Some(pem) = &email.roots {
        builder = builder.certificate_store(CertificateStore::None);
        // Each of them: the reader takes the first of a text.
        for one in pem.split_inclusive("-----END CERTIFICATE-----") {
            if one.contains("-----BEGIN CERTIFICATE-----") {
                let one = Certificate::from_pem(one.as_bytes()).map_err(untrusted)?;
                builder = builder.add_root_certificate(one);
            }
        }
    }
    builder.build_rustls().map_err(untrusted)
}

fn letter(
    sender: &Sender,
    id: u64,
    email: &Email<Secret>,
    messages: &[Message],
) -> Result<lettre::Message, SendError> {
    let unsendable = |error: &dyn std::error::Error| SendError::Unsendable(said(error));
    let mailbox = |text: &str| -> Result<Mailbox, SendError> {
        let address: Address = text.parse().map_err(|error| unsendable(&error))?;
        Ok(Mailbox::new(None, address))
    };
    let text = body(sender, messages);
    let number = messages.last().map_or(0, |message| message.record().number);
    // The same for what is sent again: a mail program shows it once. Numbers alone do not tell what is another
    // letter: a crash loses events that could not be written, and others get their numbers.
    let digest = u64::from_be_bytes(*Sha256::digest(&text).first_chunk().expect("it has 32 bytes"));
    let message_id = format!("<{id:016x}.{number}.{digest:016x}@{}>", sender.host);
    let mut builder = MessageBuilder::new()
        .from(mailbox(email.from.as_str())?)
        .subject(subject(sender, messages))
        .message_id(Some(message_id))
        // RFC 3834 §5: nobody is to answer by a machine.
        .raw_header(HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        ))
        .date(writable(SystemTime::now()))
        .header(ContentType::TEXT_PLAIN);
    for to in &email.to {
        builder = builder.to(mailbox(to.as_str())?);
    }
    builder.body(text).map_err(|error| unsendable(&error))
}

/// The nearest time to this that a header can hold: `lettre` panics at others, and a clock may be anywhere.
fn writable(now: SystemTime) -> SystemTime {
    now.clamp(UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(DATES_END_UNIX_SECONDS - 1))
}

fn subject(sender: &Sender, messages: &[Message]) -> String {
    let worst = messages.iter().map(|message| message.record().what.severity).max();
    let worst = worst.map_or("", |severity| severity.word());
    let host = &sender.host;
    let text = match messages {
        [one] => format!("[drystone {host}] {worst}: {}: {}", one.object(), one.text()),
        all => format!("[drystone {host}] {} events, the worst: {worst}", all.len()),
    };
    cut(&line(&text), SUBJECT_BYTES_MAX)
}

fn body(sender: &Sender, messages: &[Message]) -> String {
    let mut body = String::new();
    for message in messages {
        let what = &message.record().what;
        body.push_str(&format!(
            "{}  {}  {}  ({})\n    {}\n",
            what.severity.word(),
            message.moment(),
            message.object(),
            line(&what.kind),
            message.text()
        ));
        let advice = line(&(sender.advice)(what));
        if !advice.is_empty() {
            body.push_str(&format!("    What to do: {advice}\n"));
        }
        body.push('\n');
    }
    body.push_str(&format!("Sent by drystone on {}.\n", sender.host));
    body
}

#[cfg(test)]
mod tests {
    use lettre::message::header::{Date, Header};

    use super::*;

    #[test]
    fn a_clock_that_no_date_can_tell_is_no_panic() {
        let shown = |unix_seconds: i64| {
            let seconds = Duration::from_secs(unix_seconds.unsigned_abs());
            let now = if unix_seconds < 0 { UNIX_EPOCH - seconds } else { UNIX_EPOCH + seconds };
            format!("{:?}", Date::new(writable(now)).display())
        };
        assert!(shown(1_700_000_000).contains("Tue, 14 Nov 2023 22:13:20 +0000"));
        for later in [253_402_300_799, 253_402_300_800, i64::MAX / 2] {
            assert!(shown(later).contains("Fri, 31 Dec 9999 23:59:59 +0000"), "{later}");
        }
        assert!(shown(-1).contains("Thu, 01 Jan 1970 00:00:00 +0000"));
    }
}

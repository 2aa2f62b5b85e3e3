//! How a member joins a group: it asks at the door of one that is in it.
//!
//! ```text
//!  Prepare ─▶ what this member is ─▶ TLS to the door, whose authority the ticket names ─▶ the admission ─▶ Join
//! ```
//!
//! Until the door has proved that it is of the group of the ticket, nothing is said to it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use axum::http::{Request as HttpRequest, StatusCode};
use group::membership::Applicant;
use group::pki::{Authority, SERVER_NAME, Ticket, fingerprint};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use member::printable::printable;
use member::{Admission, GroupRequest, Request};
use rustls::CertificateError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zeroize::Zeroizing;

use super::addresses::{self, DoorAddress};
use super::admission::{ADMISSION_BYTES_MAX, Admitted, Asking, JOIN_PATH};
use super::app::{App, stopping};
use crate::client::door_client_config;
use crate::problem::{Code, Problem};
use crate::types::{JoinGroup, KnownGroup};

/// How long a connection may take to come about.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How long the other side may take to prove who it is.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How long the group may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Letters of another member's sentence that are passed on.
const SENTENCE_LETTERS_MAX: usize = 500;

/// Why a group does not let this member in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum JoinError {
    /// There is no connection.
    #[error("no member of a group answers at {door}: {why}")]
    Unreachable { door: DoorAddress, why: String },
    /// Something else answers there.
    #[error(
        "what answers at {0} does not prove that it is a member of a group: write the address and the port at which \
         one answers members"
    )]
    NoDoor(DoorAddress),
    /// It is not of the group that the ticket is for.
    #[error(
        "what answers at {0} is not of the group that the token was made in: the token or the address is wrong"
    )]
    OtherGroup(DoorAddress),
    /// Its certificate is of another time.
    #[error(
        "the certificate of the member at {0} is not valid by the clock of this machine: set the clocks of both, best \
         by NTP"
    )]
    Clock(DoorAddress),
    /// It was asked, and nobody knows what came of it.
    #[error(
        "the member at {0} was asked and gave no whole answer: make a new token there and try again, with the same name"
    )]
    NoAnswer(DoorAddress),
    /// It says something that is not known here.
    #[error(
        "the member at {0} answers in a way that this version does not understand: let both run the same version"
    )]
    Strange(DoorAddress),
    /// It says no.
    #[error("the group does not let this member in: {detail}")]
    Refused { code: Code, detail: String, retry_seconds: Option<u64> },
    /// This side cannot speak TLS.
    #[error("no TLS can be spoken with the member of the group: {0}")]
    Tls(String),
}

impl JoinError {
    const fn code(&self) -> Code {
        match self {
            Self::Unreachable { .. } | Self::NoDoor(_) | Self::NoAnswer(_) => Code::NotReached,
            Self::OtherGroup(_) => Code::OtherGroup,
            Self::Clock(_) => Code::ClockOff,
            Self::Strange(_) => Code::OtherVersion,
            Self::Refused { code, .. } => *code,
            Self::Tls(_) => Code::Failed,
        }
    }
}

impl From<JoinError> for Problem {
    fn from(error: JoinError) -> Self {
        let retry_seconds = match &error {
            JoinError::Refused { retry_seconds, .. } => *retry_seconds,
            _ => None,
        };
        Self { retry_seconds, ..Self::new(error.code(), error.to_string()) }
    }
}

/// Has the member join a group. It does so to its end, also when whoever asked has left: an admission that came is not
/// lost.
pub(super) async fn join(app: &Arc<App>, join: JoinGroup) -> Result<KnownGroup, Problem> {
    let alone = app.joining.clone().try_lock_owned().map_err(|_| {
        let sentence = "this member is about to join a group: wait for what comes of it";
        Problem::new(Code::TooBusy, sentence)
    })?;
    let app = app.clone();
    let work = tokio::spawn(async move {
        let outcome = carry_out(&app, join).await;
        drop(alone);
        outcome
    });
    work.await.unwrap_or_else(|_| Err(stopping()))
}

async fn carry_out(app: &App, join: JoinGroup) -> Result<KnownGroup, Problem> {
    let JoinGroup { group, token, member, listen, replace_settings } = join;
    let token = Zeroizing::new(token);
    let invalid = |why: String| Problem::new(Code::Invalid, why);
    let ticket = token.parse::<Ticket>().map_err(|why| invalid(why.to_string()))?;
    let door = group.parse::<DoorAddress>().map_err(|why| invalid(why.to_string()))?;
    let listen = addresses::listen(&listen).map_err(|why| invalid(why.to_string()))?;
    let prepare = GroupRequest::Prepare { member, listen };
    let mut applicant: Applicant = app.ask(Request::Group(prepare)).await?;
    applicant.clock_unix_seconds = unix_seconds();
    let admission = ask_at(&door, &ticket, &applicant).await?;
    applicant.certificate_sha256 = certificate_sha256(&admission).unwrap_or_default();
    let join = GroupRequest::Join { applicant, admission: Box::new(admission), replace_settings };
    app.ask(Request::Group(join)).await
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Asks to be let in by this ticket.
async fn ask_at(
    door: &DoorAddress,
    ticket: &Ticket,
    applicant: &Applicant,
) -> Result<Admission, JoinError> {
    let stream = shake_hands(door, &ticket.authority_sha256).await?;
    let (id, secret) = (ticket.id.as_str(), ticket.secret.as_str());
    let asking = Asking { id, secret, applicant: applicant.clone() };
    let body = serde_json::to_vec(&asking).expect("an applicant is plain text and numbers");
    let heard = timeout(ANSWER_TIME, hear(stream, body)).await.ok().flatten();
    let heard = heard.ok_or_else(|| JoinError::NoAnswer(door.clone()))?;
    let admission = heard.judge(door)?;
    if !is_of(&admission, ticket) {
        return Err(JoinError::Strange(door.clone()));
    }
    Ok(admission)
}

/// A connection on which the other side has proved to be of the group.
async fn shake_hands(
    door: &DoorAddress,
    authority_sha256: &str,
) -> Result<TlsStream<TcpStream>, JoinError> {
    let unreachable = |why: String| JoinError::Unreachable { door: door.clone(), why };
    let config = door_client_config(authority_sha256).map_err(JoinError::Tls)?;
    let connector = TlsConnector::from(Arc::new(config));
    let connected = timeout(CONNECT_TIME, TcpStream::connect((door.host.as_str(), door.port)));
    let stream = match connected.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(unreachable(error.to_string())),
        Err(_) => {
            let seconds = CONNECT_TIME.as_secs();
            return Err(unreachable(format!("nothing was heard within {seconds} seconds")));
        }
    };
    stream.set_nodelay(true).map_err(|error| unreachable(error.to_string()))?;
    let name = ServerName::try_from(SERVER_NAME).expect("it is a name");
    match timeout(HANDSHAKE_TIME, connector.connect(name, stream)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(refused(door, &error)),
        Err(_) => Err(JoinError::NoDoor(door.clone())),
    }
}

/// Why no TLS came about.
fn refused(door: &DoorAddress, error: &io::Error) -> JoinError {
    let error = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(why)) = error else {
        return JoinError::NoDoor(door.clone());
    };
    match why {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => JoinError::Clock(door.clone()),
        _ => JoinError::OtherGroup(door.clone()),
    }
}

/// What was answered.
struct Heard {
    status: StatusCode,
    retry_seconds: Option<u64>,
    body: Bytes,
}

/// Says it, and hears the answer; `None` where there is no whole one.
async fn hear(stream: TlsStream<TcpStream>, body: Vec<u8>) -> Option<Heard> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    // It ends when the answer was heard, or is not waited for any more.
    tokio::spawn(connection);
    let request = HttpRequest::post(JOIN_PATH)
        .header(HOST, SERVER_NAME)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .expect("all of it is constant but for the body");
    let response = sender.send_request(request).await.ok()?;
    let status = response.status();
    let retry = response.headers().get(RETRY_AFTER);
    let retry_seconds = retry.and_then(|value| value.to_str().ok()?.parse().ok());
    let body = Limited::new(response.into_body(), ADMISSION_BYTES_MAX).collect().await.ok()?;
    Some(Heard { status, retry_seconds, body: body.to_bytes() })
}

/// A problem as another version may write it.
#[derive(Deserialize)]
struct Refusal {
    code: String,
    detail: String,
}

impl Heard {
    /// What it means. An answer that does not read is not repeated: keys may be in it.
    fn judge(&self, door: &DoorAddress) -> Result<Admission, JoinError> {
        let strange = || JoinError::Strange(door.clone());
        if self.status.is_success() {
            let admitted: Result<Admitted<String>, _> = serde_json::from_slice(&self.body);
            return admitted.map(Into::into).map_err(|_| strange());
        }
        let refusal: Refusal = serde_json::from_slice(&self.body).map_err(|_| strange())?;
        let known = Code::ALL.iter().copied().find(|code| code.word() == refusal.code);
        match known {
            Some(Code::NoSuchPath | Code::MethodNotAllowed) => Err(strange()),
            // A kind of a later version, or one that asks for a login.
            None | Some(Code::NotLoggedIn) => Err(self.refused(Code::WrongState, &refusal.detail)),
            Some(code) => Err(self.refused(code, &refusal.detail)),
        }
    }

    fn refused(&self, code: Code, detail: &str) -> JoinError {
        let detail: String = printable(detail).chars().take(SENTENCE_LETTERS_MAX).collect();
        JoinError::Refused { code, detail, retry_seconds: self.retry_seconds }
    }
}

/// Whether an admission is to the group of a ticket, with the key of its authority.
fn is_of(admission: &Admission, ticket: &Ticket) -> bool {
    let authority = Authority::read(&admission.authority, &admission.authority_key.0);
    authority.is_ok_and(|authority| authority.sha256() == ticket.authority_sha256)
}

/// The SHA-256 of the new member's certificate.
fn certificate_sha256(admission: &Admission) -> Option<String> {
    let certificate = CertificateDer::from_pem_slice(admission.certificate.as_bytes()).ok()?;
    Some(fingerprint(&certificate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> DoorAddress {
        "192.0.2.1".parse().unwrap()
    }

    fn judged(status: u16, body: &str) -> JoinError {
        let status = StatusCode::from_u16(status).unwrap();
        let heard = Heard { status, retry_seconds: Some(7), body: body.to_owned().into() };
        heard.judge(&door()).unwrap_err()
    }

    fn refusal(code: &str, detail: &str) -> String {
        serde_json::json!({"code": code, "detail": detail, "colour": "red"}).to_string()
    }

    #[test]
    fn a_refusal_is_passed_on_with_its_code_and_obeyed_by_no_terminal() {
        let refused = judged(409, &refusal("name-taken", "there is 'a'\u{1b}[2J"));
        let told = Problem::from(refused);
        assert_eq!((told.code, told.retry_seconds), (Code::NameTaken, Some(7)));
        let wanted = "the group does not let this member in: there is 'a'\\u{1b}[2J";
        assert_eq!(told.detail, wanted);
        let long = judged(409, &refusal("name-taken", &"x".repeat(5000)));
        assert!(long.to_string().len() < 600);
        for unknown in ["no-room-on-the-moon", "not-logged-in"] {
            let told = Problem::from(judged(409, &refusal(unknown, "no")));
            assert_eq!(told.code, Code::WrongState, "{unknown}");
        }
    }

    #[test]
    fn what_does_not_read_is_not_repeated() {
        for (status, body) in [
            (200, "{\"key\": \"hush\"}"),
            (200, "hush"),
            (500, "<html>hush</html>"),
            (404, &refusal("no-such-path", "hush")),
        ] {
            let strange = judged(status, body);
            assert_eq!(strange, JoinError::Strange(door()), "{status} {body}");
            assert_eq!(Problem::from(strange).code, Code::OtherVersion);
        }
    }

    #[test]
    fn what_is_wrong_with_a_certificate_tells_clocks_from_groups() {
        let refused = |error: rustls::Error| {
            refused(&door(), &io::Error::new(io::ErrorKind::InvalidData, error))
        };
        let of = |error: CertificateError| refused(rustls::Error::InvalidCertificate(error));
        assert_eq!(of(CertificateError::NotValidYet), JoinError::Clock(door()));
        assert_eq!(of(CertificateError::Expired), JoinError::Clock(door()));
        assert_eq!(of(CertificateError::UnknownIssuer), JoinError::OtherGroup(door()));
        assert_eq!(of(CertificateError::NotValidForName), JoinError::OtherGroup(door()));
        let other = refused(rustls::Error::DecryptError);
        assert_eq!(other, JoinError::NoDoor(door()));
        let broken = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(super::refused(&door(), &broken), JoinError::NoDoor(door()));
    }
}

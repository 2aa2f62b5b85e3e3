//! Why another member does not do what it is to do.

use std::error::Error;
use std::io;
use std::net::SocketAddr;

use group::ownership::MemberId;
use rustls::{AlertDescription, CertificateError};

use crate::problem::{Code, Problem};

/// Why a request that is for another member has no answer of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CarryError {
    /// No other member is known.
    #[error(
        "this member is in no group, or has not heard of its group since it was started: no other member can be asked"
    )]
    NoGroup,
    /// It has left.
    #[error("{0} is not in the group any more")]
    Gone(MemberId),
    /// It was carried already.
    #[error("what one member carries to another is done there: it is not carried on")]
    Again,
    /// There is no connection, although it gives signs of life.
    #[error(
        "member '{member}' cannot be reached at {address}: {why}; let port {} of it through between the members, or \
         name another member with --on",
        .address.port()
    )]
    Unreachable { member: String, address: SocketAddr, why: String },
    /// There is no connection, and it gives no signs of life.
    #[error(
        "member '{member}' is away: it cannot be reached at {address}: {why}; if it runs, let port {} of it through \
         between the members, or name another member with --on",
        .address.port()
    )]
    Away { member: String, address: SocketAddr, why: String },
    /// Its machine takes a connection, and the program says nothing.
    #[error(
        "member '{member}' says nothing: its machine took the connection, and nothing was heard within {seconds} seconds; \
         look there whether drystone hangs, or name another member with --on"
    )]
    Silent { member: String, seconds: u64 },
    /// It has no port for it.
    #[error(
        "member '{0}' has no port for requests of other members: remove it, and have it join with another port"
    )]
    NoPort(String),
    /// Something else answers there.
    #[error(
        "what answers at {address} does not prove that it is member '{member}': nothing was asked of it"
    )]
    Another { member: String, address: SocketAddr },
    /// A certificate is of another time.
    #[error(
        "the clocks of this member and of member '{0}' are too far apart: set both, best by NTP"
    )]
    Clock(String),
    /// It does not take this one for a member.
    #[error(
        "member '{0}' does not know this one as a member of its group: it has not heard of it yet, or this one was \
         removed"
    )]
    NotKnown(String),
    /// As many requests as may be are under way to it.
    #[error(
        "as many requests as may be at once, or as many of yours, are under way to member '{0}': try again when some have \
         ended"
    )]
    Busy(String),
    /// There is no whole answer to what changes nothing.
    #[error("member '{0}' was asked and gave no whole answer: try again")]
    NoAnswer(String),
    /// There is no answer to a change.
    #[error(
        "member '{0}' was asked and gave no whole answer: look whether it has done it before you ask again"
    )]
    NobodyKnows(String),
    /// It went away before it had answered.
    #[error(
        "member '{0}' went away while it was asked: look whether it has done it when it is back"
    )]
    WentAway(String),
    /// It says something that is not known here.
    #[error(
        "member '{0}' answers in a way that this version does not understand: let all members run the same version"
    )]
    Strange(String),
    /// It lists more than is merged.
    #[error("member '{0}' lists more than can be shown of all members at once: ask it alone")]
    TooLong(String),
    /// This side cannot speak TLS.
    #[error("no TLS can be spoken with other members: {0}")]
    Tls(String),
}

impl CarryError {
    const fn code(&self) -> Code {
        match self {
            Self::NoGroup => Code::NoGroup,
            Self::Gone(_) => Code::NoSuchMember,
            Self::Again | Self::TooLong(_) | Self::Tls(_) => Code::Failed,
            Self::Unreachable { .. }
            | Self::Away { .. }
            | Self::Silent { .. }
            | Self::NoPort(_)
            | Self::NotKnown(_) => Code::NotReached,
            Self::Another { .. } => Code::OtherGroup,
            Self::Clock(_) => Code::ClockOff,
            Self::Busy(_) => Code::TooBusy,
            // It may have done what it was asked: it is not one that was not reached.
            Self::NoAnswer(_) | Self::NobodyKnows(_) | Self::WentAway(_) => Code::Unavailable,
            Self::Strange(_) => Code::OtherVersion,
        }
    }
}

impl From<CarryError> for Problem {
    fn from(error: CarryError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// What TLS says of an error that it was the cause of.
pub(super) fn of_tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        // What an `io::Error` holds is not its source.
        let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(found) = held.and_then(|held| held.downcast_ref::<rustls::Error>()) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Whether it is about a certificate whose time is not now, by the clock of either side.
pub(super) const fn is_about_time(error: &rustls::Error) -> bool {
    matches!(
        error,
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        ) | rustls::Error::AlertReceived(AlertDescription::CertificateExpired)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    #[test]
    fn who_was_asked_is_told_from_who_was_not_reached() {
        let (member, address) = ("right".to_owned(), "127.0.0.1:3265".parse().unwrap());
        let why = "no route to host".to_owned();
        let problem = Problem::from(CarryError::Unreachable { member, address, why });
        assert_eq!(problem.code, Code::NotReached);
        let wanted = "at 127.0.0.1:3265: no route to host; let port 3265 of it through between";
        assert!(problem.detail.contains(wanted), "{problem}");
        // Nothing of these is tried on another member.
        let named = || "right".to_owned();
        let asked: [fn(String) -> CarryError; 3] =
            [CarryError::NoAnswer, CarryError::NobodyKnows, CarryError::WentAway];
        for error in asked.map(|error| error(named())) {
            assert_eq!(error.code(), Code::Unavailable, "{error}");
        }
    }

    #[test]
    fn what_tls_says_is_found_below_what_others_say_of_it() {
        let alert = rustls::Error::AlertReceived(AlertDescription::AccessDenied);
        let outer = Outer(io::Error::new(io::ErrorKind::InvalidData, alert.clone()));
        assert_eq!(of_tls(&outer), Some(&alert));
        let outer = Outer(io::Error::from(io::ErrorKind::UnexpectedEof));
        assert_eq!(of_tls(&outer), None);
    }

    #[test]
    fn what_is_wrong_with_the_time_is_told_from_what_else_is_wrong() {
        let of = |why: CertificateError| rustls::Error::InvalidCertificate(why);
        for error in [
            of(CertificateError::Expired),
            of(CertificateError::NotValidYet),
            rustls::Error::AlertReceived(AlertDescription::CertificateExpired),
        ] {
            assert!(is_about_time(&error), "{error}");
        }
        assert!(!is_about_time(&of(CertificateError::UnknownIssuer)));
        let denied = rustls::Error::AlertReceived(AlertDescription::AccessDenied);
        assert!(!is_about_time(&denied));
    }
}

//! The options of a server, checked against each other and with secrets read.

use crate::access::secret::{self, Login, SecretError, Sources};
use crate::cli::serve::ServeArgs;
use std::net::SocketAddr;
use thiserror::Error;

/// What is left to do once the command line has been read.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What hosts must prove.
    pub(crate) chap: Option<Login>,
    /// What the target proves.
    pub(crate) mutual: Option<Login>,
}

/// Options that do not go together.
#[derive(Debug, Error)]
pub(crate) enum PlanError {
    /// A secret that cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// CHAP in the direction that alone proves nothing about the host.
    #[error("mutual CHAP needs CHAP: write --chap USER:SECRET beside --mutual-chap")]
    MutualAlone,
    /// RFC 7143 9.2.1 forbids it: one side's answer would serve as the other's.
    #[error("CHAP and mutual CHAP have the same secret: write a different one for --mutual-chap")]
    SameSecret,
    /// The same address again.
    #[error("the portal {0} is given twice: write it once")]
    PortalTwice(SocketAddr),
}

impl PlanError {
    /// Whether it may be otherwise when it is tried again, without anybody's doing: a file that could not be read.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Secret(error) if error.may_pass())
    }
}

impl Plan {
    /// Checks `args` as a whole; `environment` gives the value of a variable.
    pub(crate) fn of(
        args: &ServeArgs,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Plan, PlanError> {
        check_portals(&args.portals)?;
        let read = |option, text, file| {
            let variable = environment(&secret::variable(option)).filter(|text| !text.is_empty());
            Sources { option, text, file, environment: variable.as_deref() }.read()
        };
        let chap = read("chap", args.chap.as_ref(), args.chap_file.as_deref())?;
        let mutual =
            read("mutual-chap", args.mutual_chap.as_ref(), args.mutual_chap_file.as_deref())?;
        match (&chap, &mutual) {
            (None, Some(_)) => Err(PlanError::MutualAlone),
            (Some(one), Some(other)) if one.secret == other.secret => Err(PlanError::SameSecret),
            _ => Ok(Plan { chap, mutual }),
        }
    }
}

/// Port 0 takes a free port each time, so it may repeat.
fn check_portals(portals: &[SocketAddr]) -> Result<(), PlanError> {
    let twice = first_repeated(portals.iter().filter(|portal| portal.port() != 0));
    twice.map_or(Ok(()), |portal| Err(PlanError::PortalTwice(*portal)))
}

/// The first of `items` that was there before.
pub(crate) fn first_repeated<T: PartialEq>(items: impl Iterator<Item = T>) -> Option<T> {
    let mut seen = Vec::new();
    for item in items {
        if seen.contains(&item) {
            return Some(item);
        }
        seen.push(item);
    }
    None
}
